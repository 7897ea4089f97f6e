"""Steps over the answers of steps: law 0, and exact answers once all is corrected."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import TerminalError
from penstock.core.window import instant
from penstock.lake.history.position import position
from penstock.lake.serve.above import waits_above
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests import chains
from tests.doubles import FixedClock
from tests.lakes import make_lake, some_rows
from tests.rarely import rare
from tests.steps import CASES
from tests.streams import MINUTE, disordered, write_jsonl
from tests.worlds import lived

pytestmark = pytest.mark.law


def taken(overs: list[chains.Over]) -> None:
    """What waits is taken, and answered."""
    for one in overs:
        one.feed().catch_up()
        one.query(blocks=1).run()


def test_three_steps_one_over_the_other(tmp_path: Path) -> None:
    oracle = CASES["sites"][1]
    lake = make_lake(tmp_path, (chains.BASE, oracle), source={
        "files": str(tmp_path / "live"), "format": "jsonl", "mode": "bounded"})  # fmt: skip
    lake.query()
    one = chains.first(lake)
    two = chains.second(one)
    rows = some_rows(240, 7)
    every = [one, two]
    for each in every:
        each.query()
    for number in range(8):
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", rows[30 * number : 30 * (number + 1)])
    lake.ingest()
    while lake.query(blocks=1).work():
        taken(every)
    assert chains.timely(one) == chains.of_first(chains.timely(lake))
    assert chains.timely(two) == chains.of_second(chains.timely(one))
    assert lake.correct() > 0
    for each in every:
        taken([each])
        assert each.correct() > 0
    assert chains.in_force(one) == chains.of_first(chains.in_force(lake))
    assert chains.in_force(two) == chains.of_second(chains.in_force(one))


def test_a_step_begins_with_what_was_revised_by_then(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, (chains.BASE, CASES["sites"][1]), source={
        "files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"})  # fmt: skip
    lake.query()
    rows, one = some_rows(400, 3), chains.first(lake)
    for number in range(4):
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", rows[100 * number : 100 * number + 100])
        lake.ingest()
        lake.query().run()
        if number == 2:
            lake.correct()
            one.feed().catch_up()
            begun, mark = chains.in_force(lake), chains.watermark(lake)
            one.query()
        elif number < 2:
            one.feed().catch_up()
    taken([one])
    later = {key: v for key, v in chains.timely(lake).items() if key[0] + MINUTE > mark}
    expected = chains.closed(chains.of_first(begun | later), 4, chains.watermark(one))
    assert begun != {key: v for key, v in chains.timely(lake).items() if key in begun}
    told = chains.timely(one)
    assert told
    assert told == {key: v for key, v in expected.items() if key[0] + 4 * MINUTE > mark}


def holds(world: chains.Chains) -> None:
    """What was timely is what it must be, and what waits for nothing is exact."""
    for one, of, minutes, size in zip(
        world.overs, (chains.of_first, chains.of_second), (1, 4), (4, 8), strict=False
    ):
        if position(one.tables, one.step) is not None:
            assert chains.timely(one) == chains.must_be_timely(one, of, minutes, size)


@pytest.mark.parametrize("seed", [0, 2, 3, *map(rare, range(4, 16))])
def test_a_life_in_which_anybody_dies(seed: int, tmp_path: Path) -> None:
    world = chains.Chains(tmp_path, (chains.BASE, CASES["sites"][1]), seed)
    for _ in lived(world, 120, 4):
        holds(world)
    one, two = world.overs
    mark = chains.watermark(world.lake)
    assert chains.watermark(one) == chains.watermark(two) == mark
    base = chains.closed(chains.in_force(world.lake), 1, mark)
    expected = chains.closed(chains.of_first(base), 4, mark)
    assert chains.in_force(one) == expected
    assert chains.in_force(two) == chains.closed(chains.of_second(expected), 8, mark)


def test_what_another_run_of_a_step_says_never_follows(tmp_path: Path) -> None:
    """Readers switch to a run that counts from its own beginning, as versions let them."""
    lake = make_lake(tmp_path, (chains.BASE, CASES["sites"][1]))
    rows, one = some_rows(200, 3), chains.first(lake)
    write_jsonl(tmp_path / "live" / "0.jsonl", rows[:100])
    lake.query()
    lake.ingest()
    lake.query().run()
    taken([one])
    before = read_table(Table(one.tables.events(one.pipeline.types))).num_rows
    assert before > 0
    lake.pipeline.share({lake.step.name: "other"})
    assert lake.step.id == "other"
    write_jsonl(tmp_path / "live" / "1.jsonl", rows[100:])
    lake.query()
    lake.ingest()
    for _ in range(2):  # before it has sealed anything, and after that
        with pytest.raises(TerminalError, match=r"begun anew .* penstock remove first"):
            one.feed().work()
        lake.query().run()
        lake.correct()
    assert read_table(Table(one.tables.events(one.pipeline.types))).num_rows == before
    assert [*waits_above(one.tables, one.pipeline)] == []


@pytest.mark.parametrize("cut", [100, 220])
@pytest.mark.parametrize("back", [timedelta(0), timedelta(seconds=1)])
def test_revisions_are_no_timely_answers_where_a_clock_stands_or_steps_back(
    back: timedelta, cut: int, tmp_path: Path
) -> None:
    """Two plans of revisions follow each other at one instant; law 0 holds above."""
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"}
    lake = make_lake(tmp_path, (chains.BASE, CASES["sites"][1]), source=source)
    lake.query()
    one = chains.first(lake)
    one.query()
    rows = [*disordered(360, seed=2, apart=6.0, late_share=0.25, late_by=90.0)]
    clock = FixedClock()
    clock.instant = one.clock.now() + timedelta(hours=1)

    def comes(number: int, some: list[dict[str, Any]]) -> None:
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", some)
        lake.ingest()
        lake.query().run()
        one.feed().catch_up()
        one.query().run()

    comes(0, rows[:cut])
    at = position(lake.tables, lake.step)
    assert at is not None
    half = instant(at.sealed.state.watermark) - timedelta(minutes=7)
    for since, until in ((None, half), (half, None)):
        assert lake.correct(since, until)
        feed = one.feed()
        feed.clock = clock
        feed.catch_up()
        clock.instant -= back
    comes(1, rows[cut:])
    expected = chains.closed(chains.of_first(chains.timely(lake)), 4, chains.watermark(one))
    assert expected
    found = chains.timely(one)
    assert {key: found.get(key) for key in expected} == expected
