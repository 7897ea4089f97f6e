"""A pipeline over two sources that are joined, and its life."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.lake.log.blocks import LIVE
from tests import reference as ref
from tests.doubles import Death, Killed, lose_memory
from tests.joins import SLACK, Case
from tests.lakes import Lake
from tests.local import LocalQuery
from tests.steps import make_several
from tests.streams import SECOND, instant, write_jsonl

EVER = {"skew": "P36500D", "not_before": "1900-01-01T00:00:00Z"}
COLUMNS = {
    "cars": {"site": "string", "speed": "long"},
    "cameras": {"site": "string", "most": "long"},
}
BOTH = {"left": "cars", "right": "cameras"}


def over(one: Any, other: Any, by: int = 0) -> bool:
    return one is not None and other is not None and one > other + by


CASES = {
    "any": Case(
        {"kind": "join", "within": {"before": "PT2S", "after": "PT6S"}, **BOTH,
         "where": "left.speed > right.most + 1", "select": ["left.speed", "right.most"], **SLACK},
        (), lambda time: time, 2 * SECOND, 6 * SECOND,
        lambda left, right: over(left["speed"], right["most"], 1), streams=("cars", "cameras")),
    "site": Case(
        {"kind": "join", "within": "PT5S", "shift": "PT3S", "on": ["site"], **BOTH,
         "select": ["right.most", "left.speed"], **SLACK},
        ("site",), lambda time: time - 3 * SECOND, 5 * SECOND, 5 * SECOND,
        lambda _left, _right: True, streams=("cars", "cameras")),
}  # fmt: skip


def rows_of(draw: random.Random, stream: str, count: int, clock: int) -> list[Mapping[str, Any]]:
    value, found = ("speed" if stream == "cars" else "most"), []
    for _ in range(count):
        clock += draw.randint(0, 2)
        at = 1_700_000_000 + clock - draw.choice((0, 0, 0, 1, 3, 9, 25))
        site = draw.choice(("a", "b", None) if stream == "cars" else "ab")
        found.append({"site": site, value: draw.choice((*range(5), None)),
                      "at": instant(at * SECOND)})  # fmt: skip
    return found


def lake_of(home: Path, case: Case, modes: tuple[str, str], **more: Any) -> Lake:
    """Two sources; nothing has come yet.

    Args:
        home: where all of it lies.
        case: the join.
        modes: of both sources.
        more: what the file says besides; of its steps those beside the join.
    """
    sources = {}
    for name, mode in zip(COLUMNS, modes, strict=True):
        folder = home / name
        folder.mkdir(parents=True, exist_ok=True)
        place = {"files": str(folder), "format": "jsonl", "mode": mode, "idle_after": "PT0.000001S"}
        sources[name] = {"source": place, "columns": COLUMNS[name], "event_time": "at"} | EVER
    steps = {"s": dict(case.config), **more.pop("steps", {})}
    pipeline = make_several(home, sources, steps, **more)
    oracle = ref.Step((), ref.Window(SECOND, SECOND), (), (ref.Slack("fixed", 3 * SECOND),))
    return Lake(home, pipeline, oracle, {})


class Life:
    """Files of both streams, a door, a query and corrections, each of which may die."""

    def __init__(
        self,
        home: Path,
        case: Case,
        seed: int,
        longer: int = 10,
        modes: tuple[str, str] | None = None,
        **more: Any,
    ) -> None:
        self.draw = random.Random(seed)  # noqa: S311
        self.case, self.death = case, Death(random.Random(seed + 1))  # noqa: S311
        drawn = [self.draw.choice(("live", "bounded")) for _ in COLUMNS]
        self.modes = modes or (drawn[0], drawn[1])
        self.lake = lake_of(home, case, self.modes, **more)
        self.waiting = {
            name: [rows_of(self.draw, name, self.draw.randint(1, 9), 5 * n) for n in range(longer)]
            for name in COLUMNS
        }
        self.kills, self.files = 0, 0
        self._query: LocalQuery | None = None
        self.lake.query()

    def arrive(self) -> None:
        name = self.draw.choice([*COLUMNS])
        if self.waiting[name]:
            self._put(name)

    def _put(self, name: str) -> None:
        path = self.lake.home / name / f"{self.files:04}.jsonl"
        write_jsonl(path, self.waiting[name].pop(0))
        self.files += 1

    def take(self) -> None:
        """A bounded source is complete when ingest starts."""
        for name, mode in zip(COLUMNS, self.modes, strict=True):
            while mode == "bounded" and self.waiting[name]:
                self._put(name)
        self.lake.door().work()

    def answer(self) -> None:
        if self._query is None:
            blocks, shards = self.draw.choice([1, 2, 1_000]), self.draw.choice([0, 0, 1, 4])
            self._query = self.lake.query(blocks=blocks, dies=self.death, shards=shards)
        self._query.work()
        if self.draw.random() < 0.2:
            self._query = None

    def correct(self) -> None:
        self.lake.correct(recheck=self.draw.random() < 0.3)

    def step(self) -> None:
        what = self.draw.choice([self.arrive, self.arrive, self.take, self.take, self.answer,
                                 self.answer, self.correct])  # fmt: skip
        try:
            what()
        except Killed:
            self.kills, self._query = self.kills + 1, None
            if self.draw.random() < 0.3:
                lose_memory(self.lake.checkpoint, self.draw.choice(["newest", "offsets", "all"]))

    def finish(self, correct: Callable[[], Any] | None = None) -> None:
        """Everything waiting is taken, answered and corrected."""
        for name, waiting in self.waiting.items():
            while waiting:
                self._put(name)
        self.lake.ingest(LIVE)
        self.lake.query().run()
        (correct or self.lake.correct)()
