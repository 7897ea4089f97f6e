"""Ids of shards: each once, spread over tasks, and kept as far as they are needed."""

from penstock.core.slack import WatermarkState
from penstock.lake.history.offset import StepOffset
from penstock.spark.shards import Shards

ROWS = ((0, 1, 2), (10, 11, 12), (20, 21, 22))


def at(*shards: int, moves: tuple[int, ...] = ()) -> StepOffset:
    return StepOffset(0, 0, 0, -1, WatermarkState(), "", shards, moves=moves)


def test_a_step_that_says_nothing_has_one_in_each_task() -> None:
    shards = Shards(ROWS, {})
    assert shards.take(shards.usual) == (0, 1, 2)
    assert shards.take(shards.usual) == (10, 11, 12)


def test_few_lie_where_fewest_are() -> None:
    shards = Shards(ROWS, {"a": at(0), "b": at(1)})
    assert shards.take(1) == (2,)
    assert shards.take(2) == (10, 11)


def test_what_a_step_has_it_keeps_as_far_as_it_needs_it() -> None:
    shards = Shards(ROWS, {"a": at(0, 1)})
    assert shards.take(1, (0, 1)) == (0,)
    assert shards.take(4, (0, 1)) == (0, 1, 2, 10)
