"""Keys of side data of every type, and conditions by event time: stream, correction and audit find
what plain Python finds."""

import random
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.kinds.lookup import raw
from penstock.lake.history.standing import answers_in_force
from penstock.lake.ingest import door as door_module
from penstock.spark.correct import correct_pipeline
from tests import lookup_model as model
from tests.forgery import audited
from tests.lakes import make_lake
from tests.lookups import MOVED, NOBODY, alarms, logged, seen
from tests.side import taken_at_once
from tests.spark.answering import answer
from tests.steps import COLUMNS
from tests.streams import SECOND, write_jsonl

__all__ = ["taken_at_once"]
pytestmark = pytest.mark.spark
WHENS = [datetime(2026, 3, day, 1, 2, 3, 456_789, tzinfo=UTC) for day in (28, 29)]
TYPES = {"code": pa.int64(), "live": pa.bool_(), "site": pa.string(),
         "since": pa.timestamp("us", "UTC")}  # fmt: skip
"""Doubles are refused: they do not compare safely."""
STEP = MOVED | {
    "columns": ["code", "live", "since"],
    "load": {"limits": {"code": "earlier.code", "live": "new.live", "site": "new.site",
                        "since": "later.since"}},
    "alarm": "later.code > earlier.code AND apart < limits.seconds AND new.site <> 'b'",
}  # fmt: skip
LOAD = {"limits": {"files": "limits.parquet", "keys": [*TYPES],
                   "columns": {"code": "long", "live": "boolean", "site": "string",
                               "since": "timestamp", "seconds": "long"}}}  # fmt: skip


def test_keys_of_every_type(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(7)  # noqa: S311
    combined = product(range(3), (False, True), "abc", WHENS)
    limits = {keys: draw.choice([0, 5, 30, 600]) for keys in combined if draw.random() < 0.8}
    columns = {name: pa.array([keys[at] for keys in limits], kind)
               for at, (name, kind) in enumerate(TYPES.items())}  # fmt: skip
    file = pa.table(columns | {"seconds": pa.array([*limits.values()], pa.int64())})
    pq.write_table(file, tmp_path / "limits.parquet")
    rows = seen(draw, 400)
    for row in rows:
        row["live"], row["since"] = draw.random() < 0.5, draw.choice([*WHENS, *WHENS, None])
    monkeypatch.setattr(model, "matches", matches_by(limits, rows))
    monkeypatch.setattr(door_module, "BLOCK", 40)
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "bounded"}
    declared = COLUMNS | {"since": "timestamp"}
    lake = make_lake(tmp_path, (STEP, NOBODY), load=LOAD, source=source, columns=declared)
    write_jsonl(tmp_path / "live" / "0.jsonl", rows)
    answer(quick, lake, 90, shards=0)
    correct_pipeline(quick, lake.tables, lake.pipeline, lake.clock, "r")
    found = alarms(answers_in_force(lake.tables, lake.step))
    assert found == model.true_pairs(logged(lake), "consecutive")
    assert {rows[new]["since"] for _, new in found} >= {*WHENS}
    disordered = [
        (old, new) for old, new in found if rows[old]["event_time"] > rows[new]["event_time"]
    ]
    assert disordered
    record = pa.Table.from_pylist([row | {"_seq": seq} for seq, row in enumerate(rows)])
    with duckdb.connect() as connection:
        connection.register("record", record)
        connection.register("limits", file)
        config = lake.pipeline.steps["s"]
        sql = raw.answers(lake.step, config, {"limits": "limits"})
        told = connection.sql(f"SELECT old_seq, new_seq FROM ({sql})").fetchall()
    assert {*told} == found
    verdict = audited(quick, lake)
    assert (verdict.red, verdict.row["pending_answers"]) == (set(), 0)
    assert verdict.row["answers_compared"] == len(found)


def matches_by(limits: dict[Any, int], rows: list[dict[str, Any]]) -> Any:
    """Whether two neighbours fit the limits, looked up by columns of both."""

    def matches(one: model.Record, other: model.Record, pairs: Any) -> bool:
        del pairs
        new = rows[max(one.seq, other.seq)]
        earlier, later = rows[min(one, other).seq], rows[max(one, other).seq]
        keys = (earlier["code"], new["live"], new["site"], later["since"])
        apart = abs(one.time - other.time) * SECOND / 1_000_000
        most = limits.get(keys)
        fits = later["code"] > earlier["code"] and new["site"] != "b"
        return fits and most is not None and apart < most

    return matches
