"""What an aggregate must answer: Spark's own aggregates.

Nothing of it is shared with what answers in the stream and in corrections. Where adding up the
sizes of some doubles leaves what a double holds, the same aggregates are taken of the values times
``SCALE``: a plain sum would be infinite, or not a number, by the order it was added in.
"""

import sys

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.core.expression import MeasureSpec, phi_of, to_sql
from penstock.core.measure import NUDGE, ColumnType, Function
from penstock.kinds.aggregate.spec import AggregateSpec

TOLERANCE = 1e-9
"""Of sum|x|, for sums and averages of doubles: what an outside comparison allows."""
SCALE = 2.0**-80
GREATEST = sys.float_info.max


def values(step: AggregateSpec) -> list[Column]:
    """The measures of the records of a window and key, and what ``same`` needs besides."""
    return [column for measure in step.measures for column in _aggregates(measure)]


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
