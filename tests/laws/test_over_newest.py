"""A step over newest records: exact once all is corrected, and in time what the log says."""

from pathlib import Path
from typing import Any

import pytest

from tests import chains
from tests.lakes import make_lake
from tests.newest import NEWEST, SUMMED, summed
from tests.steps import CASES

pytestmark = pytest.mark.law


def test_what_is_over_newest_records_is_corrected_with_them(tmp_path: Path) -> None:
    source: dict[str, Any] = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"}
    lake = make_lake(tmp_path, (NEWEST, CASES["sites"][1]), source=source)
    lake.query()
    one = chains.over(lake, "first", SUMMED, {"site": "string", "code": "long"})
    one.query()
    changed = 0
    for number in chains.rounds(lake, one):
        assert chains.timely(one) == chains.must_be_timely(one, summed, 1, 4)
        changed += one.correct()
        if number % 4 == chains.CORRECTED:
            mark = chains.watermark(one)
            assert chains.in_force(one) == chains.closed(summed(chains.in_force(lake)), 4, mark)
    assert changed > 0
