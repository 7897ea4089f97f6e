"""Shed records are withheld from the stream, counted, and repaired like late ones.

Which they are is a sample by position of a ratio that the door adopted: so what is timely stays a
function of the log, whoever dies whenever.
"""

import random
from pathlib import Path

import pytest

from penstock.lake.history.correction import pending_count
from penstock.lake.history.position import position
from penstock.lake.ingest import door as door_module
from tests.joins import CASES as JOINS
from tests.joins import check_settled, check_stream, join_lake, oracle_of, seen
from tests.lakes import make_lake, some_rows
from tests.rarely import rare
from tests.steps import CASES
from tests.streams import write_jsonl
from tests.worlds import Shedding, living

pytestmark = pytest.mark.law


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)


@pytest.mark.parametrize(
    ("name", "seed"), [("sites", 1), ("both", 2), *(rare(n, s) for s in (3, 4) for n in CASES)]
)
def test_whoever_dies_whenever_answers_become_exact(tmp_path: Path, name: str, seed: int) -> None:
    world = Shedding(tmp_path, CASES[name], seed)
    for _ in living(world, 60):
        world.lake.check()
    world.finish()
    world.lake.check()
    assert world.counts["sheds"]
    assert not world.lake.correct()
    assert not world.lake.correct(recheck=True)
    assert not pending_count(world.lake.tables, world.lake.step)


def test_what_was_shed_of_an_open_window_waits_until_it_closes(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, CASES["sites"], source={
        "files": str(tmp_path / "live"), "format": "jsonl", "mode": "live",
        "idle_after": "P1D"})  # fmt: skip
    (tmp_path / "live").mkdir()
    lake.query()
    lake.shed(100)
    rows = [row for row in some_rows(120, 7) if not isinstance(row, str)]
    early, late = rows[:60], rows[60:]
    write_jsonl(tmp_path / "live" / "0.jsonl", early)
    lake.ingest()
    lake.query().run()
    at = position(lake.tables, lake.step)
    assert at is not None
    assert at.sealed.open_pairs == 0, "nothing of it is in the state"
    lake.correct()
    assert not lake.correct(), "what is open cannot be repaired"
    assert not pending_count(lake.tables, lake.step)
    first = len(lake.in_force())
    lake.shed(0)
    write_jsonl(tmp_path / "live" / "1.jsonl", late)
    lake.ingest()
    lake.query().run()
    assert pending_count(lake.tables, lake.step)
    lake.check()
    assert lake.correct()
    assert len(lake.in_force()) > first
    lake.check()
    assert not lake.correct(recheck=True)


@pytest.mark.parametrize("name", [*JOINS])
@pytest.mark.parametrize("seed", [0, rare(1)])
def test_pairs_of_shed_records_are_found_by_corrections(
    tmp_path: Path, name: str, seed: int
) -> None:
    """Beside those before them, and beside those that came long after."""
    draw = random.Random(f"{name} {seed}")  # noqa: S311
    lake, apart = join_lake(tmp_path, name), JOINS[name].apart
    many = 1 if apart == 1 else 4
    (tmp_path / "live").mkdir(exist_ok=True)
    lake.query()
    for number in range(8):
        lake.shed(draw.choice([0, 25, 60, 100]))
        rows = seen(draw, many * draw.randint(1, 12), apart, many * 6 * number)
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", rows)
        lake.ingest()
        query = lake.query(blocks=draw.randint(1, 3), shards=draw.choice((1, 2, 4)))
        while query.work():
            check_stream(lake, JOINS[name])
        if draw.random() < 0.6:
            lake.correct()
            check_settled(lake, JOINS[name])
            assert not lake.correct(), "twice is once"
    lake.correct()
    assert check_settled(lake, JOINS[name])
    assert not lake.correct(recheck=True)
    assert not pending_count(lake.tables, lake.step)


@pytest.mark.parametrize(("name", "seed"), [("far", 5), rare("same", 6), rare("month", 7)])
def test_whoever_dies_whenever_pairs_become_exact(tmp_path: Path, name: str, seed: int) -> None:
    world = Shedding(tmp_path, oracle_of(name), seed)
    for _ in living(world, 60):
        check_stream(world.lake, JOINS[name])
    world.finish()
    check_stream(world.lake, JOINS[name])
    check_settled(world.lake, JOINS[name])
    assert not world.lake.correct(recheck=True)
