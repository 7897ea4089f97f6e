"""Which alarms a look-up must have: joins and windows of Spark SQL over ``events``.

Which of them the stream must have told, and which records are late, is said by plain Python that
goes through each key's records one by one, as docs/decisions/0045-a-look-up.md defines it. Nothing
of it is shared with what answers in the stream and in corrections.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.core import expression
from penstock.core.expression import to_sql
from penstock.kinds.keyed.truth import beside, same
from penstock.kinds.lookup.spec import APART, EARLIER, LATER, NEW, OLD, LookupSpec, Pairs
from penstock.kinds.lookup.walk import BETWEEN, PAIR, UNKNOWN, Finding, walk

__all__ = ["alarms", "same", "told"]

FINDINGS = T.ArrayType(
    T.StructType(
        [T.StructField(n, T.LongType()) for n in ("arrival_seq", "new_seq", "old_seq", "role")]
    )
)


Sides: TypeAlias = Mapping[str, DataFrame]
"""Side data by name: its columns, and from and until which position (``first$``, ``until$``)."""

Keep: TypeAlias = Callable[[DataFrame], DataFrame]


def alarms(
    records: DataFrame,
    step: LookupSpec,
    sides: Sides,
    keep: Keep,
    marks: Sequence[tuple[int, int]],
    ends: tuple[int, int],
) -> tuple[DataFrame, None]:
    """All alarms of some records: window, keys, both positions, values and ``n_records``.

    They hang on no watermark; ``marks`` and ``ends`` are for other kinds.
    """
    del keep, marks, ends
    side = _sides(records, step)
    if step.pairs is Pairs.CONSECUTIVE:
        order = Over.partitionBy(*step.key_names).orderBy("event_time", "arrival_seq")
        nearest = records.select("arrival_seq", F.lead("arrival_seq").over(order).alias("next$"))
        pairs = nearest.where(F.col("next$").isNotNull())
        pairs = pairs.select(*_by_age(F.col("arrival_seq"), F.col("next$")))
        found = pairs.join(side("new"), "new_seq").join(side("old"), "old_seq")
    else:
        found = _near(side("new"), side("old"), step)
    found = _held(found, step, sides)
    values = [_value(step, value) for value in step.values]
    pairs = F.lit(2).cast("long").alias("n_records")
    return found.select(*_known_by(step), *values, pairs), None


def _known_by(step: LookupSpec) -> list[Column]:
    start = F.timestamp_micros(_floor(F.unix_micros("new_time"), step.window.size))
    keys = [F.col(f"`new.{key}`").alias(key) for key in step.key_names]
    return [start.alias("window_start"), *keys, F.col("new_seq"), F.col("old_seq")]


def told(
    records: DataFrame,
    every: DataFrame,
    step: LookupSpec,
    epoch: int,
    sides: Sides,
    keep: Keep,
) -> tuple[DataFrame, DataFrame]:
    """What the stream must have said of the records after its epoch's start.

    Args:
        records: all of them, with ``shed$``: whether it was left to the correction.
        every: all their alarms, which the stream need not have told.
        step: the look-up.
        epoch: position of its epoch's start.
        sides: side data.
        keep: holds a frame in memory that is asked for twice.

    Returns:
        What alarms are known by; window, keys, ``arrival_seq`` of late records, and ``shed$``.
    """
    del every
    withheld = records.where(F.col("shed$")).select("arrival_seq")
    given = records.where(~F.col("shed$"))
    side = _sides(given, step)
    seen = F.struct("arrival_seq", F.unix_micros("event_time").alias("time"))
    walked = F.udf(partial(_walked, step.keep, step.reach, epoch), FINDINGS, useArrow=False)
    of_keys = given.groupBy(*step.key_names).agg(F.sort_array(F.collect_list(seen)).alias("log$"))
    roles = of_keys.select(F.explode(walked("log$")).alias("f$")).select("f$.*")
    roles = keep(roles)
    unknown = roles.where(F.col("role") == UNKNOWN)
    pairs = roles.where(F.col("role") != UNKNOWN)
    held = pairs.join(side("new"), "new_seq").join(side("old"), "old_seq")
    held = _held(held, step, sides)
    late = held.where(F.col("role") == BETWEEN).select("arrival_seq")
    late = late.unionByName(unknown.select("arrival_seq")).unionByName(withheld).distinct()
    start = F.timestamp_micros(_floor(F.unix_micros("event_time"), step.window.size))
    where = records.select("arrival_seq", start.alias("window_start"), *step.key_names, "shed$")
    return (
        held.where(F.col("role") == PAIR).select(*_known_by(step)),
        late.join(where, "arrival_seq"),
    )


def _walked(
    keep: int, reach: int | None, epoch: int, log: Sequence[tuple[int, int]]
) -> list[Finding]:
    """Through the records of one key: position and event time of each, in the order of the log."""
    return [*walk(log, keep, reach, epoch)]


def _sides(records: DataFrame, step: LookupSpec) -> Callable[[str], DataFrame]:
    """A record's columns as those of one side of a pair."""

    def side(name: str) -> DataFrame:
        shown = [F.col(c.name).alias(f"{name}.{c.name}") for c in (*step.keys, *step.observed)]
        return records.select(
            F.col("arrival_seq").alias(f"{name}_seq"), F.col("event_time").alias(f"{name}_time"),
            *shown,
        )  # fmt: skip

    return side


def _near(new: DataFrame, old: DataFrame, step: LookupSpec) -> DataFrame:
    """Pairs of a key no further apart than a look-up reaches: joined by key and stretch of time."""
    assert step.reach is not None  # noqa: S101  of pairs all
    width = max(step.reach, 1)
    mine = _floor(F.unix_micros("new_time"), width)
    stretches = F.array(*(mine + F.lit(n * width) for n in (-1, 0, 1)))
    new = new.withColumn("stretch$", F.explode(stretches))
    old = old.withColumn("stretch$", _floor(F.unix_micros("old_time"), width))
    keys = [F.col(f"`new.{k}`") == F.col(f"`old.{k}`") for k in step.key_names]
    alike = reduce(lambda a, b: a & b, keys, new["stretch$"] == old["stretch$"])
    return new.join(old, alike & (F.col("old_seq") < F.col("new_seq")))


def _held(pairs: DataFrame, step: LookupSpec, sides: Sides) -> DataFrame:
    """Of some pairs those for which the condition holds."""
    forward = F.col("new_time") >= F.col("old_time")
    for side, (one, other) in {EARLIER: (OLD, NEW), LATER: (NEW, OLD)}.items():
        for c in step.compared(side):
            mine, theirs = F.col(f"`{one}.{c.name}`"), F.col(f"`{other}.{c.name}`")
            pairs = pairs.withColumn(f"{side}.{c.name}", F.when(forward, mine).otherwise(theirs))
    for join in step.sides:
        pairs = beside(pairs, join, sides[join.table.name], "new_seq")
    apart = F.abs(F.unix_micros("new_time") - F.unix_micros("old_time"))
    held = F.coalesce(F.expr(to_sql(step.alarm)), F.lit(False))
    if step.reach is not None:
        held &= apart <= F.lit(step.reach)
    seconds = apart / F.lit(1_000_000.0)
    return pairs.withColumn(APART.name, seconds).where(held).drop(APART.name)


def _by_age(one: Column, other: Column) -> tuple[Column, Column]:
    return F.greatest(one, other).alias("new_seq"), F.least(one, other).alias("old_seq")


def _floor(micros: Column, width: int) -> Column:
    return micros - F.pmod(micros, F.lit(width))


def _value(step: LookupSpec, value: expression.Column) -> Column:
    side, _, name = value.name.partition("_")
    if any(c.name == name for c in step.kept):
        return F.col(f"`{side}.{name}`").alias(value.name)
    return F.col(value.name)
