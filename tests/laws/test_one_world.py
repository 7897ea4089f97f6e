"""A reader at any commit sees one world: a sealed position, and corrections as a whole or not.

A correction's answers count once its plan is finished. So whatever was committed last, by
whichever process, what is in force is a function of the log up to positions that are written
down; and while a plan is carried out nothing of it shows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.lake.history.plans import plans
from penstock.lake.history.position import BACKFILL, position
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.ingest import door as door_module
from penstock.lake.storage.commit import Table
from penstock.spark import chunks
from tests import reference as ref
from tests.answers import assert_same, blocks_of, rows_by_pair
from tests.doubles import Killed, deadly_commits, dies_at
from tests.lakes import Lake, make_lake, some_rows
from tests.steps import CASES, case_of
from tests.streams import write_jsonl
from tests.worlds import World

pytestmark = pytest.mark.law
LOOKS = 5


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(chunks, "PAIRS_A_CHUNK", 16)


@contextmanager
def at_every_commit(look: Callable[[], Any]) -> Iterator[list[Any]]:
    """A reader looks after each commit to any table; what it saw."""
    swap, seen = Table.swap, list[Any]()

    def wrapped(self: Table, *arguments: Any) -> None:
        swap(self, *arguments)
        seen.append(look())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "swap", wrapped)
        yield seen


def answered(home: Path, seed: int = 4) -> Lake:
    lake = make_lake(home, CASES["sites"])
    lake.query()
    write_jsonl(home / "live" / "0.jsonl", some_rows(90, seed))
    lake.ingest()
    lake.query(blocks=3).run()
    return lake


def test_a_reader_sees_a_correction_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    lake = answered(tmp_path)
    before = lake.in_force()
    with at_every_commit(lake.in_force) as seen:
        assert lake.correct() > 0
    after = lake.in_force()
    assert after != before
    assert len(seen) > 3, "the plan, several chunks, its completion"
    assert seen[:-1] == [before] * (len(seen) - 1)
    assert seen[-1] == after


def test_of_a_correction_that_was_killed_nothing_shows_until_it_is_carried_out_again(
    tmp_path: Path,
) -> None:
    lake = answered(tmp_path)
    before, after_two_chunks = lake.in_force(), 6
    with deadly_commits(dies_at(after_two_chunks)), pytest.raises(Killed):
        lake.correct()
    every, done = plans(lake.tables, lake.step)
    assert (len(every), done) == (1, set())
    assert lake.in_force() == before
    assert lake.correct() > 0
    assert plans(lake.tables, lake.step)[1] == {every[0].number}
    expected = ref.run(lake.oracle, blocks_of(lake.tables, lake.pipeline)).corrected
    assert_same(expected, lake.in_force(), position=False)
    lake.check()


class Reader:
    """What is in force, told from the log and the finished plans alone."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.worlds = 0

    def __call__(self) -> None:
        """Look, and compare."""
        lake = self.lake
        at = position(lake.tables, lake.step)
        if at is None:
            return
        self.worlds += 1
        found = rows_by_pair(lake.step, answers_in_force(lake.tables, lake.step), "through_seq")
        timely = rows_by_pair(lake.step, timely_answers(lake.tables, lake.step), "through_seq")
        blocks, oracle = blocks_of(lake.tables, lake.pipeline), lake.epoch_oracle()
        now = ref.run(oracle, blocks[: at.sealed.block], at.epoch.block)
        assert_same(now.timely, timely)
        seen: dict[ref.Pair, int] = {}  # by how many blocks its newest finished plan saw
        worlds = {}
        planned, done = plans(lake.tables, lake.step)
        sealed = sealed_rows(lake.tables, lake.step, at.epoch.number)
        for plan in planned:
            if plan.number not in done:
                continue
            before = at.epoch.block
            if plan.reason != BACKFILL:
                stands = (plan.through_seq, plan.watermark)
                before = next(s.block for s in sealed if (s.seq, s.state.watermark) == stands)
            world = ref.run(oracle, blocks[:before], at.epoch.block)
            worlds[before] = world.corrected
            for pair in self._of(plan, at, world):
                seen[pair] = max(seen.get(pair, -1), before)
        expected = {pair: worlds[before][pair] for pair, before in seen.items()}
        expected = {p: a for p, a in now.timely.items() if p not in expected} | expected
        assert_same(expected, found, position=False)

    def _of(self, plan: Any, at: Any, world: ref.Answers) -> set[ref.Pair]:
        low = plan.since if plan.since is not None else -(2**62)
        high = plan.until if plan.until is not None else 2**62
        if plan.reason == BACKFILL:
            return {*world.preloaded}
        if plan.recheck:
            return {p for p in world.corrected if low <= p[0] < high}
        return {*self.lake._touched(plan, at)}


def one_world_throughout(home: Path, seed: int, steps: int) -> None:
    world = World(home, case_of(seed), seed)
    reader = Reader(world.lake)
    world.death.share = 0.04

    def look() -> None:
        spared, world.death.share = world.death.share, 0.0
        reader()
        world.death.share = spared

    with at_every_commit(look), deadly_commits(world.death):
        for _ in range(steps):
            world.step()
        world.death.share = 0.0
        world.finish()
    assert reader.worlds > LOOKS


@pytest.mark.parametrize("seed", [3])
def test_a_reader_at_any_commit_sees_a_consistent_world(tmp_path: Path, seed: int) -> None:
    one_world_throughout(tmp_path, seed, 18)


@pytest.mark.all
@pytest.mark.parametrize("seed", [*range(300, 330), *range(1_020, 1_026)])
def test_a_reader_at_any_commit_of_many_schedules_sees_a_consistent_world(
    tmp_path: Path, seed: int
) -> None:
    one_world_throughout(tmp_path, seed, 60)
