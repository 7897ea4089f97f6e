"""What every window and key must answer: plain Spark SQL over ``events``.

It shares no aggregation, no pane and no partial sum with the speed layer: Spark's own ``window``
assigns records, Spark's own aggregates answer.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.core.expression import MeasureSpec, phi_of, to_sql
from penstock.core.measure import NUDGE, ColumnType, Function
from penstock.core.step import StepSpec

TOLERANCE = 1e-9
"""Of sum|x|, for sums and averages of doubles: what an outside comparison allows."""
SQL_TYPES = {
    ColumnType.STRING: T.StringType(),
    ColumnType.LONG: T.LongType(),
    ColumnType.DOUBLE: T.DoubleType(),
    ColumnType.BOOLEAN: T.BooleanType(),
    ColumnType.TIMESTAMP: T.TimestampType(),
}


def recomputed(events: DataFrame, step: StepSpec, epoch: int) -> DataFrame:
    """Every window and key that has a record, with its measures, by Spark's own aggregates.

    Besides, which of its records must have been late: those whose window had ended at or below
    the watermark in force for their block.

    Args:
        events: with ``mark``, that watermark, us.
        step: the step.
        epoch: first block of the step's epoch; what came before and had closed is history.
    """
    spec = step.window
    if spec.landmark:
        events = events.where(F.unix_micros("event_time") >= F.lit(spec.origin))
    start = f"{spec.origin % spec.slide} microseconds"
    span = F.window("event_time", f"{spec.size} microseconds", f"{spec.slide} microseconds", start)
    measures = [column for m in step.measures for column in _aggregates(m)]
    missed = F.unix_micros("w$.end") <= F.col("mark$")
    late = missed & (F.col("block") >= F.lit(epoch))
    grouped = events.withColumn("w$", span).groupBy("w$", *step.key_names)
    found = grouped.agg(
        F.count(F.lit(1)).alias("n_records"),
        F.count(F.when(late, 1)).alias("must_late$"),
        F.max(F.when(late, F.col("arrival_seq"))).alias("must_last_seq$"),
        F.count(F.when(missed & ~late, 1)).alias("must_preloaded$"),
        *measures,
    )
    names = [c for c in found.columns if c not in {"w$", *step.key_names}]
    return found.select(F.col("w$.start").alias("window_start"), *step.key_names, *names)


def _aggregates(measure: MeasureSpec) -> list[Column]:
    if measure.over is None:
        return [F.count(F.lit(1)).alias(measure.name)]
    over = F.expr(to_sql(measure.over))
    if measure.over_type is ColumnType.LONG and measure.function is Function.SUM:
        return [F.sum(over.cast("decimal(38,0)")).cast("long").alias(measure.name)]
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
    columns = [functions[measure.function](over).alias(measure.name)]
    if measure.type is ColumnType.DOUBLE and measure.function in {Function.SUM, Function.AVG}:
        size = functions[measure.function](F.abs(over.cast("double")))
        columns.append(size.alias(f"size${measure.name}"))
    return columns


def same(measure: MeasureSpec) -> Column:
    """Whether a found answer is the recomputed one."""
    expected, found = F.col(measure.name), F.col(f"found${measure.name}")
    equal = expected.eqNullSafe(found)
    if measure.type is ColumnType.DOUBLE and measure.function in {Function.SUM, Function.AVG}:
        near = F.abs(expected - found) <= F.col(f"size${measure.name}") * F.lit(TOLERANCE)
        return equal | F.coalesce(near, F.lit(False))
    return equal
