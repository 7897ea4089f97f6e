"""A pipeline over two sources of different columns, formats and event times, and its life."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from penstock.config.pipeline import Pipeline
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import HISTORY, LIVE
from penstock.lake.storage.tables import Tables
from penstock.spark.correct import start_epochs
from tests.doubles import Death, Killed, RisingClock, lose_memory
from tests.lakes import Lake, json_of
from tests.local import LocalQuery
from tests.steps import CASES, make_several
from tests.streams import disordered, us, write_jsonl

STEPS = {"sites": "near", "codes": "far", "both": "far", "seen": "far", "ranks": "near"}
"""Cases of ``tests.steps``, and the stream of each."""
FAR = ("code", "site", "delay", "bags", "live")
EVER = {"skew": "P36500D", "not_before": "1900-01-01T00:00:00Z"}


def sources(home: Path, modes: dict[str, str], idle_after: str) -> dict[str, Any]:
    """``near`` in lines of JSON; ``far`` in CSV, with milliseconds and another zone."""
    for name in ("near", "far"):
        for origin in (LIVE, HISTORY):
            (home / name / origin).mkdir(parents=True, exist_ok=True)

    def places(name: str, form: str) -> dict[str, Any]:
        live = {"files": str(home / name / LIVE), "format": form, "mode": modes[name],
                "idle_after": idle_after}  # fmt: skip
        return {"source": live, "history": {"files": str(home / name / HISTORY), "format": form}}

    return {
        "near": places("near", "jsonl") | EVER | {
            "columns": {"site": "string", "delay": "double", "bags": "long", "live": "boolean",
                        "near_code": {"type": "long", "from": "code"}},
            "event_time": "event_time",
        },
        "far": places("far", "csv") | EVER | {
            "columns": {"code": "long", "site": "string", "delay": "double", "bags": "long",
                        "live": "boolean"},
            "event_time": "at", "formats": {"at": "ms"}, "zone": "America/New_York",
        },
    }  # fmt: skip


def some_near(count: int, seed: int) -> list[str]:
    """Lines of the near source, some of them refused."""
    draw = random.Random(seed)  # noqa: S311
    rows = disordered(count, seed=seed, apart=6.0, late_share=0.25, late_by=400.0)
    wrong = ["not json", "[1]", '{"site": "a"}']
    return [draw.choice(wrong) if draw.random() < 0.06 else json_of(row) for row in rows]


def some_far(count: int, seed: int) -> list[str]:
    """Lines of the far source without their header, some of them refused."""
    draw = random.Random(seed)  # noqa: S311
    rows = disordered(count, seed=seed + 1_000, apart=9.0, late_share=0.15, late_by=300.0)
    lines = []
    for row in rows:
        cells = ["" if row[n] is None else str(row[n]).lower() if n == "live" else str(row[n])
                 for n in FAR]  # fmt: skip
        lines.append(",".join([*cells, str(us(row["event_time"]) // 1_000)]))
    return ["?,?,?,?,?,?" if draw.random() < 0.06 else line for line in lines]


def write_some(folder: Path, name: str, number: int, lines: list[str]) -> None:
    """A file of a stream."""
    if name == "near":
        write_jsonl(folder / f"{number:04}.jsonl", lines)
    else:
        write_jsonl(folder / f"{number:04}.csv", [",".join([*FAR, "at"]), *lines])


class Rivers:
    """The pipeline with its files, its door and its steps."""

    def __init__(
        self, home: Path, modes: dict[str, str], *names: str, idle_after: str = "PT0.000001S"
    ) -> None:
        self.home, self.clock = home, RisingClock()
        self.sources = sources(home, modes, idle_after)
        self.config = {name: deepcopy(CASES[name][0]) | {"stream": STEPS[name]} for name in names}
        self.files: Counter[tuple[str, str]] = Counter()
        self.lines: Counter[str] = Counter()

    @property
    def pipeline(self) -> Pipeline:
        return make_several(self.home, self.sources, self.config)

    @property
    def tables(self) -> Tables:
        return Tables(str(self.home / "lake"), "p")

    @property
    def lakes(self) -> dict[str, Lake]:
        pipeline = self.pipeline
        return {
            name: Lake(self.home, pipeline, CASES[name][1], {}, name, self.clock)
            for name in self.config
        }

    def put(self, name: str, lines: list[str], origin: str = LIVE) -> None:
        """A file of a stream is there."""
        number = self.files[name, origin]
        write_some(self.home / name / origin, name, number, lines)
        self.files[name, origin] += 1
        self.lines[name] += len(lines)

    def door(self) -> Door:
        return Door(self.tables, self.pipeline, self.home, self.clock)

    def ingest(self, origin: str = LIVE) -> int:
        return run_through(self.door(), origin, None, None)

    def query(self, **options: Any) -> LocalQuery:
        return LocalQuery(self.tables, self.pipeline, "together", self.clock, **options)

    def check(self) -> None:
        for lake in self.lakes.values():
            lake.check()


class River(Rivers):
    """Processes over it that take one commit at a time and may die before or after each."""

    def __init__(self, home: Path, seed: int) -> None:
        self.draw = random.Random(seed)  # noqa: S311
        modes = {name: self.draw.choice(["live", "bounded"]) for name in ("near", "far")}
        names = self.draw.sample(sorted(STEPS), 3)
        super().__init__(home, modes, *names)
        self.modes = modes
        self.death, self.kills = Death(random.Random(seed + 1)), 0  # noqa: S311
        self.waiting: dict[str, list[list[str]]] = {}
        for name, some in (("near", some_near), ("far", some_far)):
            lines = some(self.draw.randint(20, 80), seed)
            old = self.draw.choice([0, 0, 10])
            self.waiting[name] = list(self._cut(lines[old:]))
            for part in self._cut(lines[:old]):
                self.put(name, part, HISTORY)
        if self.draw.random() < 0.7:
            self.ingest(HISTORY)
            start_epochs(self.tables, self.pipeline, self.clock)
        self._door: Door | None = None
        self._query: LocalQuery | None = None
        self.query()

    def _cut(self, lines: list[str]) -> Iterator[list[str]]:
        while lines:
            size = self.draw.randint(1, 14)
            yield lines[:size]
            lines = lines[size:]

    def step(self) -> None:
        """One process does one thing, or dies of it."""
        what: Callable[[], None] = self.draw.choice(
            [self.arrive, self.arrive, self.take, self.take, self.preload, self.answer, self.answer,
             self.correct]
        )  # fmt: skip
        try:
            what()
        except Killed:
            self.kills += 1
            self._door = self._query = None
            if self.draw.random() < 0.3:
                self.forget()

    def arrive(self) -> None:
        name = self.draw.choice(sorted(self.waiting))
        if self.waiting[name]:
            self.put(name, self.waiting[name].pop(0))

    def take(self) -> None:
        """A bounded source is complete when ingest starts."""
        for name, waiting in self.waiting.items():
            while self.modes[name] == "bounded" and waiting:
                self.put(name, waiting.pop(0))
        self._door = self._door or self.door()
        self._door.work()

    def preload(self) -> None:
        self.door().work(HISTORY)

    def answer(self) -> None:
        if self._query is None:
            blocks = self.draw.choice([1, 2, 1_000])
            self._query = self.query(blocks=blocks, dies=self.death)
        self._query.work()
        if self.draw.random() < 0.2:
            self._query = None

    def correct(self) -> None:
        self.draw.choice([*self.lakes.values()]).correct(recheck=self.draw.random() < 0.3)

    def forget(self) -> None:
        how = self.draw.choice(["newest", "newest", "offsets", "commits", "all"])
        lose_memory(next(iter(self.lakes.values())).checkpoint, how)

    def finish(self) -> None:
        """Everything waiting is taken, answered and corrected."""
        for name, waiting in self.waiting.items():
            while waiting:
                self.put(name, waiting.pop(0))
        self.ingest(HISTORY)
        self.ingest()
        self.query().run()
        for lake in self.lakes.values():
            lake.correct()
