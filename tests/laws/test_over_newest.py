"""A step over newest records: exact once all is corrected, and in time what the log says."""

from pathlib import Path
from typing import Any

import pytest

from tests import chains
from tests.lakes import make_lake
from tests.newest import NEWEST, SUMMED, summed
from tests.steps import CASES
from tests.streams import disordered, write_jsonl

pytestmark = pytest.mark.law


def test_what_is_over_newest_records_is_corrected_with_them(tmp_path: Path) -> None:
    source: dict[str, Any] = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"}
    lake = make_lake(tmp_path, (NEWEST, CASES["sites"][1]), source=source)
    lake.query()
    one = chains.over(lake, "first", SUMMED, {"site": "string", "code": "long"})
    one.query()
    rows = [*disordered(360, seed=2, apart=6.0, late_share=0.25, late_by=90.0)]
    changed = 0
    for number in range(12):
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", rows[30 * number : 30 * (number + 1)])
        lake.ingest()
        lake.query().run()
        if number % 4 == 2:
            lake.correct()
        one.feed().catch_up()
        if number % 4 == 3:
            one.forget()
        one.query(blocks=1).run()
        assert chains.timely(one) == chains.must_be_timely(one, summed, 1, 4)
        changed += one.correct()
        if number % 4 == 2:
            mark = chains.watermark(one)
            assert chains.in_force(one) == chains.closed(summed(chains.in_force(lake)), 4, mark)
    assert changed > 0
