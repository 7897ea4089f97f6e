"""A running pipeline whose file is edited at random: the laws hold for what is in force."""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from penstock.lake.ingest import door as door_module
from penstock.lake.log.blocks import HISTORY
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests import reference as ref
from tests.answers import assert_same, blocks_of
from tests.doubles import Death, Killed, RisingClock, deadly_commits
from tests.lakes import Lake
from tests.steps import CODES_REF, ROWS, SIZES, make_pipeline, over
from tests.streams import SECOND, disordered, write_jsonl

pytestmark = pytest.mark.law

WINDOWS = [(60, 20), (50, 50), (90, 30)]
KEYS = [("site",), ("code",), ("site", "code"), ()]
WHERES = {None: lambda _: True, "delay > 0 OR live": CODES_REF.where}
MEASURES = {
    "n": ("count(*)", ROWS),
    "low": ("min(delay)", SIZES[0]),
    "high": ("max(delay)", SIZES[1]),
    "total": ("sum(delay)", ref.Measure("total", "sum", over("delay"))),
    "middle": ("median(delay)", ref.Measure("middle", "quantile", over("delay"), 0.5)),
}
SLACKS = [("fixed", 30), ("fixed", 0), ("max_delay", 40)]
ZONES = ["UTC", "Europe/Berlin", "Asia/Kathmandu"]


@dataclass(frozen=True)
class Written:
    """A step as the pipeline file has it."""

    window: tuple[int, int] = WINDOWS[0]
    keys: tuple[str, ...] = KEYS[0]
    where: str | None = None
    measures: tuple[str, ...] = ("n", "total")
    slack: tuple[str, int] = SLACKS[0]

    def to_yaml(self) -> dict[str, Any]:
        policy, seconds = self.slack
        span = f"PT{seconds}S"
        size, slide = self.window
        found: dict[str, Any] = {
            "window": {"size": f"PT{size}S"} | ({} if size == slide else {"slide": f"PT{slide}S"}),
            "measures": {name: MEASURES[name][0] for name in self.measures},
            "slack": {policy: span if policy == "fixed" else {"bound": span}},
        }
        if self.keys:
            found["keys"] = [*self.keys]
        return found if self.where is None else found | {"where": self.where}

    def oracle(self) -> ref.Step:
        size, slide = self.window
        return ref.Step(
            self.keys,
            ref.Window(size * SECOND, slide * SECOND),
            tuple(MEASURES[name][1] for name in self.measures),
            (ref.Slack(self.slack[0], self.slack[1] * SECOND),),
            WHERES[self.where],
        )


@dataclass
class Edited:
    """A pipeline that is run, killed and edited."""

    home: Path
    draw: random.Random
    steps: dict[str, Written] = field(default_factory=lambda: {"s": Written()})
    zone: str = "UTC"
    history: bool = True
    sent: int = 0
    edits: int = 0
    clock: RisingClock = field(default_factory=RisingClock)

    def __post_init__(self) -> None:
        for name in ("live", "history"):
            (self.home / name).mkdir(parents=True)
        seed = self.draw.randrange(10**6)
        self.rows = disordered(150, seed=seed, apart=6.0, late_share=0.25, late_by=400.0)
        self.death = Death(self.draw)
        self._door: Any = None
        self.send("history", self.draw.choice([0, 15, 30]))
        self.restart()

    def lake(self, name: str) -> Lake:
        source = {"files": str(self.home / "live"), "format": "jsonl", "mode": "live",
                  "idle_after": "PT0.000001S"}  # fmt: skip
        past = {"history": {"files": str(self.home / "history"), "format": "jsonl"}}
        steps = {each: written.to_yaml() for each, written in self.steps.items()}
        config = {"source": source, "zone": self.zone, "steps": steps}
        pipeline = make_pipeline(self.home, **config, **(past if self.history else {}))
        oracle = self.steps[name].oracle()
        return Lake(self.home, pipeline, oracle, config, name, self.clock)

    @property
    def lakes(self) -> list[Lake]:
        return [self.lake(name) for name in self.steps]

    def send(self, folder: str, count: int) -> None:
        """A file of the next records; every other time has no zone, some are refused."""
        lines = []
        for number, row in enumerate(self.rows[self.sent : self.sent + count], self.sent):
            at = row["event_time"]
            said = at.replace(tzinfo=None) if number % 2 else at
            wrong = (
                {"bags": "many"} if number % 11 == 0 else {"site": None} if number % 13 == 0 else {}
            )
            lines.append(json.dumps({**row, "event_time": said.isoformat(), "uid": number} | wrong))
        self.sent += len(lines)
        if lines:
            write_jsonl(self.home / folder / f"{self.sent:05d}.jsonl", lines)

    def restart(self) -> None:
        """Whatever ran starts again, with the file as it is by now."""
        self._door = None
        for lake in self.lakes:
            lake.query()

    def step(self) -> None:
        """One thing happens; processes die of it now and then."""
        what: list[Callable[[], Any]] = [
            lambda: self.send("live", self.draw.randint(1, 12)),
            self.take, self.take, self.preload, self.answer, self.answer, self.correct, self.edit,
        ]  # fmt: skip
        try:
            self.draw.choice(what)()
        except Killed:
            self._door = None

    def take(self) -> None:
        self._door = self._door or self.lakes[0].door()
        self._door.work()

    def preload(self) -> None:
        self.lakes[0].door().work(HISTORY)

    def answer(self) -> None:
        for lake in self.lakes:
            lake.query(blocks=self.draw.choice([1, 3, 1_000]), dies=self.death).work()

    def correct(self) -> None:
        for lake in self.lakes:
            lake.correct()

    def edit(self) -> None:
        """Somebody changes the file; the host starts again, or dies of it and starts once more."""
        self.edits += 1
        name = self.draw.choice([*self.steps])
        written, draw = self.steps[name], self.draw
        edits: list[Callable[[], Written | None]] = [
            lambda: replace(written, window=draw.choice(WINDOWS)),
            lambda: replace(written, keys=draw.choice(KEYS)),
            lambda: replace(written, where=draw.choice([*WHERES])),
            lambda: replace(written, slack=draw.choice(SLACKS)),
            lambda: replace(written, slack=draw.choice(SLACKS)),
            lambda: replace(written, measures=("n", *draw.sample([*MEASURES][1:], 2))),
            lambda: None,  # removed, added, or renamed
        ]
        changed = draw.choice(edits)()
        if changed is not None:
            self.steps = self.steps | {name: changed}
        else:
            self._rename(name)
        if draw.random() < 0.3:
            self.zone = draw.choice(ZONES)
        if draw.random() < 0.3:
            self.history = not self.history
        self.restart()

    def _rename(self, name: str) -> None:
        others = {n: w for n, w in self.steps.items() if n != name}
        free = [n for n in ("s", "t", "u") if n not in self.steps]
        what = self.draw.choice(["removed", "added", "renamed"])
        if what == "removed" and others:
            self.steps = others
        elif free:
            kept = self.steps if what == "added" else others
            self.steps = kept | {free[0]: self.steps[name]}

    def finish(self) -> None:
        """All that waits is taken, answered and corrected."""
        self.death.share = 0.0
        self.history = True
        self.restart()
        self.lakes[0].ingest(HISTORY)
        self.lakes[0].ingest()
        for lake in self.lakes:
            lake.query().run()
            lake.correct()

    def check(self) -> None:
        """Nothing is lost or stands twice, and each answer in force is the definition's."""
        first = self.lakes[0]
        events = read_table(Table(first.tables.events(first.pipeline.types)), ["extra"])
        refused = read_table(Table(first.tables.quarantine()), ["raw"])
        texts = [*events["extra"].to_pylist(), *refused["raw"].to_pylist()]
        assert Counter(json.loads(text)["uid"] for text in texts) == Counter(range(self.sent))
        blocks = blocks_of(first.tables, first.pipeline)
        for lake in self.lakes:
            lake.check()
            expected = ref.run(lake.epoch_oracle(), blocks).corrected
            assert expected
            assert_same(expected, lake.in_force(), position=False)


@pytest.mark.parametrize(
    ("seed", "steps"),
    [(0, 20), (1, 20), *(pytest.param(n, 40, marks=pytest.mark.all) for n in range(2, 60))],
)
def test_after_any_edits_of_a_running_pipeline_the_laws_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, steps: int
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    world = Edited(tmp_path, random.Random(seed))  # noqa: S311
    world.death.share = 0.02
    with deadly_commits(world.death):
        for _ in range(steps):
            world.step()
        world.finish()
    world.check()
    assert world.edits
