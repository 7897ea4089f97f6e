"""The steps that a stream host runs, and what each has done."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.config.pipeline import Pipeline
from penstock.core.parallelism import joint
from penstock.core.step import StepSpec
from penstock.lake.history.position import position
from penstock.lake.storage.tables import Tables
from penstock.spark.sink import BUSY, KEPT, MOVED_ROWS, MOVES, SHARDS

PAUSE_SECONDS, LONGEST_SECONDS = 30.0, 1800.0
"""Until a step that could not go on is tried again: it doubles."""


@dataclass(frozen=True, slots=True)
class Worked:
    """Records that a step has taken, and how long the slowest of its tasks worked at them, s."""

    records: int
    seconds: float

    def since(self, before: "Worked") -> "Worked":
        """What was done after that."""
        return Worked(self.records - before.records, self.seconds - before.seconds)

    @property
    def speed(self) -> float | None:
        """Records a second of work; none: there was none."""
        return self.records / self.seconds if self.records and self.seconds > 0 else None


NO_WORK = Worked(0, 0.0)


@dataclass
class Running:
    """A step that runs, or will once more.

    Attributes:
        step: the step.
        query: that runs it.
        block: it has sealed what is before.
        answered: records that it has answered.
        micro_batches: that it has sealed here.
        error: why it stands still; empty: it does not.
        lasting: whether that stays so until a person changes something.
        failures: how often in a row it came to that.
        due: when it is tried again, of the clock that only rises, s.
        began: when it last began, us.
        shards: into how many its state is cut; 0: it has not told yet.
        moves: whether its state is on its way into another number.
        kept: rows of its state, or some more.
        moved_rows: that its last move brought to another shard.
        worked: what it has done here.
    """

    step: StepSpec
    query: str
    block: int = 0
    answered: int = 0
    micro_batches: int = 0
    error: str = ""
    lasting: bool = False
    failures: int = 0
    due: float = 0.0
    began: int = 0
    shards: int = 0
    moves: bool = False
    kept: int = 0
    moved_rows: int = 0
    worked: Worked = NO_WORK

    def begins(self, tables: Tables, now: int) -> None:
        """It is about to run, from where it stands, at an instant, us."""
        self.began, self.shards, self.moves = now, 0, False
        at = position(tables, self.step)
        if at is not None:
            self.block, self.answered = at.sealed.block, at.sealed.seq + 1

    def seals(self, block: int, seq: int) -> None:
        """It has sealed a micro-batch."""
        self.block, self.answered = block, seq + 1
        self.micro_batches += 1
        self.failures = 0

    def hears(self, told: Mapping[str, Any]) -> None:
        """Its shards have said something of themselves (``sink``)."""
        self.shards, self.moves, self.kept = told[SHARDS], told[MOVES], told[KEPT]
        self.moved_rows = told[MOVED_ROWS] if self.moves else self.moved_rows
        worked = self.worked
        self.worked = Worked(worked.records + told["records"], worked.seconds + told[BUSY])

    def fails(self, cause: str, *, lasting: bool) -> None:
        """It cannot go on now."""
        self.error, self.lasting = cause, lasting
        self.due = time.monotonic() + min(PAUSE_SECONDS * 2**self.failures, LONGEST_SECONDS)
        self.failures += 1


def meaning(step: StepSpec) -> tuple[object, ...]:
    """What makes it another step to a query; what it follows by itself does not."""
    return step.fingerprint, step.slack, step.shed


def wanted(pipelines: Sequence[Pipeline]) -> Mapping[str, tuple[str, StepSpec]]:
    """The steps of some pipelines by id, with the query that runs each."""
    found: dict[str, tuple[str, StepSpec]] = {}
    for pipeline in pipelines:
        for query, steps in pipeline.queries.items():
            for step in steps:
                former = found.get(step.id, (query, step))[1]
                together = joint(step.parallelism, former.parallelism)
                found[step.id] = query, replace(step, parallelism=together)
    return found


Linked = Callable[[], Sequence[Pipeline]]
"""Tells which pipelines are linked to a log."""
