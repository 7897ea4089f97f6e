"""Worlds in which processes over one lake die again and again."""

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from penstock.core.window import FOREVER
from penstock.kinds.frame import frame_of
from penstock.lake.history.position import position
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.ingest.door import Door
from penstock.lake.log.blocks import HISTORY, next_block
from penstock.spark.correct import start_epochs
from tests import reference as ref
from tests.doubles import Death, Killed, deadly_commits, lose_memory
from tests.lakes import Lake, make_lake, some_rows
from tests.local import LocalQuery
from tests.streams import BEGIN, write_jsonl


class World:
    """Processes over one lake that take one commit at a time and may die before or after each."""

    sheds = False
    """Whether its host sheds, now more, now less."""

    def __init__(
        self, home: Path, case: tuple[Any, ref.Step], seed: int, longer: int = 1, **overrides: Any
    ) -> None:
        self.draw = random.Random(seed)  # noqa: S311
        mode = self.draw.choice(["live", "bounded"])
        source = {"files": str(home / "live"), "format": "jsonl", "mode": mode,
                  "idle_after": "PT0.000001S"}  # fmt: skip
        history = {"files": str(home / "history"), "format": "jsonl"}
        for name in ("live", "history"):
            (home / name).mkdir(parents=True, exist_ok=True)
        self.lake = make_lake(home, case, source=source, history=history, **overrides)
        self.death = Death(random.Random(seed + 1))  # noqa: S311
        self.cores = random.Random(seed + 2)  # noqa: S311  of the machine that it starts on next
        rows = some_rows(longer * self.draw.randint(40, 120), seed)
        old = self.draw.choice([0, 0, 10, 30])
        self.waiting = list(self._files(home / "live", rows[old:]))
        for path, part in self._files(home / "history", rows[:old]):
            write_jsonl(path, part)
        self.mode, self.counts = mode, {"kills": 0, "losses": 0, "slack": 0, "moves": 0}
        self._door: Door | None = None
        self._query: LocalQuery | None = None
        if old and self.draw.random() < 0.7:
            self.lake.ingest(HISTORY)
            start_epochs(self.lake.tables, self.lake.pipeline, self.lake.clock)
        self.lake.query()  # registers the generation before the first live record

    def _files(self, folder: Path, rows: list[Any]) -> Iterator[tuple[Path, list[Any]]]:
        number = 0
        while rows:
            size = self.draw.randint(1, 14)
            yield folder / f"{number:04d}.jsonl", rows[:size]
            rows, number = rows[size:], number + 1

    def step(self) -> None:
        """One process does one thing, or dies of it."""
        what = self.draw.choice(
            [self.arrive, self.take, self.take, self.preload, self.answer, self.answer,
             self.correct, self.change_slack, *([self.shed] if self.sheds else [])]
        )  # fmt: skip
        try:
            what()
        except Killed:
            self.counts["kills"] += 1
            self._door = self._query = None
            if self.draw.random() < 0.3:
                self.forget()

    def arrive(self) -> None:
        """The next file is there."""
        if self.waiting:
            write_jsonl(*self.waiting.pop(0))

    def take(self) -> None:
        """The ingest does its next thing; a bounded source is complete when ingest starts."""
        if self.mode == "bounded":
            while self.waiting:
                self.arrive()
        self._door = self._door or self.lake.door()
        self._door.work()

    def preload(self) -> None:
        """Another process brings history through the same door."""
        self.lake.door().work(HISTORY)

    def answer(self) -> None:
        """The query takes a micro-batch of any size."""
        blocks = self.draw.choice([1, 2, 1_000])
        if self._query is None:
            shards = self.cores.choice([0, 0, 0, 1, 2, 3])
            self._query = self.lake.query(blocks=blocks, dies=self.death, shards=shards)
        if self.cores.random() < 0.3 and frame_of(self.lake.step).by_key(self.lake.step):
            self._query.move(self.lake.step.id, self.cores.choice([1, 2, 3, 5]))
            self.counts["moves"] += 1
        self._query.work()
        if self.draw.random() < 0.2:
            self._query = None

    def correct(self) -> None:
        """A correction, of everything or of a range, perhaps checking more than was touched."""
        span: list[Any] = []
        if self.draw.random() < 0.3:
            low = BEGIN + timedelta(seconds=self.draw.randint(-100, 600))
            span = [low, low + timedelta(seconds=self.draw.randint(1, 400))]
        self.lake.correct(*span, recheck=self.draw.random() < 0.3)

    def change_slack(self) -> None:
        """Somebody edits the slack of the live pipeline; the host starts again with it."""
        rows = sealed_rows(self.lake.tables, self.lake.step, 0)
        few = not rows or next_block(self.lake.tables) <= rows[0].block
        if self.draw.random() > 0.1 or few:
            return
        spec = self.draw.choice([{"fixed": "PT1M"}, {"fixed": "PT0S"},
                                 {"max_delay": {"bound": "PT90S"}}])  # fmt: skip
        self.lake.edit(slack=spec)
        self._query = None
        self.counts["slack"] += 1

    def shed(self) -> None:
        """The host is behind, or is so no more."""
        self.lake.shed(self.draw.choice([0, 5, 30, 100]))
        self.counts["sheds"] = self.counts.get("sheds", 0) + 1

    def forget(self) -> None:
        """Spark's checkpoint is lost, in part or as a whole."""
        self.counts["losses"] += 1
        how = self.draw.choice(["newest", "newest", "offsets", "commits", "all"])
        lose_memory(self.lake.checkpoint, how)

    def finish(self) -> None:
        """Everything waiting is taken, answered and corrected."""
        self._door = self._query = None
        while self.waiting:
            self.arrive()
        self.lake.ingest(HISTORY)
        self.lake.ingest()
        self.lake.query().run()
        self.lake.correct()

    def ended(self) -> bool:
        """Whether the watermark is beyond all."""
        at = position(self.lake.tables, self.lake.step)
        return at is not None and at.sealed.state.watermark == FOREVER


class Shedding(World):
    """As any world, and its host is behind now and then."""

    sheds = True


class Mortal(Protocol):
    """What takes steps, and may die at each."""

    lake: Lake
    death: Death
    draw: random.Random

    def step(self) -> None: ...


def living(world: Mortal, steps: int) -> Iterator[None]:
    """So many steps of a world that is deadlier now and then: a stop after each of a stream."""
    for _ in range(steps):
        with deadly_commits(world.death):
            world.death.share = world.draw.choice([0.0, 0.05, 0.15])
            world.step()
            world.death.share = 0.0
        if position(world.lake.tables, world.lake.step) is not None:
            yield


def lived(world: World, steps: int, looks: int) -> Iterator[None]:
    """A life of so many steps: stops at some of them, and at its end; nobody dies in a stop."""
    share = world.draw.choice([0.0, 0.03, 0.1])
    moments = set(world.draw.sample(range(steps), looks))
    with deadly_commits(world.death):
        for i in range(steps):
            world.death.share = share
            world.step()
            world.death.share = 0.0
            if i in moments:
                yield
    world.finish()
    yield
