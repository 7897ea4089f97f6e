"""Sealed positions of a step: up to where it speaks for the log, and which rows count there.

A speed row counts only if ``control`` sealed its micro-batch, a corrected one only if its whole
plan is finished in ``corrections``. The laws hold at every sealed position, not between commits.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.lake.history.generation import Generation, Sealed, current
from penstock.lake.history.sealed import last_sealed, sealed_rows
from penstock.lake.storage.commit import Table
from penstock.lake.storage.definition import Definition
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

SPEED, LATE, BACKFILL = "speed", "late", "backfill"
SHED = "shed"
"""Why a late row was missed by the stream, if not because it came too late."""
PLANNED, DONE = "planned", "done"


@dataclass(frozen=True, slots=True)
class Position:
    """A sealed position of one definition of a step.

    Attributes:
        epoch: the definition's first generation.
        sealed: the control row read up to.
        lasts: the last control row that counts of each of its generations, in order: their
            micro-batches up to there are sealed.
        done: numbers of the correction plans that were finished when it was read, and reach no
            further: the answers of others do not exist for a reader. With those of former epochs
            on which the epoch's history rests.
        owes: whether the windows from before the epoch still wait for their first answers.
        seq: answers speak for the log up to here, at most; other steps may not be further.
    """

    epoch: Generation
    sealed: Sealed
    lasts: tuple[Sealed, ...]
    done: frozenset[int]
    owes: bool
    seq: int

    def up_to(self, seq: int) -> "Position":
        """The same, but as of an earlier record, if it is one.

        Between two rows of control that is a position, too: a timely answer names the block that
        closed its window, and is a function of the log up to there (law 0).
        """
        return replace(self, seq=min(self.seq, seq))


def position(tables: Tables, step: StepSpec) -> Position | None:
    """The newest sealed position; none: the step was never started, or sealed nothing yet."""
    found = current(tables, step)
    return None if found is None else position_of(tables, step, found[0])


def start_of(tables: Tables, step: StepSpec) -> Position | None:
    """Where a step begins, as a position; none: it was never started.

    Its history, which ends there, can be answered and audited before its stream seals anything.
    """
    found = current(tables, step)
    if found is None:
        return None
    first = found[0]
    done, owes = _corrected(tables, step, first, first.seq)
    sealed = Sealed(first.number, -1, first.block, first.seq, first.state, 0)
    return Position(first, sealed, (), done, owes, first.seq)


def position_of(
    tables: Tables, step: Definition, epoch: Generation, before: int | None = None
) -> Position | None:
    """The newest sealed position of one epoch; none: it sealed nothing.

    Args:
        tables: of the pipeline.
        step: the epoch's definition.
        epoch: the epoch.
        before: the first generation of the next epoch; none: there is none.
    """
    lasts = last_sealed(tables, step, epoch.number, before)
    if not lasts:
        return None
    # Read after control, and before any answer: what counts is there as a whole.
    done, owes = _corrected(tables, step, epoch, lasts[-1].seq)
    return Position(epoch, lasts[-1], lasts, done, owes, lasts[-1].seq)


def _corrected(
    tables: Tables, step: Definition, epoch: Generation, seq: int
) -> tuple[frozenset[int], bool]:
    """The finished correction plans an epoch has up to a record, and whether it owes its history.

    One may have been made and finished since ``control`` was read, for records after these.
    """
    names = ["plan", "epoch", "state", "reason", "base", "through_seq"]
    mine = pc.field("step") == step.id
    rows = read_table(Table(tables.corrections()), names, mine).to_pylist()
    later = {r["plan"] for r in rows if r["state"] == PLANNED and r["through_seq"] > seq}
    finished = [r for r in rows if r["state"] == DONE and r["epoch"] == epoch.number
                and r["plan"] not in later]  # fmt: skip
    done = {r["plan"] for r in finished}
    answered = [r["plan"] for r in finished if r["reason"] == BACKFILL]
    bases = {r["plan"]: r["base"] for r in rows if r["state"] == PLANNED}
    for plan in answered:
        base = bases.get(plan)
        while base is not None and base not in done:
            done.add(base)
            base = bases.get(base)
    history = epoch.seq >= 0 and epoch.state.watermark > BEGINNING
    return frozenset(done), history and not answered


def sealed_only(rows: pa.Table, at: Position) -> pa.Table:
    """Rows of micro-batches that ``control`` had sealed by a position."""
    generation, micro_batch = np.asarray(rows["generation"]), np.asarray(rows["micro_batch"])
    known = np.zeros(rows.num_rows, bool)
    for last in at.lasts:
        known |= (generation == last.generation) & (micro_batch <= last.micro_batch)
    return rows.filter(pa.array(known))


def rows_of(
    tables: Tables, step: Definition, at: Position, within: Spans | None = None
) -> list[Sealed]:
    """Rows of ``control`` that a position has, in the order of their positions; all by default."""
    found = sealed_rows(tables, step, at.epoch.number, within=within)
    lasts = {last.generation: last.micro_batch for last in at.lasts}
    return [s for s in found if s.micro_batch <= lasts.get(s.generation, -1)]
