"""What a position has of a step: its answers, its late pairs, and the answers in force.

In force is the answer that has seen most of the log.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.step import StepSpec
from penstock.lake.history.position import BACKFILL, SPEED, Position, sealed_only
from penstock.lake.storage.commit import Table
from penstock.lake.storage.definition import Definition
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

ROW = "$row"
"""No column of a user has such a name."""


def answers_at(
    tables: Tables, step: Definition, at: Position, within: Spans | None = None
) -> pa.Table:
    """All answers a position has: timely, of the history, corrected."""
    seen = pc.field("through_seq") <= at.seq
    rows = read_table(Table(tables.answers(step)), where=seen, within=within)
    speed = sealed_only(rows.filter(pc.equal(rows["reason"], SPEED)), at)
    return pa.concat_tables([speed, rows.filter(repaired(at))])


def had(at: Position) -> pc.Expression:
    """True for the rows of ``answers`` that a position has."""
    sealed = pc.scalar(False)
    for last in at.lasts:
        own = pc.field("generation") == last.generation
        sealed = sealed | (own & (pc.field("micro_batch") <= last.micro_batch))
    timely = (pc.field("reason") == SPEED) & sealed
    return (pc.field("through_seq") <= at.seq) & (timely | repaired(at))


def repaired(at: Position) -> pc.Expression:
    """True for the answers of plans that a position has."""
    epochs = (pc.field("epoch") == at.epoch.number) | (pc.field("reason") == BACKFILL)
    plans = pc.field("plan").isin(pa.array(sorted(at.done), pa.int64()))
    return (pc.field("reason") != SPEED) & epochs & plans


def late_at(
    tables: Tables,
    step: StepSpec,
    at: Position,
    fields: list[pa.Field],
    within: Spans | None = None,
    where: pc.Expression | None = None,
) -> pa.Table:
    """Late pairs a position has."""
    return sealed_only(read_table(Table(tables.late(step, fields)), None, where, within), at)


def excluded_at(tables: Tables, step: Definition, at: Position) -> pa.Table:
    """Records that a step leaves out, of those that a position has: each once, and why."""
    rows = sealed_only(read_table(Table(tables.excluded(step))), at)
    rows = rows.filter(pc.less_equal(rows["arrival_seq"], at.seq))
    found = rows.group_by("arrival_seq").aggregate([("reason", "min")])
    return found.rename_columns(["arrival_seq", "reason"]).sort_by("arrival_seq")


def excluded_since(tables: Tables, step: Definition, at: Position) -> pa.Table:
    """Those after its history, which are not counted as preloaded."""
    found = excluded_at(tables, step, at)
    return found.filter(pc.greater(found["arrival_seq"], at.epoch.seq))


def in_force(answers: pa.Table, step: Definition) -> pa.Table:
    """The answers that have seen most of the log, without what was taken back."""
    now = newest(answers, step)
    return now.filter(pc.greater(now["n_records"], 0))


def newest(answers: pa.Table, step: Definition) -> pa.Table:
    """One row per window and identity: the answer that has seen most of the log.

    One of no records says that there is none any more: an earlier one was taken back.
    """
    by = ["window_start", *step.identity_names]
    ordered = answers.sort_by([("through_seq", "ascending"), ("revision", "ascending")])
    ordered = ordered.append_column(ROW, pa.array(range(ordered.num_rows), pa.int64()))
    last = ordered.group_by(by, use_threads=False).aggregate([(ROW, "last")])
    return ordered.take(last[f"{ROW}_last"]).drop_columns([ROW]).sort_by("window_start")


def preloaded(
    tables: Tables, step: Definition, at: Position, columns: Sequence[str] = ()
) -> pa.Table:
    """A position's answers of the history before its epoch: the last of each window.

    Args:
        tables: of the pipeline.
        step: the epoch's definition.
        at: the position.
        columns: wanted besides what answers are known by; none: all.
    """
    known = ["window_start", *step.identity_names, "through_seq", "revision", "n_records"]
    mine = (pc.field("reason") == BACKFILL) & (pc.field("through_seq") <= at.seq)
    mine &= pc.field("plan").isin(pa.array(sorted(at.done), pa.int64()))
    names = [*dict.fromkeys([*known, *columns])] if columns else None
    return in_force(read_table(Table(tables.answers(step)), names, mine), step)
