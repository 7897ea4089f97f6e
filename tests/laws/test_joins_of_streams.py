"""Joins of two streams behind one door: whichever is silent, or ends first."""

import random
from pathlib import Path

import pytest

from penstock.lake.ingest import door as door_module
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests.joins import check_settled, check_stream
from tests.rarely import rare
from tests.streams import write_jsonl
from tests.two_streams import CASES, COLUMNS, Life, lake_of, rows_of
from tests.worlds import living

pytestmark = pytest.mark.law


@pytest.mark.parametrize("name", [*CASES])
@pytest.mark.parametrize("seed", [0, *map(rare, range(1, 12))])
def test_a_life_of_a_join_of_two_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 4)
    life = Life(tmp_path, CASES[name], seed)
    for _ in living(life, 70):
        check_stream(life.lake, life.case)
    assert life.kills
    life.finish()
    check_stream(life.lake, life.case)
    assert check_settled(life.lake, life.case)
    assert not life.lake.correct(recheck=True)


def test_one_stream_s_files_before_the_other_s_make_nobody_late(tmp_path: Path) -> None:
    """The watermark is the least of both, and the door takes from the one that is behind."""
    lake, draw = lake_of(tmp_path, CASES["any"], ("bounded", "bounded")), random.Random(4)  # noqa: S311
    for name in COLUMNS:
        for number in range(6):
            rows = sorted(rows_of(draw, name, 12, 6 * number), key=lambda row: row["at"])
            write_jsonl(tmp_path / name / f"{number}.jsonl", rows)
    lake.query()
    lake.ingest()
    lake.query(blocks=1).run()
    kinds = [(r["stream"], r["kind"]) for r in read_table(Table(lake.tables.blocks())).to_pylist()]
    assert {("cars", "end"), ("cameras", "end")} <= {*kinds}
    check_stream(lake, CASES["any"])
    lake.correct()
    assert check_settled(lake, CASES["any"])
