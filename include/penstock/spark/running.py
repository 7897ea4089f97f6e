"""The steps that a stream host runs, and what each has done."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.config.pipeline import Pipeline
from penstock.core.step import StepSpec
from penstock.lake.history.position import position
from penstock.lake.storage.tables import Tables

PAUSE_SECONDS, LONGEST_SECONDS = 30.0, 1800.0
"""Until a step that could not go on is tried again: it doubles."""


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
        failures: how often in a row it came to that.
        due: when it is tried again, of the clock that only rises, s.
    """

    step: StepSpec
    query: str
    block: int = 0
    answered: int = 0
    micro_batches: int = 0
    error: str = ""
    failures: int = 0
    due: float = 0.0

    def begins(self, tables: Tables) -> None:
        """It is about to run, from where it stands."""
        at = position(tables, self.step)
        if at is not None:
            self.block, self.answered = at.sealed.block, at.sealed.seq + 1

    def seals(self, block: int, seq: int) -> None:
        """It has sealed a micro-batch."""
        self.block, self.answered = block, seq + 1
        self.micro_batches += 1
        self.failures = 0

    def fails(self, cause: str) -> None:
        """It cannot go on now."""
        self.error = cause
        self.due = time.monotonic() + min(PAUSE_SECONDS * 2**self.failures, LONGEST_SECONDS)
        self.failures += 1


def meaning(step: StepSpec) -> tuple[object, ...]:
    """What makes it another step to a query; what it follows by itself does not."""
    return step.fingerprint, step.slack, step.shed


def wanted(pipelines: Sequence[Pipeline]) -> Mapping[str, tuple[str, StepSpec]]:
    """The steps of some pipelines by id, with the query that runs each."""
    return {
        step.id: (query, step)
        for pipeline in pipelines
        for query, steps in pipeline.queries.items()
        for step in steps
    }


Linked = Callable[[], Sequence[Pipeline]]
"""Tells which pipelines are linked to a log."""
