"""More keys than anybody expected."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.lake.history.balance import balance
from penstock.lake.history.standing import answers_in_force
from tests.lakes import make_lake
from tests.steps import CASES
from tests.streams import BEGIN

MANY = 1_000_000


@pytest.mark.all
def test_a_million_keys_are_a_million_answers(tmp_path: Path) -> None:
    source = {"files": str(tmp_path / "live"), "format": "parquet", "mode": "bounded"}
    lake = make_lake(tmp_path, CASES["sites"], source=source)
    lake.query()
    times = pa.array([BEGIN + timedelta(seconds=i // 50_000) for i in range(MANY)])
    names = pc.binary_join_element_wise("key", pc.cast(pa.array(range(MANY)), pa.string()), " ")
    (tmp_path / "live").mkdir()
    pq.write_table(
        pa.table({"event_time": times, "site": names, "delay": pa.repeat(1.0, MANY)}),
        tmp_path / "live" / "a.parquet",
    )
    assert lake.ingest() == MANY
    lake.query(blocks=1_000).run()
    answers = answers_in_force(lake.tables, lake.step)
    assert answers.num_rows == 3 * MANY, "three windows hold each record"
    assert pc.count_distinct(answers["site"]).as_py() == MANY
    assert set(pc.unique(answers["n"]).to_pylist()) == {1}
    found = balance(lake.tables, lake.step)
    assert found is not None
    assert (found.received, found.pairs, found.on_time) == (MANY, 3 * MANY, 3 * MANY)
