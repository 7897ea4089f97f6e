"""Which content of side data counts is a function of the log, whoever dies and whatever changes."""

import random
from pathlib import Path
from typing import Any

import pytest

from penstock.lake.history.standing import answers_in_force
from penstock.lake.ingest import door as door_module
from tests import lookup_model as model
from tests.lookups import NOBODY, LookupWorld, alarms, check_stream, logged
from tests.rarely import rare
from tests.side import CODES, LIMITED, LOAD, LimitsFile, matches_by, taken_at_once
from tests.worlds import living

__all__ = ["taken_at_once"]
pytestmark = pytest.mark.law


class SideWorld(LookupWorld):
    """A look-up whose side data changes now and then."""

    def __init__(self, home: Path, pairs: str, seed: int) -> None:
        self.file = LimitsFile(home, CODES, random.Random(seed + 7))  # noqa: S311
        self.file.change()
        within = {"within": "PT10M"} if pairs == "all" else {}
        step = LIMITED | {"pairs": pairs, "keep": {"last": 2}} | within
        self.doors: dict[int, Any] = {}
        super().__init__(home, (step, NOBODY), seed, longer=3, load=LOAD)

    def change_slack(self) -> None:
        self.file.change()

    def take(self) -> None:
        """One of two processes, each of which has seen the files as they were when it looked."""
        mine = self.draw.randrange(2)
        self._door = self.doors.pop(mine, None)
        super().take()
        self.doors[mine] = self._door


@pytest.mark.parametrize("pairs", ["consecutive", "all"])
@pytest.mark.parametrize("seed", [0, rare(1), rare(2)])
def test_whatever_changes_when_the_alarms_are_the_log_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, pairs: str
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(model, "REACH", 600 * 1_000_000)
    world = SideWorld(tmp_path, pairs, seed)
    lake = world.lake

    def told() -> None:
        limits = world.file.in_force(lake.tables)
        with monkeypatch.context() as patch:
            near = matches_by(limits, 1)
            reach = pairs == "consecutive"
            patch.setattr(model, "matches", lambda a, b, how: near(a, b, how) and (
                reach or abs(a.time - b.time) <= model.REACH))  # fmt: skip
            check_stream(lake, unit=1)

    for _ in living(world, 60):
        told()
    world.finish()
    told()
    assert len(world.file.decided(lake.tables)) > 1, "it changed while records came"
    near = matches_by(world.file.in_force(lake.tables), 1)
    monkeypatch.setattr(model, "matches", lambda a, b, how: near(a, b, how) and (
        pairs == "consecutive" or abs(a.time - b.time) <= model.REACH))  # fmt: skip
    found = alarms(answers_in_force(lake.tables, lake.step))
    assert found == model.true_pairs(logged(lake, unit=1), pairs)
    assert found
    assert not lake.correct(recheck=True)
