"""Joins through door, source, state, sink and correction: pairs are a function of the log."""

import random
from pathlib import Path

import pytest

from penstock.lake.history.standing import timely_answers
from penstock.lake.ingest import door as door_module
from penstock.lake.storage import read
from penstock.spark import scan
from tests.joins import CASES, check_settled, check_stream, join_lake, oracle_of, pairs_in, seen
from tests.lakes import Lake, make_lake
from tests.rarely import rare
from tests.streams import write_jsonl
from tests.worlds import World, living

pytestmark = pytest.mark.law


def fed(home: Path, name: str, draw: random.Random) -> Lake:
    """A lake whose log is full, and not read yet."""
    lake, apart = join_lake(home, name), CASES[name].apart
    many = 1 if apart == 1 else 4
    for number in range(8):
        rows = seen(draw, many * draw.randint(1, 16), apart, many * 6 * number)
        write_jsonl(home / "live" / f"{number}.jsonl", rows)
    lake.query()
    lake.ingest()
    return lake


@pytest.mark.parametrize("name", [*CASES])
@pytest.mark.parametrize("seed", [0, rare(1)])
def test_any_micro_batches_tell_the_same_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    monkeypatch.setattr(scan, "KEPT", 7)
    monkeypatch.setattr(read, "PIECE", 3)
    draw = random.Random(f"{name} {seed}")  # noqa: S311
    lake = fed(tmp_path, name, draw)
    query, told = lake.query(blocks=draw.randint(1, 3), shards=draw.choice((1, 2, 4, 6))), 0
    while query.work():
        told = check_stream(lake, CASES[name])
        if draw.random() < 0.3:
            query = lake.query(blocks=draw.randint(1, 3))
    assert told


@pytest.mark.parametrize("name", [*CASES])
@pytest.mark.parametrize("seed", [0, rare(1)])
def test_corrections_add_the_pairs_of_late_records(tmp_path: Path, name: str, seed: int) -> None:
    draw = random.Random(f"{name} {seed}")  # noqa: S311
    lake = fed(tmp_path, name, draw)
    query, corrected = lake.query(blocks=draw.randint(1, 3)), 0
    while query.work():
        if draw.random() < 0.6:
            corrected += lake.correct(recheck=draw.random() < 0.2)
            check_settled(lake, CASES[name])
            assert not lake.correct(), "twice is once"
    corrected += lake.correct()
    assert check_settled(lake, CASES[name]) > corrected > 0
    assert not lake.correct(recheck=True), "what was not touched is right"


def test_a_month_is_over_once_no_day_can_lie_a_month_after_it(tmp_path: Path) -> None:
    """The 29th, 30th and 31st of March lie a month after the 28th of February 2023, or 29th."""
    config, oracle = oracle_of("month")
    lake = make_lake(tmp_path, (config | {"within": "PT0S", "slack": {"fixed": "PT0S"}}, oracle))
    times = ["02-28T16:00", "03-28T16:00", "03-29T23:30", "03-30T16:00", "03-31T16:00"]
    rows = [{"site": "a", "code": 1, "delay": float(number), "bags": 1, "live": True,
             "event_time": f"2023-{time}:00Z"} for number, time in enumerate(times)]  # fmt: skip
    for number, row in enumerate(rows):
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", [row])
    lake.query()
    lake.ingest()
    lake.query(blocks=1).run()
    found = timely_answers(lake.tables, lake.step)
    assert pairs_in(found) == {(left, 0) for left in (1, 3, 4)}


@pytest.mark.parametrize(
    ("name", "seed"), [("far", 0), ("month", 2), pytest.param("same", 1, marks=pytest.mark.all)]
)
def test_whoever_dies_whenever_the_pairs_are_the_log_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    world = World(tmp_path, oracle_of(name), seed)
    for _ in living(world, 50):
        check_stream(world.lake, CASES[name])
    assert world.counts["kills"]
    world.finish()
    check_stream(world.lake, CASES[name])
    check_settled(world.lake, CASES[name])
    assert not world.lake.correct(recheck=True)
