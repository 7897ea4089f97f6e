"""What every window and key must answer: plain Spark SQL over ``events``.

It shares no aggregation, no pane and no partial sum with the speed layer: Spark's own ``window``
assigns records, Spark's own aggregates answer. Where adding up the sizes of some doubles leaves
what a double holds, the same aggregates are taken of the values times ``SCALE``: a plain sum would
be infinite, or not a number, by the order it was added in.
"""

import sys

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.core.expression import MeasureSpec, phi_of, to_sql
from penstock.core.measure import NUDGE, ColumnType, Function
from penstock.core.step import StepSpec
from penstock.lake.proof.scope import Scope
from penstock.spark.scoped import changed, inside

TOLERANCE = 1e-9
"""Of sum|x|, for sums and averages of doubles: what an outside comparison allows."""
SCALE = 2.0**-80
GREATEST = sys.float_info.max
SQL_TYPES = {
    ColumnType.STRING: T.StringType(),
    ColumnType.LONG: T.LongType(),
    ColumnType.DOUBLE: T.DoubleType(),
    ColumnType.BOOLEAN: T.BooleanType(),
    ColumnType.TIMESTAMP: T.TimestampType(),
}


def recomputed(events: DataFrame, step: StepSpec, epoch: int, scope: Scope) -> DataFrame:
    """Every window and key that has a record, with its measures, by Spark's own aggregates.

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
    measures = [column for m in step.measures for column in _aggregates(m)]
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
        *measures,
    )
    names = [c for c in found.columns if c not in {"w$", *step.key_names}]
    return found.select(F.col("w$.start").alias("window_start"), *step.key_names, *names)


def _aggregates(measure: MeasureSpec) -> list[Column]:
    if measure.over is None:
        return [F.count(F.lit(1)).alias(measure.name)]
    over = F.expr(to_sql(measure.over))
    if measure.over_type is ColumnType.LONG and measure.function is Function.SUM:
        return [F.sum(over.cast("decimal(38,0)")).try_cast("long").alias(measure.name)]
    if measure.function is Function.QUANTILE:
        kept, phi = F.sort_array(F.collect_list(over)), phi_of(measure)
        rank = F.greatest(F.lit(1), F.ceil(F.lit(phi) * F.size(kept) - F.lit(NUDGE)).cast("int"))
        return [F.try_element_at(kept, rank).alias(measure.name)]
    functions = {
        Function.COUNT: F.count,
        Function.SUM: F.sum,
        Function.AVG: F.avg,
        Function.MIN: F.min,
        Function.MAX: F.max,
    }
    function = functions[measure.function]
    if not _rounds(measure):
        return [function(over).alias(measure.name)]
    sizes = F.abs(over.cast("double"))
    fits = F.sum(sizes) <= F.lit(GREATEST)
    scale = F.when(fits, F.lit(1.0)).otherwise(F.lit(SCALE))
    exact = F.when(fits, function(over)).otherwise(function(over * F.lit(SCALE)))
    value = exact / scale
    if measure.function is Function.AVG:  # rounding must not carry it beyond its values
        value = F.least(F.max(over), F.greatest(F.min(over), value))
    size = F.when(fits, function(sizes)).otherwise(function(sizes * F.lit(SCALE)))
    parts = {"": value, "exact$": exact, "size$": size, "scale$": scale}
    return [column.alias(f"{part}{measure.name}") for part, column in parts.items()]


def _rounds(measure: MeasureSpec) -> bool:
    """Whether the order of addition shows in a measure."""
    summed = measure.function in {Function.SUM, Function.AVG}
    return summed and measure.type is ColumnType.DOUBLE


def same(measure: MeasureSpec) -> Column:
    """Whether a found answer is the recomputed one."""
    expected, found = F.col(measure.name), F.col(f"found${measure.name}")
    equal = expected.eqNullSafe(found)
    if not _rounds(measure):
        return equal
    exact, size, scale = (F.col(f"{part}${measure.name}") for part in ("exact", "size", "scale"))
    room = size * F.lit(TOLERANCE)
    near = F.abs(exact - found * scale) <= room
    if measure.function is Function.SUM:  # at the very border of what a double holds
        greatest = F.lit(GREATEST) * scale
        near |= (found > GREATEST) & (exact + room >= greatest)
        near |= (found < -GREATEST) & (exact - room <= -greatest)
    return equal | F.coalesce(near, F.lit(False))
