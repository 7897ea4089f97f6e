"""What every window and key must answer: plain Spark SQL over ``events``.

It shares no pane and no partial with the speed layer: Spark's own ``window`` assigns records, and
what is answered of them is the kind's own truth, by Spark's own aggregates.
"""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.core.kinds import part
from penstock.core.measure import ColumnType
from penstock.core.step import StepSpec
from penstock.lake.proof.scope import Scope
from penstock.spark.scoped import changed, inside

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
    spec = step.window
    if spec.landmark:
        events = events.where(F.unix_micros("event_time") >= F.lit(spec.origin))
    start = f"{spec.origin % spec.slide} microseconds"
    span = F.window("event_time", f"{spec.size} microseconds", f"{spec.slide} microseconds", start)
    seq, end = F.col("arrival_seq"), F.unix_micros("w$.end")
    missed = end <= F.col("mark$")
    late = missed & (seq > F.when(changed(end, scope), F.lit(scope.seq)).otherwise(F.lit(epoch)))
    windows = events.withColumn("w$", span).where(inside("w$.start", scope))
    grouped = windows.groupBy("w$", *step.key_names)
    found = grouped.agg(
        F.count(F.lit(1)).alias("n_records"),
        F.count(F.when(seq > F.lit(scope.seq), 1)).alias("new$"),
        F.count(F.when(late, 1)).alias("must_late$"),
        F.max(F.when(late, seq)).alias("must_last_seq$"),
        F.count(F.when(missed & (seq <= F.lit(epoch)), 1)).alias("must_preloaded$"),
        *truth_of(step).values(step),
    )
    names = [c for c in found.columns if c not in {"w$", *step.key_names}]
    return found.select(F.col("w$.start").alias("window_start"), *step.key_names, *names)
