"""How much of a step's answers is in the log of a pipeline over it."""

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc

from penstock.core.errors import TerminalError
from penstock.core.step import StepSpec
from penstock.lake.history.generation import Sealed
from penstock.lake.history.position import Position, position, rows_of
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

ANEW = (
    "{step} of {pipeline} has begun anew since its answers were taken: what it says now does not"
    " follow them. penstock remove {mine} and start it again: it takes what is in force then"
)


@dataclass(frozen=True, slots=True)
class Taken:
    """How much of a step's answers is in a log.

    Attributes:
        epoch: of the step.
        block, seq: it is sealed up to here; -1: nothing is in.
        generation, micro_batch: of its last row of ``control`` that is.
        mark: its watermark there, us; none: the log does not know of it yet.
        plans: of its corrections, as runs of their numbers.
        run: that the step had; empty: nobody wrote it down.
    """

    epoch: int = -1
    block: int = -1
    seq: int = -1
    generation: int = -1
    micro_batch: int = -1
    mark: int | None = None
    plans: tuple[tuple[int, int], ...] = ()
    run: str = ""

    @classmethod
    def of(cls, said: dict[str, Any]) -> "Taken":
        """From plain values."""
        return cls(**{**said, "plans": tuple((a, b) for a, b in said["plans"])})

    @property
    def order(self) -> tuple[int, int, int]:
        """Of that row."""
        return self.block, self.generation, self.micro_batch

    @property
    def later(self) -> pc.Expression:
        """True for rows of the micro-batches after that one: generations follow each other."""
        generation, micro_batch = pc.field("generation"), pc.field("micro_batch")
        same = (generation == self.generation) & (micro_batch > self.micro_batch)
        return (generation > self.generation) | same

    def is_of(self, step: StepSpec, at: Position | None) -> bool:
        """Whether what a step says at its position goes on with it: a run of another name does not.

        Readers of the step may have switched to that one (docs/decisions/0059): its micro-batches
        and corrections are counted from its own beginning.
        """
        return at is not None and at.epoch.number == self.epoch and self.run in {"", step.id}

    def row(self, tables: Tables, step: StepSpec, at: Position) -> Sealed | None:
        """That row of ``control``; none: it does not count."""
        mine = rows_of(tables, step, at, Spans("block", ((self.block, self.block),)))
        return next((row for row in mine if row.order == self.order), None)

    @property
    def done(self) -> frozenset[int]:
        """Numbers of the corrections."""
        return frozenset(n for a, b in self.plans for n in range(a, b + 1))

    def sealed(self, row: Sealed) -> "Taken":
        """The same at another row of ``control``."""
        return replace(self, block=row.block, seq=row.seq, generation=row.generation,
                       micro_batch=row.micro_batch, mark=row.state.watermark)  # fmt: skip

    def corrected(self, done: Collection[int]) -> "Taken":
        """The same with other corrections."""
        runs = list[tuple[int, int]]()
        for n in sorted(done):
            runs[-1:] = (
                [(runs[-1][0], n)] if runs and runs[-1][1] == n - 1 else [*runs[-1:], (n, n)]
            )
        return replace(self, plans=tuple(runs))


def taken_at(tables: Tables, block: int) -> Taken:
    """How much is in a log before a block."""
    within = Spans("block", ((block - 1, block - 1),))
    numbers = read_table(Table(tables.blocks()), ["plan"], within=within)["plan"].to_pylist()
    within = Spans("number", tuple((n, n) for n in numbers[:1]))
    rows = read_table(Table(tables.plans()), ["taken"], within=within)
    return Taken.of(json.loads(rows["taken"][0].as_py())[1]) if rows.num_rows else Taken()


def as_taken(tables: Tables, step: StepSpec, taken: Taken) -> Position:
    """A step as far as a log has its answers, whatever it has sealed since.

    Raises:
        TerminalError: it has begun anew since, or what was taken does not count.
    """
    at = position(tables, step)
    sealed = None if at is None or not taken.is_of(step, at) else taken.row(tables, step, at)
    if at is None or sealed is None:
        raise TerminalError(ANEW.format(step=step.id, pipeline=tables.pipeline, mine="PIPELINE"))
    lasts = (
        replace(last, micro_batch=min(last.micro_batch, taken.micro_batch))
        if last.generation == taken.generation else last
        for last in at.lasts
        if last.generation <= taken.generation
    )  # fmt: skip
    return replace(at, sealed=sealed, seq=taken.seq, lasts=tuple(lasts), done=taken.done)
