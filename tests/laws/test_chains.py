"""Steps over the answers of steps: law 0, and exact answers once all is corrected."""

from pathlib import Path

import pytest

from penstock.lake.history.position import position
from tests import chains
from tests.lakes import make_lake, some_rows
from tests.steps import CASES
from tests.streams import write_jsonl
from tests.worlds import lived

pytestmark = pytest.mark.law


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
    for _ in range(100):
        went = lake.query(blocks=1).work()
        for each in every:
            while each.feed().work() >= 0:
                pass
            each.query(blocks=1).run()
        if not went:
            break
    assert chains.timely(one) == chains.of_first(chains.timely(lake))
    assert chains.timely(two) == chains.of_second(chains.timely(one))
    assert lake.correct() > 0
    for each in every:
        while each.feed().work() >= 0:
            pass
        each.query().run()
        assert each.correct() > 0
    assert chains.in_force(one) == chains.of_first(chains.in_force(lake))
    assert chains.in_force(two) == chains.of_second(chains.in_force(one))


def holds(world: chains.Chains) -> None:
    """What was timely is what it must be, and what waits for nothing is exact."""
    for one, of, minutes, size in zip(
        world.overs, (chains.of_first, chains.of_second), (1, 4), (4, 8), strict=False
    ):
        if position(one.tables, one.step) is not None:
            assert chains.timely(one) == chains.must_be_timely(one, of, minutes, size)


@pytest.mark.parametrize("seed", range(16))
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
