"""What a reader sees of a step at a sealed position: the answers in force, and the balance.

A speed row counts only if ``control`` sealed its micro-batch; the answer in force is the one
that has seen most of the log. The laws hold at every sealed position, not between commits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.step import StepSpec
from penstock.lake.commit import Table
from penstock.lake.generation import Generation, Sealed, current, sealed_rows
from penstock.lake.read import Spans, read_table
from penstock.lake.tables import Tables

ROW = "$row"
"""No column of a user has such a name."""
SPEED, LATE, BACKFILL = "speed", "late", "backfill"


@dataclass(frozen=True, slots=True)
class Position:
    """A sealed position of one step.

    Attributes:
        epoch: the definition's first generation.
        sealed: the control row read up to.
        rows: it and all before it.
    """

    epoch: Generation
    sealed: Sealed
    rows: tuple[Sealed, ...]


def position(tables: Tables, step: StepSpec) -> Position | None:
    """The newest sealed position; none: the step was never started, or sealed nothing yet."""
    found = current(tables, step)
    if found is None:
        return None
    rows = sealed_rows(tables, step, found[0].number)
    return Position(found[0], rows[-1], tuple(rows)) if rows else None


def sealed_only(rows: pa.Table, at: Position) -> pa.Table:
    """Rows of micro-batches that ``control`` had sealed by a position."""
    known = np.array([_one(s.generation, s.micro_batch) for s in at.rows], np.int64)
    found = _one(np.asarray(rows["generation"]), np.asarray(rows["micro_batch"]))
    return rows.filter(pa.array(np.isin(found, known)))


def _one(generation: Any, micro_batch: Any) -> Any:
    """A micro-batch as one number."""
    return generation * 2**40 + micro_batch


def answers_at(
    tables: Tables, step: StepSpec, at: Position, within: Spans | None = None
) -> pa.Table:
    """All answers a position has: timely, of the history, corrected."""
    rows = read_table(Table(tables.answers(step)), within=within)
    speed = sealed_only(rows.filter(pc.equal(rows["reason"], SPEED)), at)
    other = rows.filter(
        (pc.field("reason") != SPEED)
        & (pc.field("generation") == at.epoch.number)
        & (pc.field("through_seq") <= at.sealed.seq)
    )
    return pa.concat_tables([speed, other])


def late_at(
    tables: Tables,
    step: StepSpec,
    at: Position,
    fields: list[pa.Field],
    within: Spans | None = None,
) -> pa.Table:
    """Late pairs a position has."""
    return sealed_only(read_table(Table(tables.late(step, fields)), within=within), at)


def in_force(answers: pa.Table, step: StepSpec) -> pa.Table:
    """One row per window and key: the answer that has seen most of the log."""
    by = ["window_start", *step.key_names]
    ordered = answers.sort_by([("through_seq", "ascending"), ("revision", "ascending")])
    ordered = ordered.append_column(ROW, pa.array(range(ordered.num_rows), pa.int64()))
    last = ordered.group_by(by, use_threads=False).aggregate([(ROW, "last")])
    return ordered.take(last[f"{ROW}_last"]).drop_columns([ROW]).sort_by("window_start")


def answers_in_force(tables: Tables, step: StepSpec) -> pa.Table:
    """The answers in force at the newest sealed position; empty before there is one."""
    at = position(tables, step)
    if at is None:
        return tables.answers(step).schema.empty_table()
    return in_force(answers_at(tables, step, at), step)


def timely_answers(tables: Tables, step: StepSpec) -> pa.Table:
    """The answers as the speed layer published them."""
    at = position(tables, step)
    if at is None:
        return tables.answers(step).schema.empty_table()
    rows = answers_at(tables, step, at)
    return rows.filter(pc.equal(rows["reason"], SPEED))


@dataclass(frozen=True, slots=True)
class Balance:
    """Where every received record, and every (record, window) pair, has gone.

    ``received = accepted + quarantined`` and
    ``pairs = on_time + late + open + preloaded``; the audit recomputes ``pairs`` from events.
    """

    received: int
    accepted: int
    quarantined: int
    on_time: int
    late: int
    open: int
    preloaded: int

    @property
    def pairs(self) -> int:
        """All pairs accounted for."""
        return self.on_time + self.late + self.open + self.preloaded


def balance(tables: Tables, step: StepSpec) -> Balance | None:
    """The balance at the newest sealed position; none before there is one."""
    at = position(tables, step)
    if at is None:
        return None
    blocks = read_table(Table(tables.blocks()), where=pc.field("last_seq") <= at.sealed.seq)
    answers = answers_at(tables, step, at)
    late = late_at(tables, step, at, [])
    return Balance(
        received=at.sealed.seq + 1,
        accepted=_total(blocks["accepted"]),
        quarantined=_total(blocks["quarantined"]),
        on_time=_total(answers.filter(pc.equal(answers["reason"], SPEED))["n_records"]),
        late=_total(late["n_records"]),
        open=at.sealed.open_pairs,
        preloaded=_total(preloaded(answers, at.epoch)["n_records"]),
    )


def preloaded(answers: pa.Table, epoch: Generation) -> pa.Table:
    """Answers of the history before an epoch's start."""
    return answers.filter((pc.field("reason") == BACKFILL) & (pc.field("through_seq") == epoch.seq))


def _total(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)
