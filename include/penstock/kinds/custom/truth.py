"""What a custom step must say: its code over the whole log, record by record, in another order.

``replay`` does that in Spark's tasks; what the code means is the user's own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.core.kinds import part
from penstock.kinds.custom.spec import WHEN, WHICH, CustomSpec
from penstock.kinds.keyed.truth import beside, same

__all__ = ["alarms", "same", "told"]

Keep: TypeAlias = Callable[[DataFrame], DataFrame]
"""Holds a frame in memory that is asked for twice."""
TASKS = 16
"""Parts of the keys: another number than shards."""


def alarms(
    records: DataFrame,
    step: CustomSpec,
    sides: Mapping[str, DataFrame],
    keep: Keep,
    marks: Sequence[tuple[int, int]],
    ends: tuple[int, int],
) -> tuple[DataFrame, DataFrame | None]:
    """All that is said of some records: window, keys, position, values and ``n_records``.

    And ``arrival_seq`` of those on which the code fails.

    Args:
        records: all of them.
        step: the step.
        sides: side data.
        keep: holds a frame in memory that is asked for twice.
        marks: positions from which on a watermark is in force that ends a span, and it, us.
        ends: last positions of the history, and of all.
    """
    for join in step.sides:
        records = beside(records, join, sides[join.table.name], WHICH.name)
    replay: Any = part(step.kind, "replay")
    cuts = part(step.kind, "cuts").cuts_of(step, marks, *ends)
    records = records.select(*(F.col(f"`{c}`").alias(replay.plain(c)) for c in records.columns))
    routed = replay.routed_schema(step)
    said = replay.said_schema(step)
    rows = keep(records.mapInArrow(replay.routing(step, routed), from_arrow_schema(routed)))
    fails = rows.where(F.col(replay.FAILS)).select(WHICH.name)
    keys = [F.col(f"`{replay.key_of(key)}`") for key in step.key_names]
    found = (
        rows.where(~F.col(replay.FAILS))
        .groupBy(F.pmod(F.hash(*keys), F.lit(TASKS)))
        .applyInArrow(replay.replaying(step, routed, cuts), from_arrow_schema(said))
    )
    start = F.unix_micros(WHEN.name)
    start = F.timestamp_micros(start - F.pmod(start, F.lit(step.window.size)))
    return found.withColumn("window_start", start), fails


def told(
    records: DataFrame,
    every: DataFrame,
    step: CustomSpec,
    epoch: int,
    sides: Mapping[str, DataFrame],
    keep: Keep,
) -> tuple[DataFrame, DataFrame]:
    """What the stream must have said: all since its epoch's start; and late records: none.

    Args:
        records: all of them.
        every: what is said of them.
        step: the step.
        epoch: position of its epoch's start.
        sides: side data.
        keep: holds a frame in memory that is asked for twice.
    """
    del sides
    must = keep(every).where(F.col(WHICH.name) > F.lit(epoch))
    none = records.where(F.lit(False)).select("arrival_seq")
    names = {"window_start": "timestamp"} | {k.name: k.type.value for k in step.keys}
    for name, kind in names.items():
        none = none.withColumn(name, F.lit(None).cast(kind))
    return must.select("window_start", *step.identity_names), none
