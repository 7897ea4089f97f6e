"""A host sees to it that steps run in as many tasks as they should, whoever decided it before."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.core.errors import PenstockError, TransientError
from penstock.core.parallelism import AUTO, HELD, UNSAID
from penstock.core.rescaling import Way
from penstock.core.window import micros
from penstock.lake.log.rescalings import DECIDED, DONE, LEFT, Rescaling, Rescalings, rescalings
from penstock.spark import rescaler as module
from penstock.spark.rescaler import PARALLELISM, Rescaler
from penstock.spark.running import Running, Worked
from tests.doubles import RisingClock
from tests.guests import log_of
from tests.lakes import Lake

QUERY = "together"


@dataclass
class Query:
    """What a rescaler asks of a query, and what it was told."""

    lake: Lake
    tasks: int = 2
    pace: float = 0.5
    told: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def pipeline(self) -> Any:
        return self.lake.pipeline

    def cut(self, parallelism: int) -> int:
        return parallelism if parallelism > 0 else self.tasks

    def move(self, step: str, shards: int) -> None:
        self.told.append(("move", step, shards))

    def again(self, step: Any, shards: int, reason: str) -> None:
        self.told.append((reason, step.id, shards))


class Scene:
    """One step that runs in two tasks."""

    def __init__(self, home: Path, parallelism: int) -> None:
        self.lake, self.clock = log_of(home), RisingClock()
        self.query, self.received = Query(self.lake), 0
        step = replace(self.lake.step, parallelism=parallelism)
        self.running = Running(step, QUERY, began=micros(self.clock.now()), shards=2, kept=100)
        self.hosted = SimpleNamespace(steps={"s": self.running}, queries={QUERY: self.query})
        self.table = Rescalings(self.lake.tables, self.clock)
        self.rescaler = self.host()

    def host(self) -> Rescaler:
        hosted: Any = self.hosted
        return Rescaler(self.lake.tables, hosted, self.clock, lambda: self.received)

    def decided(self, tasks: int) -> None:
        """As an earlier host did."""
        self.table.decide(Rescaling("s", 0, DECIDED, Way.MOVE, "", 2, tasks, 1, 1, 1.0, 1.0))

    @property
    def states(self) -> list[tuple[str, int]]:
        return [(each.state, each.tasks) for each in rescalings(self.lake.tables)]


def test_it_is_begun_once_and_ends_when_the_step_has_sealed_with_all_its_tasks(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, 3)
    for _ in range(2):
        scene.rescaler.look()
        assert scene.states == [(DECIDED, 3)]
    assert scene.query.told == [(PARALLELISM, "s", 3)], "nothing is to be read again: rebuilt"
    scene.running.moves = True
    scene.rescaler.look()
    scene.running.moves, scene.running.shards = False, 3
    scene.rescaler.look()
    assert scene.states == [(DONE, 3)]
    (found,) = rescalings(scene.lake.tables)
    assert (found.reason, found.kept, found.tasks_before) == ("asked for", 100, 2)
    assert found.predicted_rebuild < (found.predicted_move or 0)
    assert (found.took or 0) > 0
    scene.rescaler.look()
    assert len(scene.query.told) == 1


def test_a_step_that_says_nothing_has_as_many_as_its_query(tmp_path: Path) -> None:
    scene = Scene(tmp_path, UNSAID)
    scene.rescaler.look()
    assert (scene.states, scene.query.told) == ([], [])
    scene.running.shards = 1
    scene.rescaler.look()
    assert scene.states == [(DECIDED, 2)]


def test_what_an_earlier_host_decided_is_taken_up(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 3)
    scene.decided(3)
    scene.running.shards = 3  # it had got there
    scene.host().look()
    assert scene.states == [(DONE, 3)]
    scene.decided(4)
    scene.running.shards, scene.running.began = 2, micros(scene.clock.now())  # it had not
    scene.host().look()
    assert scene.states == [(DONE, 3), (LEFT, 4), (DECIDED, 3)]
    scene.hosted.steps.clear()
    scene.host().look()
    assert scene.states[2] == (LEFT, 3), "nobody runs it any more"


def test_nothing_is_decided_of_a_step_that_stands_still_or_has_not_told_yet(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 3)
    scene.running.shards = 0
    scene.rescaler.look()
    scene.running.shards, scene.running.error = 2, "damaged"
    scene.rescaler.look()
    assert scene.states == []


def test_where_the_load_decides_it_is_looked_at_every_five_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, now = Scene(tmp_path, AUTO), [1_000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    scene.rescaler = scene.host()
    for _ in range(HELD + 1):
        assert scene.states == []
        scene.rescaler.look()
        now[0] += 5.0
        scene.rescaler.look()  # so many records in 5 s, at so many a second of work
        scene.received += 500
        worked = scene.running.worked
        scene.running.worked = Worked(worked.records + 500, worked.seconds + 0.1)
    scene.rescaler.look()
    (found,) = rescalings(scene.lake.tables)
    assert (found.tasks_before, found.tasks) == (2, 1)
    assert found.reason == "no more than 100 records/s arrived in 30 s: 1 would do"


def test_who_cannot_be_rebuilt_stands_still_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, given_up = Scene(tmp_path, 3), list[tuple[str, PenstockError]]()

    def fails(*_: object) -> None:
        raise TransientError("another process was faster")

    monkeypatch.setattr(Query, "again", fails)
    scene.hosted.give_up_for = lambda *said: given_up.append(said)
    scene.rescaler.look()
    assert scene.states == [(LEFT, 3)]
    ((step, wrong),) = given_up
    assert (step, str(wrong)) == ("s", "another process was faster")
    assert isinstance(wrong, TransientError), "it is tried again"
