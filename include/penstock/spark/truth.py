"""What every window and key must answer: plain Spark SQL over ``events``.

It shares no pane and no partial with the speed layer: Spark's own ``window`` assigns records, and
what is answered of them is the kind's own truth, by Spark's own aggregates.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.core.expression import to_sql
from penstock.core.kinds import part
from penstock.core.measure import ColumnType
from penstock.core.step import Above, StepSpec
from penstock.core.window import FOREVER
from penstock.lake.history.position import Position
from penstock.lake.log.sheds import ever_shed
from penstock.lake.proof.scope import Scope
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans
from penstock.lake.storage.tables import Tables
from penstock.spark.frames import Frames
from penstock.spark.scoped import cells, cells_of, changed, inside

SQL_TYPES = {
    ColumnType.STRING: T.StringType(),
    ColumnType.LONG: T.LongType(),
    ColumnType.DOUBLE: T.DoubleType(),
    ColumnType.BOOLEAN: T.BooleanType(),
    ColumnType.TIMESTAMP: T.TimestampType(),
}


def truth_of(step: StepSpec) -> Any:
    """The truth of a step's kind: ``values(step)``, and ``same(value)`` of one of its values."""
    return part(step.kind, "truth")


def records(
    frames: Frames,
    tables: Tables,
    types: Mapping[str, ColumnType],
    step: StepSpec,
    at: Position,
    scope: Scope,
) -> DataFrame:
    """A step's records up to a position, with ``mark$``, the watermark in force for each.

    For one that is shed (``shed$``) that is ``FOREVER``.

    Args:
        frames: makes frames.
        tables: of the pipeline.
        types: of its columns.
        step: the step.
        at: the position.
        scope: which windows.
    """
    seq, more = F.col("arrival_seq"), step.window.size - 1
    within = Spans("event_time", scope.reach(more))
    if step.by_key:  # wherever they stand, but for what a freeze takes away
        within = Spans("arrival_seq", ((scope.gone + 1, at.sealed.seq),))
    events = frames.load(tables.events(dict(types), step.streams), within)
    mine = seq > F.lit(scope.gone) if step.by_key else inside("event_time", scope, more)
    events = events.where((seq <= at.sealed.seq) & mine)
    known = {**types, **{column.name: column.type for column in step.required}}
    for name in step.columns:
        if name not in events.columns:
            events = events.withColumn(name, F.lit(None).cast(SQL_TYPES[known[name]]))
    for column in step.required:  # declared later than the record came: it has no answer
        events = events.where(F.col(column.name).isNotNull())
    if step.where is not None:
        events = events.where(F.expr(to_sql(step.where)))
    if step.above is not None:
        events = _begun_with(events, step.above, at.epoch.seq)
    cell, rows = cells(scope, at.sealed.seq)
    runs = frames.of(["cell$", "first$", "last$", "mark$"], rows)
    held = F.col("arrival_seq").between(F.col("first$"), F.col("last$"))
    here = (F.expr(cell) == F.col("cell$")) & held
    found = events.join(F.broadcast(runs), here, "left").drop("cell$", "first$", "last$")
    return _with_shed(found, frames, tables, step, at)


def _begun_with(answers: DataFrame, above: Above, epoch: int) -> DataFrame:
    """Answers as records, of a history without those that a revision replaced in it."""
    seq = F.col("arrival_seq")
    known = ["event_time", *above.keys]
    history = Window.partitionBy(*known, seq <= F.lit(epoch))
    answers = answers.withColumn("last$", F.max(seq).over(history))
    return answers.where((seq > F.lit(epoch)) | (seq == F.col("last$"))).drop("last$")


def _with_shed(
    events: DataFrame, frames: Frames, tables: Tables, step: StepSpec, at: Position
) -> DataFrame:
    """Which records are shed, by the decisions in force for them."""
    sheds = ever_shed(Table(tables.decisions()), step, at.epoch.seq)
    if not sheds:
        return events.withColumn("shed$", F.lit(False))
    cell, rows = cells_of([(0, 0), *sheds], (0,), at.sealed.seq)
    runs = frames.of(["cell$", "first$", "last$", "ratio$"], rows)
    held = F.col("arrival_seq").between(F.col("first$"), F.col("last$"))
    found = events.join(F.broadcast(runs), (F.expr(cell) == F.col("cell$")) & held, "left")
    hashed = F.expr("arrival_seq % 2147483648 * 2654435761 % 4294967296")
    shed = F.coalesce(hashed < F.expr("`ratio$` * 4294967296 DIV 100"), F.lit(False))
    mark = F.when(F.col("shed$"), F.lit(FOREVER)).otherwise(F.col("mark$"))
    found = found.withColumn("shed$", shed).withColumn("mark$", mark)
    return found.drop("cell$", "first$", "last$", "ratio$")


def in_windows(events: DataFrame, step: StepSpec) -> DataFrame:
    """Each record in each of its windows (``w$``)."""
    spec = step.window
    if spec.landmark:
        events = events.where(F.unix_micros("event_time") >= F.lit(spec.origin))
    start = f"{spec.origin % spec.slide} microseconds"
    span = F.window("event_time", f"{spec.size} microseconds", f"{spec.slide} microseconds", start)
    return events.withColumn("w$", span)


def recomputed(events: DataFrame, step: StepSpec, epoch: int, scope: Scope) -> DataFrame:
    """Every window and key that has a record, with its values, by Spark's own aggregates.

    Besides, which of its records must have been late: those whose window had ended at or below
    the watermark in force for them. Of a window that had closed before the audit's footing and
    changed since, only what came since is judged.

    Args:
        events: with ``mark$``, that watermark, us.
        step: the step.
        epoch: last position before the step's epoch; what had closed by then is history.
        scope: which windows.
    """
    seq, end = F.col("arrival_seq"), F.unix_micros("w$.end")
    missed = end <= F.col("mark$")
    late = missed & (seq > F.when(changed(end, scope), F.lit(scope.seq)).otherwise(F.lit(epoch)))
    windows = in_windows(events, step).where(inside("w$.start", scope))
    grouped = windows.groupBy("w$", *step.key_names)
    values = [F.count(F.lit(1)).alias("n_records"), *truth_of(step).values(step)]
    found = grouped.agg(
        F.count(F.lit(1)).alias("pairs$"),
        F.count(F.when(seq > F.lit(scope.seq), 1)).alias("new$"),
        F.count(F.when(late, 1)).alias("must_late$"),
        F.max(F.when(late, seq)).alias("must_last_seq$"),
        F.count(F.when(late & F.col("shed$"), 1)).alias("must_shed$"),
        F.count(F.when(missed & (seq <= F.lit(epoch)), 1)).alias("must_preloaded$"),
        *(values if step.above is None else []),
    )
    names = [c for c in found.columns if c not in {"w$", *step.key_names}]
    return found.select(F.col("w$.start").alias("window_start"), *step.key_names, *names)
