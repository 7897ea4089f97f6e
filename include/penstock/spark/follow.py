"""A step's way through the log: which blocks a micro-batch takes, and the watermarks in them."""

import pickle
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.columns.marks import NO_MARKS, Marks
from penstock.core.controller import Measured
from penstock.core.crash import reached
from penstock.core.shedding import Shed, between
from penstock.core.slack import BlockSummary, SlackChange
from penstock.core.step import StepSpec
from penstock.lake.history.generation import Generation, numbered
from penstock.lake.history.offset import StepOffset
from penstock.lake.log.blocks import (
    EventTimes,
    newest_live,
    newest_live_before,
    seen_by,
    slack_changes,
    summaries,
)
from penstock.lake.log.joint import fold_over
from penstock.lake.log.sheds import sheds_of
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Tail
from penstock.lake.storage.tables import Tables

Cut = Callable[[Sequence[BlockSummary], int], Sequence[BlockSummary]]
"""Of the blocks that wait after a position, those of the next micro-batch."""


@dataclass(frozen=True, slots=True)
class StepStart:
    """A step as a query runs it.

    Attributes:
        step: the step.
        generation: where to start, and from which state.
        shards: into how many its state is to be cut; 0: as many as suit the query.
    """

    step: StepSpec
    generation: Generation
    shards: int = 0

    @property
    def run(self) -> tuple[str, int, int]:
        """Tells it from others of the log, and from what ran before it of the step."""
        return self.step.id, self.generation.number, self.shards

    def to_text(self) -> str:
        """For a message to where its state is kept."""
        return b64encode(pickle.dumps(self, 5)).decode()

    @classmethod
    def from_text(cls, text: str) -> "StepStart":
        """Read back what ``to_text`` wrote in this application."""
        found = pickle.loads(b64decode(text))  # noqa: S301  written by this application
        assert isinstance(found, cls)  # noqa: S101
        return found

    def offset(self, shards: Sequence[int]) -> StepOffset:
        """Where the generation stands before its first micro-batch."""
        g = self.generation
        return StepOffset(g.number, -1, g.block, g.seq, g.state, g.controller, tuple(shards))


class Waiting:
    """Sealed blocks that some step of a query has not taken yet.

    Args:
        tables: of the pipeline.
        first: block that is taken first; those before are not read.
    """

    def __init__(self, tables: Tables, first: int) -> None:
        self._tables, self._first = tables, first
        self._newest: dict[tuple[str, ...], int] = {}
        self._tail = Tail(Table(tables.blocks()), "block", first - 1)
        self._blocks: list[BlockSummary] = []

    def look(self) -> None:
        """See what was sealed meanwhile."""
        self._blocks.extend(summaries(self._tail.take()))

    @property
    def last(self) -> int:
        """Last position that waits; -1: nothing does."""
        return self._blocks[-1].last_seq if self._blocks else -1

    def holds(self, block: int) -> bool:
        """Whether it knows the blocks from one on."""
        return block >= self._first

    def forget(self, block: int) -> None:
        """Leave out the blocks before one."""
        self._newest = {some: self.newest_before(block, some) for some in self._newest}
        self._blocks, self._first = self.since(block), max(self._first, block)

    def since(self, block: int) -> list[BlockSummary]:
        """The blocks from one on."""
        return [b for b in self._blocks if b.number >= block]

    def newest_before(self, block: int, streams: tuple[str, ...]) -> int:
        """Newest live event time of some streams before a block, us; none: of the only one."""
        if streams not in self._newest:
            self._newest[streams] = newest_live_before(self._tables, self._first, streams)
        mine = seen_by([b for b in self._blocks if b.number < block], streams)
        return newest_live(mine, self._newest[streams])


class Follower:
    """One step on its way.

    Args:
        start: the step.
        tables: where the log lies.
        times: event times of the log, of the step's streams.
        decisions: the table of decisions.
        cut: what a micro-batch takes.
    """

    def __init__(
        self, start: StepStart, tables: Tables, times: EventTimes, decisions: Table, cut: Cut
    ) -> None:
        self.start, self.tables, self.decisions, self._cut = start, tables, decisions, cut
        self._fold = fold_over(times, start.step)
        self._epoch = numbered(tables, start.step, start.generation.epoch).seq
        self._known: tuple[int, tuple[SlackChange, ...], tuple[Shed, ...]] = (-1, (), ())

    def next(self, before: StepOffset, waiting: Waiting) -> StepOffset:
        """Where the next micro-batch ends: after whole blocks; ``before``: there is none.

        A generation's first one may hold no block: it seals the start and loads the seed. So may
        one in which shards get what others have given.
        """
        shards = before.moves or before.shards
        taken = self._cut(waiting.since(before.block), before.seq)
        if not taken and before.number >= 0 and not before.moves:
            return before
        fold, streams = self._fold, self.start.step.streams
        newest = waiting.newest_before(before.block, streams)
        fold.start(before.state, before.seq, newest, before.controller)
        changes, sheds = self._decided()
        fold.take(seen_by(taken, streams), changes)
        last = taken[-1].last_seq if taken else before.seq
        shed = between(sheds, before.seq + 1, last)
        reached("speed offset")
        return StepOffset(
            generation=before.generation,
            number=before.number + 1,
            block=taken[-1].number + 1 if taken else before.block,
            seq=last,
            state=fold.state,
            controller=fold.controller,
            shards=shards,
            marks=Marks.of(fold.marks, shed).to_text(),
            coverage=_coverage(fold.measured),
        )

    @staticmethod
    def giving(before: StepOffset, shards: tuple[int, ...]) -> StepOffset:
        """Where a micro-batch ends that takes nothing: shards give away what is to move.

        Args:
            before: where it begins.
            shards: that hold the state after it.
        """
        number = before.number + 1
        return replace(before, number=number, marks=NO_MARKS.to_text(), coverage=None, moves=shards)

    def _decided(self) -> tuple[tuple[SlackChange, ...], tuple[Shed, ...]]:
        """Slack and shedding; what holds for the blocks at hand stood before they were sealed."""
        version = self.decisions.refresh().version()
        if version != self._known[0]:
            step = self.start.step
            changes = tuple(slack_changes(self.tables, step.id))
            self._known = version, changes, sheds_of(self.decisions, step, self._epoch)
        return self._known[1:]


def _coverage(measured: list[Measured]) -> dict[str, Any] | None:
    """Of the windows that a micro-batch measured; none: there was none."""
    if not measured:
        return None
    covered = [m.coverage for m in measured]
    last = measured[-1]
    return {
        "windows_measured": len(measured),
        "windows_below": sum(m.below for m in measured),
        "coverage": sum(covered) / len(covered),
        "coverage_least": min(covered),
        "threshold": last.threshold,
        "alpha": last.alpha,
        "margin": last.margin,
    }
