"""Which pairs there must be, in plain Spark SQL, and which of them the stream must have told.

Nothing of it is shared with what answers in the stream and in corrections. What is timely, and
which records are late, is said in docs/decisions.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.core.expression import to_sql
from penstock.core.step import STREAM
from penstock.kinds.join.conditions import query
from penstock.kinds.join.spec import LEFT, QUERIES, RIGHT, JoinSpec
from penstock.kinds.keyed.truth import same

__all__ = ["alarms", "same", "told"]

EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Instants that Spark can compute with, us: watermarks beyond are before or after everything."""


def alarms(
    records: DataFrame,
    step: JoinSpec,
    sides: Mapping[str, DataFrame],
    keep: Callable[[DataFrame], DataFrame],
    marks: Sequence[tuple[int, int]],
    ends: tuple[int, int],
) -> tuple[DataFrame, None]:
    """All pairs of some records: window, keys, both positions, values and ``n_records``."""
    del keep, marks, ends
    left, right = (_side(records, step, side) for side in (LEFT, RIGHT))
    width = max(step.before, step.after, 1_000_000)
    aim = F.unix_micros(_back("left_time", step))
    stretch = F.floor(aim / F.lit(width))
    left = left.withColumn("stretch$", F.explode(F.array(*(stretch + n for n in (-1, 0, 1)))))
    right = right.withColumn("stretch$", F.floor(F.unix_micros("right_time") / F.lit(width)))
    keys = [F.col(f"`left.{k}`") == F.col(f"`right.{k}`") for k in step.key_names]
    alike = reduce(lambda a, b: a & b, keys, left["stretch$"] == right["stretch$"])
    apart = F.unix_micros("right_time") - aim
    near = (apart >= F.lit(-step.before)) & (apart <= F.lit(step.after))
    found = left.join(right, alike).where(near & (F.col("left_seq") != F.col("right_seq")))
    if step.condition is not None:
        found = found.where(F.expr(to_sql(step.condition)))
    said = [QUERIES.name] if step.queries else []
    if step.queries:
        found = found.withColumn(QUERIES.name, _satisfied(step, sides[step.asked.name]))
        found = found.where(F.col(QUERIES.name) != "")
    start = F.unix_micros("left_time")
    start = F.timestamp_micros(start - F.pmod(start, F.lit(step.window.size)))
    return found.select(
        start.alias("window_start"),
        *(F.col(f"`left.{key}`").alias(key) for key in step.key_names),
        "left_seq", "right_seq", "left_time", "right_time",
        *(F.col(f"`{side}.{c.name}`").alias(f"{side}_{c.name}") for side, c in step.selected),
        *said,
        F.lit(2).cast("long").alias("n_records"),
        F.when(F.col("left_seq") < F.col("right_seq"), F.col("`left.shed$`"))
        .otherwise(F.col("`right.shed$`")).alias("shed$"),
    ), None  # fmt: skip


def told(
    records: DataFrame,
    every: DataFrame,
    step: JoinSpec,
    epoch: int,
    sides: Mapping[str, DataFrame],
    keep: Callable[[DataFrame], DataFrame],
) -> tuple[DataFrame, DataFrame]:
    """What the stream must have said of the records after its epoch's start.

    Args:
        records: all of them, with ``mark$``, the watermark in force for each, us.
        every: all their pairs.
        step: the join.
        epoch: position of its epoch's start.
        sides: side data: none.
        keep: holds a frame in memory that is asked for twice.

    Returns:
        What pairs are known by; window, keys, ``arrival_seq`` of late records, and ``shed$``.
    """
    del sides, keep
    size = F.lit(step.window.size)
    mark = F.col("mark$") - F.pmod(F.col("mark$"), size)
    new = records.where(F.col("arrival_seq") > F.lit(epoch))
    new = new.withColumn("counts$", F.least(F.greatest(mark, F.lit(EARLIEST)), F.lit(LATEST)))
    whole = reduce(lambda a, b: a & b, (F.col(k).isNotNull() for k in step.key_names), F.lit(True))
    late = new.where(whole & (F.unix_micros("event_time") < F.col("counts$")))
    start = F.unix_micros("event_time")
    start = F.timestamp_micros(start - F.pmod(start, size))
    newer = F.greatest("left_seq", "right_seq")
    pairs = every.withColumn("newer$", newer).join(
        new.select(F.col("arrival_seq").alias("newer$"), "counts$"), "newer$"
    )
    ours = F.unix_micros(_back("left_time", step)) + F.lit(step.after) >= F.col("counts$")
    reach = F.unix_micros(_earliest("bound$", step)) - F.lit(step.before)
    theirs = F.unix_micros("right_time") >= reach
    pairs = pairs.withColumn("bound$", F.timestamp_micros("counts$"))
    kept = F.when(F.col("counts$") <= F.lit(EARLIEST), F.lit(True))
    kept = kept.when(F.col("counts$") >= F.lit(LATEST), F.lit(False))
    kept = kept.otherwise(F.when(F.col("left_seq") < F.col("right_seq"), ours).otherwise(theirs))
    return (
        pairs.where(kept & ~F.col("shed$")).select("window_start", *step.identity_names),
        late.select("arrival_seq", start.alias("window_start"), *step.key_names, "shed$"),
    )


def _satisfied(step: JoinSpec, asked: DataFrame) -> Column:
    """Names of the queries in force at the later record that a pair satisfies, in order."""
    newer = F.greatest("left_seq", "right_seq")
    names = []
    for row in asked.collect():
        there = (newer >= F.lit(row["first$"])) & (newer < F.lit(row["until$"]))
        holds = F.coalesce(F.expr(to_sql(query(step, row["condition"]))), F.lit(False))
        names.append(F.when(there & holds, F.lit(row["name"])))
    return F.array_join(F.array_sort(F.array_compact(F.array(*names))), ",")


def _side(records: DataFrame, step: JoinSpec, name: str) -> DataFrame:
    """A record's columns as those of one side of a pair."""
    if len(step.streams) > 1:
        records = records.where(F.col(STREAM) == step.streams[0 if name == LEFT else -1])
    shown = [F.col(c.name).alias(f"{name}.{c.name}") for c in (*step.keys, *step.observed)]
    return records.select(
        F.col("arrival_seq").alias(f"{name}_seq"), F.col("event_time").alias(f"{name}_time"),
        F.col("shed$").alias(f"{name}.shed$"), *shown,
    )  # fmt: skip


def _back(column: str, step: JoinSpec) -> Column:
    """Where right records of a left one are looked for; months are those of Spark's calendar."""
    shift = step.shift
    when = F.expr(f"`{column}` - make_ym_interval(0, {shift.months})")
    return F.timestamp_micros(F.unix_micros(when) - F.lit(shift.span))


def _earliest(column: str, step: JoinSpec) -> Column:
    """The same of left records from then on, at the earliest: days may lie before one day."""
    when, there = F.col(column), _back(column, step)
    day = F.expr(f"`{column}` - make_ym_interval(0, {step.shift.months})")
    last, more = (
        F.dayofmonth(day) == F.dayofmonth(F.last_day(day)),
        F.last_day(when) > F.to_date(when),
    )
    again = F.lit(bool(step.shift.months)) & last & more
    midnight = F.timestamp_micros(F.unix_micros(F.date_trunc("day", day)) - F.lit(step.shift.span))
    return F.when(again, midnight).otherwise(there)
