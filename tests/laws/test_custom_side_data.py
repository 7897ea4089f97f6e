"""Side data beside the records of user code: what counts for a record is told by its position."""

import random
from pathlib import Path

import pytest

from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.ingest import door as door_module
from tests.custom import LONGEST, CustomWorld, longest, longest_rows, write_code
from tests.lookups import NOBODY
from tests.rarely import rare
from tests.side import CODES, LOAD, LimitsFile, taken_at_once
from tests.worlds import World, living

__all__ = ["taken_at_once"]
pytestmark = pytest.mark.law


class LoadedWorld(CustomWorld):
    """A custom step whose side data changes now and then."""

    def __init__(self, home: Path, seed: int) -> None:
        self.file = LimitsFile(home, CODES, random.Random(seed + 7))  # noqa: S311
        self.file.change()
        write_code(home)
        World.__init__(self, home, (LONGEST, NOBODY), seed, load=LOAD)

    def change_slack(self) -> None:
        self.file.change()


@pytest.mark.parametrize("seed", [0, rare(1), rare(2)])
def test_whatever_changes_when_what_is_said_is_the_log_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    world = LoadedWorld(tmp_path, seed)
    lake = world.lake

    def check() -> None:
        at = position(lake.tables, lake.step)
        if at is not None:
            limits = world.file.in_force(lake.tables)
            timely = longest_rows(timely_answers(lake.tables, lake.step))
            every = longest(lake, limits, at.sealed.seq)
            assert timely == {row for row in every if row[1] > at.epoch.seq}

    for _ in living(world, 50):
        check()
    world.finish()
    check()
    at = position(lake.tables, lake.step)
    assert at is not None
    limits = world.file.in_force(lake.tables)
    every = longest(lake, limits, at.sealed.seq)
    assert longest_rows(answers_in_force(lake.tables, lake.step)) == every
    assert len(world.file.decided(lake.tables)) > 1, "it changed while records came"
    assert not lake.correct(recheck=True), "nothing was wrong"
