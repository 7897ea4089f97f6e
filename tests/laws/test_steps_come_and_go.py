"""Steps come to a query that runs, go, and come again; pipelines stand on the log of another one.

Whatever comes and goes, what a step answers is a function of the log: the laws of each hold.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from penstock.lake.history.generation import generations
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.history.standing import timely_answers
from penstock.lake.ingest import door
from penstock.spark.sink import StepSink
from tests.guests import guest, log_of
from tests.lakes import EACH, ROWS, Lake
from tests.local import LocalQuery
from tests.rarely import rare
from tests.streams import write_jsonl

pytestmark = pytest.mark.law

FILES = len(ROWS) // EACH
GUESTS = {"g": "codes", "h": "both", "i": "seen"}


class DiedError(Exception):
    """Of the process of a query."""


def arrives(lake: Lake, number: int) -> None:
    write_jsonl(lake.home / "live" / f"{number}.jsonl", ROWS[EACH * number : EACH * (number + 1)])
    lake.ingest()


class Scene:
    """One query over a log, steps that come and go, and what happens to them.

    Args:
        home: folder.
        seed: of what happens.
    """

    def __init__(self, home: Path, seed: int) -> None:
        self.draw, self.lake = random.Random(seed), log_of(home)  # noqa: S311
        self.guests = {f"{name}.s": guest(self.lake, name, GUESTS[name]) for name in GUESTS}
        self.lakes = {"s": self.lake, **self.guests}
        self.runs, self.arrived = {"s"}, 0
        self.within: Callable[[], None] = lambda: None
        self.countdown = 0
        self.query = self.started()

    def started(self) -> LocalQuery:
        steps = [self.lakes[name].step for name in sorted(self.runs)]
        blocks = self.draw.choice([1, 2, 9])
        return self.lake.query(blocks=blocks, dies=self._writes, steps=steps)

    def _writes(self) -> None:
        """Before each thing that a micro-batch writes."""
        self.countdown -= 1
        if self.countdown == 0:
            self.within()

    def arrives(self) -> None:
        if self.arrived < FILES:
            arrives(self.lake, self.arrived)
            self.arrived += 1

    def comes(self) -> None:
        if gone := sorted(self.guests.keys() - self.runs):
            self.runs.add(name := self.draw.choice(gone))
            self.query.add(self.lakes[name].step)

    def goes(self) -> None:
        if there := sorted(self.guests.keys() & self.runs):
            self.runs.remove(name := self.draw.choice(there))
            self.query.remove(name)

    def moves(self) -> None:
        """Some step's state is cut into another number of shards, or comes back to it."""
        name = self.draw.choice(sorted(self.runs))
        self.query.move(name, self.draw.choice([1, 2, 3, 5]))

    def works(self) -> None:
        self.query.work()

    def dies(self) -> None:
        raise DiedError

    def loses(self) -> None:
        """The checkpoint is gone."""
        shutil.rmtree(self.query.folder)
        raise DiedError

    def happens(self) -> None:
        """Something does, between micro-batches or within one."""
        what = self.draw.choice([self.arrives, self.works, self.works, self.comes, self.comes,
                                 self.goes, self.moves, self.dies, self.loses])  # fmt: skip
        within = what not in {self.arrives, self.works, self.loses} and self.draw.random() < 0.6
        try:
            if within:
                self.within, self.countdown = what, self.draw.randint(1, 3)
                self.query.work()
            else:
                what()
        except DiedError:
            self.query = self.started()
        self.countdown = 0


@pytest.mark.parametrize("seed", [*range(5), *map(rare, range(5, 10))])
def test_whatever_comes_and_goes_each_step_answers_the_log(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With deaths of the query at any of its writes, and lost checkpoints."""
    monkeypatch.setattr(door, "BLOCK", 5)
    scene = Scene(tmp_path, seed)
    for _ in range(40):
        scene.happens()
    while scene.arrived < FILES or scene.guests.keys() - scene.runs:
        scene.arrives()
        scene.comes()
        scene.works()
    scene.query.run()
    for each in scene.lakes.values():
        each.check()
        each.correct()
        each.check()
        assert each.in_force()


def test_what_comes_and_goes_is_not_noticed_by_the_others(tmp_path: Path) -> None:
    lake = log_of(tmp_path)
    other, query = guest(lake, "g", "codes"), lake.query()
    for number in range(FILES):
        arrives(lake, number)
        if number % 2:
            query.add(other.step)
        elif number:
            query.remove(other.step.id)
        query.run()
    (only,) = generations(lake.tables, lake.step)
    assert only.number == 0, "it went on and on"
    lake.check()
    assert [g.epoch for g in generations(lake.tables, other.step)] == [0, 0, 0]
    assert timely_answers(lake.tables, other.step).num_rows


def two_that_run(home: Path) -> tuple[Lake, Lake, LocalQuery]:
    """A log with a guest, all of whose records wait; a micro-batch of its query takes a block."""
    lake = log_of(home)
    other = guest(lake, "g", "codes")
    query = lake.query(blocks=1, steps=[lake.step, other.step])
    for number in range(FILES):
        arrives(lake, number)
    return lake, other, query


def test_a_step_that_begins_anew_within_a_micro_batch_ends_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own rows of that micro-batch are another generation's, and nobody else's fault."""
    lake, other, query = two_that_run(tmp_path)
    write, fenced = StepSink.write, list[int]()

    def begins_anew(sink: StepSink, *written: Any) -> dict[str, Any]:
        if sink.step.id == other.step.id and sink.generation == len(fenced) < 3:
            fenced.append(sink.generation)
            query.remove(other.step.id)
            query.add(other.step)
        return write(sink, *written)

    monkeypatch.setattr(StepSink, "write", begins_anew)
    query.run()
    assert fenced == [0, 1, 2]
    assert [each.number for each in generations(lake.tables, other.step)] == [0, 1, 2, 3]
    assert [each.number for each in generations(lake.tables, lake.step)] == [0]
    for each in (lake, other):
        each.correct()
        each.check()
        assert each.in_force()


def test_a_step_begins_anew_behind_what_is_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looked has seen it sealed: a feed, or a correction that is planned up to there."""
    lake, other, query = two_that_run(tmp_path)
    query.work()
    fence, end, waits, anew = StepSink._fence, StepSink.end, Event(), list[Thread]()

    def begin() -> None:
        query.remove(other.step.id)
        query.add(other.step)

    def fenced(sink: StepSink) -> None:
        fence(sink)
        if sink.step.id == other.step.id and not anew:
            anew.append(Thread(target=begin))
            anew[0].start()
            assert waits.wait(30)

    def ends(sink: StepSink) -> None:
        waits.set()
        end(sink)

    monkeypatch.setattr(StepSink, "_fence", fenced)
    monkeypatch.setattr(StepSink, "end", ends)
    query.work()
    anew[0].join(30)
    first, second = generations(lake.tables, other.step)
    written = sealed_rows(lake.tables, other.step, first.epoch)
    assert [row.generation for row in written] == [0, 0]
    assert second.block == written[-1].block > first.block
    query.run()
    for each in (lake, other):
        each.correct()
        each.check()
