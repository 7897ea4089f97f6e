"""Pipelines over the answers of pipelines, in this process, and what they must say."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.config.answers import OverAnswers, without_slack
from penstock.core.place import path_of
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.lake.history.checkpoint import newest_checkpoint
from penstock.lake.history.correction import Planner
from penstock.lake.history.generation import generations
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.over.feed import Feed
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from penstock.spark.corrector import Corrector
from tests.doubles import Killed, RisingClock, lose_memory
from tests.lakes import Lake
from tests.local import LocalPrefix, LocalQuery
from tests.streams import MINUTE, disordered, write_jsonl
from tests.worlds import World

Key = tuple[int, tuple[Any, ...]]
ROUNDS, EACH = 12, 30
CORRECTED, FORGOTTEN = 2, 3
"""Of four rounds the one in which the lower step is corrected, and the upper loses its memory."""
BASE = {
    "keys": ["site"], "window": {"size": "PT1M"}, "slack": {"fixed": "PT20S"},
    "measures": {"n": "count(*)", "bags": "sum(code)"},
}  # fmt: skip
FIRST = {
    "keys": ["site"], "window": {"size": "PT4M", "slide": "PT2M"},
    "measures": {"n": "sum(n)", "most": "max(n)", "bags": "sum(bags)"},
}  # fmt: skip
SECOND = {"window": {"size": "PT8M"}, "measures": {"n": "sum(n)", "most": "max(most)"}}


@dataclass
class Over:
    """One step over the answers of another pipeline's."""

    home: Path
    pipeline: OverAnswers
    clock: RisingClock
    above: "Lake | Over"
    audits: int = 0

    @property
    def tables(self) -> Tables:
        return Tables(str(self.home / "lake"), self.pipeline.log)

    @property
    def step(self) -> StepSpec:
        return self.pipeline.specs[0]

    def feed(self) -> Feed:
        return Feed(self.tables, self.pipeline, self.clock)

    def query(self, **options: Any) -> LocalQuery:
        (name,) = self.pipeline.queries
        return LocalQuery(self.tables, self.pipeline, name, self.clock, **options)

    def forget(self, what: str = "all") -> None:
        """Its checkpoint is lost, or a part of it."""
        (name,) = self.pipeline.queries
        lose_memory(path_of(newest_checkpoint(self.tables, name).uri), what)

    def correct(self) -> int:
        """Plan and correct; returns the answers appended."""
        planner = Planner(self.tables, self.step, self.clock, "r")
        prefix = LocalPrefix(self.tables, self.pipeline, self.step)
        corrector = Corrector(prefix, self.tables, self.step, self.clock)
        return sum(corrector.run(planner, plan).answers for plan in planner.due())


def over(above: "Lake | Over", name: str, step: dict[str, Any], columns: dict[str, str]) -> Over:
    """A pipeline over a step, of one step."""
    content = {
        "name": name, "path": above.home / f"{name}.yaml", "columns": columns,
        "source": {"pipeline": above.pipeline.name, "step": above.step.name},
        "steps": {"s": dict(step)},
    }  # fmt: skip
    assert without_slack(content, content["path"], {}) == []
    pipeline = OverAnswers.model_validate(content)
    pipeline.link(above.pipeline)
    return Over(above.home, pipeline, RisingClock(), above)


def first(lake: Lake) -> Over:
    """Over the step of a lake."""
    return over(lake, "first", FIRST, {"site": "string", "n": "long", "bags": "long"})


def second(one: Over) -> Over:
    """Over that."""
    return over(one, "second", SECOND, {"n": "long", "most": "long"})


def rounds(lake: Lake, one: Over) -> Iterator[int]:
    """Files arrive one by one, and are answered by a step, and by one over it; the round's number.

    What was revised in some rounds is there in those after them, too.
    """
    rows = [*disordered(ROUNDS * EACH, seed=2, apart=6.0, late_share=0.25, late_by=90.0)]
    for number in range(ROUNDS):
        write_jsonl(lake.home / "live" / f"{number}.jsonl", rows[EACH * number :][:EACH])
        lake.ingest()
        lake.query().run()
        if number % 4 == CORRECTED:
            lake.correct()
        one.feed().catch_up()
        if number % 4 == FORGOTTEN:
            one.forget()
        one.query(blocks=1).run()
        yield number


def told(step: StepSpec, rows: Any) -> dict[Key, dict[str, Any]]:
    """Answers by window start (us) and key."""
    found = {}
    for row in rows.to_pylist():
        key = tuple(row[name] for name in step.key_names)
        at = int(row["window_start"].timestamp() * 1e6)
        assert (at, key) not in found, "twice"
        found[at, key] = {v.name: row[v.name] for v in step.values}
    return found


def in_force(one: "Lake | Over") -> dict[Key, dict[str, Any]]:
    return told(one.step, answers_in_force(one.tables, one.step))


def timely(one: "Lake | Over") -> dict[Key, dict[str, Any]]:
    return told(one.step, timely_answers(one.tables, one.step))


def gathered(
    answers: dict[Key, dict[str, Any]], minutes: int, size: int, slide: int, *, keyed: bool
) -> dict[Key, list[dict[str, Any]]]:
    """Answers of windows of so many minutes by the windows that they are in, minutes, too."""
    found = defaultdict[Key, list[dict[str, Any]]](list)
    for (start, key), values in answers.items():
        last = start + minutes * MINUTE - 1
        newest = last // (slide * MINUTE) * slide * MINUTE
        for at in range(newest - (size - slide) * MINUTE, newest + 1, slide * MINUTE):
            found[at, key if keyed else ()].append(values)
    return found


def of_first(base: dict[Key, dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    """What ``first`` must say of some answers, plainly in Python."""
    return {
        key: {"n": sum(v["n"] for v in some), "most": max(v["n"] for v in some),
              "bags": None if all(v["bags"] is None for v in some)
              else sum(v["bags"] or 0 for v in some)}
        for key, some in gathered(base, 1, 4, 2, keyed=True).items()
    }  # fmt: skip


def of_second(one: dict[Key, dict[str, Any]]) -> dict[Key, dict[str, Any]]:
    """What ``second`` must."""
    return {
        key: {"n": sum(v["n"] for v in some), "most": max(v["most"] for v in some)}
        for key, some in gathered(one, 4, 8, 8, keyed=False).items()
    }  # fmt: skip


def watermark(one: "Lake | Over") -> int:
    at = position(one.tables, one.step)
    assert at is not None
    return at.sealed.state.watermark


def closed(answers: dict[Key, dict[str, Any]], minutes: int, mark: int) -> dict[Key, Any]:
    """Those of windows that have ended by a watermark."""
    return {key: v for key, v in answers.items() if key[0] + minutes * MINUTE <= mark}


def begun_with(one: Over) -> tuple[dict[Key, dict[str, Any]], int]:
    """What the log of a step began with, and the watermark up to which that was all, us."""
    above, tables = one.above.step, one.tables
    blocks = read_table(Table(tables.blocks())).sort_by("block").to_pylist()
    marks = [row["mark_us"] for row in blocks if row["mark_us"] is not None]
    rows = read_table(Table(tables.events(one.pipeline.types))).to_pylist()
    found = {}
    for row in rows:
        if row["origin"] == "history":
            end = int(row["event_time"].timestamp() * 1e6 + 0.5) + 1
            key = tuple(row[name] for name in above.key_names)
            found[end - above.window.size, key] = {n: row[n] for n in one.pipeline.columns}
    return found, marks[0] if marks else BEGINNING


def must_be_timely(one: Over, of: Any, minutes: int, size: int) -> dict[Key, dict[str, Any]]:
    """What a step must have said in time: of what its log began with, and what was timely then."""
    begun, mark = begun_with(one)
    later = {
        key: {name: values[name] for name in one.pipeline.columns if name in values}
        for key, values in timely(one.above).items()
        if key[0] + minutes * MINUTE > mark
    }
    start = generations(one.tables, one.step)[0].state.watermark
    found = closed(of(begun | later), size, watermark(one))
    return {key: v for key, v in found.items() if key[0] + size * MINUTE > start}


class Chains(World):
    """As any world, with two more steps, one over the other, that may die as well."""

    def __init__(self, home: Path, case: Any, seed: int) -> None:
        super().__init__(home, case, seed, 2)
        self.overs: list[Over] = []

    def step(self) -> None:
        """One process does one thing, or dies of it."""
        if self.draw.random() < 0.4:
            super().step()
            return
        try:
            self.over()
        except Killed:
            self.counts["kills"] += 1

    def over(self) -> None:
        """Something of the other steps."""
        if len(self.overs) < 2 and self.draw.random() < 0.2:
            self.add()
        elif self.overs:
            one = self.draw.choice(self.overs)
            what = self.draw.randrange(3)
            if what == 0:
                one.feed().work()
            elif what == 1:
                one.query(blocks=self.draw.choice([1, 2, 1_000]), dies=self.death).work()
            elif position(one.tables, one.step) is not None:
                one.correct()
            if self.draw.random() < 0.1:
                one.forget(self.draw.choice(["newest", "offsets", "commits", "all"]))

    def add(self) -> None:
        """The next step."""
        self.begin(second(self.overs[0]) if self.overs else first(self.lake))

    def begin(self, one: Over) -> None:
        """A step comes, whose log may hold something before."""
        share, self.death.share = self.death.share, 0.0
        for _ in range(self.draw.choice([0, 0, 1, 2, 5])):
            one.feed().work()
        one.query()
        self.overs.append(one)
        self.death.share = share

    def finish(self) -> None:
        """Everything is taken, answered and corrected."""
        super().finish()
        while len(self.overs) < 2:
            self.add()
        for one in self.overs:
            one.query()
            for _ in range(3):  # a history is answered before what follows it comes
                one.feed().catch_up()
                one.query().run()
                one.correct()


def late_windows(one: "Lake | Over") -> int:
    """Closed windows and keys with late rows, of a lake that nobody has corrected."""
    rows = read_table(Table(one.tables.late(one.step, []))).to_pylist()
    mark = watermark(one)
    return len({
        (row["window_start"], *(row[name] for name in one.step.key_names)) for row in rows
        if int(row["window_end"].timestamp() * 1e6) <= mark
    })  # fmt: skip
