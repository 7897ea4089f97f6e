"""The log up to a plan's position, as a correction has Spark read it."""

from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.columns.arrays import Longs
from penstock.config.pipeline import Pipeline
from penstock.core.step import STREAM, Above, StepSpec
from penstock.kinds.frame import Asked, frame_of
from penstock.lake.history.plans import CorrectionPlan
from penstock.lake.history.spans import marks_of
from penstock.lake.log.blocks import REVISION
from penstock.lake.log.revisions import NEWEST, known_by
from penstock.lake.log.side import SideReader
from penstock.lake.storage.commit import Table
from penstock.lake.storage.damage import require_whole
from penstock.lake.storage.tables import Tables
from penstock.spark.chunks import Grid
from penstock.spark.cores import PARTITIONS
from penstock.spark.recompute import mapping, parts_of_shards, reducing

Spans = list[tuple[int, int]]
"""Event times [since, until), us."""


class Prefix(Protocol):
    """What a correction asks of the log up to a plan's position."""

    def extent(self, plan: CorrectionPlan) -> tuple[int, int] | None:
        """First and last event time, us; none: no record."""

    def panes_since(self, plan: CorrectionPlan) -> Longs:
        """Starts of panes with records that the base of a plan may not have answered, us."""

    def counted(self, plan: CorrectionPlan, grid: Grid, spans: Spans) -> tuple[Longs, Longs]:
        """Numbers of cells, and the records that each holds of those in some spans."""

    def answers(
        self, plan: CorrectionPlan, asked: Asked, spans: Spans | None, keys: Longs | None
    ) -> pa.Table:
        """Answers of a step computed again, on their way.

        Args:
            plan: whose position it is.
            asked: which of them.
            spans: where records lie that they may need; none: anywhere.
            keys: hashes of the keys that they need; none: all.
        """


class SparkPrefix:
    """The log of a step, read by Spark's tasks."""

    def __init__(
        self, spark: SparkSession, tables: Tables, pipeline: Pipeline, step: StepSpec
    ) -> None:
        self.spark, self.step, self.events = (
            spark,
            step,
            tables.events(pipeline.types, step.streams),
        )
        self.tables, self.sides = tables, SideReader(tables)

    def extent(self, plan: CorrectionPlan) -> tuple[int, int] | None:
        """As ``Prefix`` says."""
        at = F.unix_micros("event_time")
        row = self._rows(plan).agg(F.min(at).alias("low"), F.max(at).alias("high")).collect()[0]
        return None if row["low"] is None else (row["low"], row["high"])

    def panes_since(self, plan: CorrectionPlan) -> Longs:
        """As ``Prefix`` says."""
        window, at = self.step.window, F.unix_micros("event_time") - F.lit(self.step.window.origin)
        new = F.col("arrival_seq") > plan.after_seq
        if plan.watermark > plan.answered:
            new |= F.col("event_time") >= F.timestamp_micros(F.lit(plan.answered - window.size))
        pane = at - F.pmod(at, F.lit(window.pane)) + F.lit(window.origin)
        rows = self._rows(plan).where(new).select(pane.alias("pane")).distinct().toArrow()
        return np.asarray(rows["pane"])

    def counted(self, plan: CorrectionPlan, grid: Grid, spans: Spans) -> tuple[Longs, Longs]:
        """As ``Prefix`` says."""
        cell = F.floor((F.unix_micros("event_time") - F.lit(grid.low)) / F.lit(grid.width))
        inside = self._rows(plan).where(_inside(spans))
        found = inside.groupBy(cell.cast("long").alias("cell")).count().toArrow()
        return np.asarray(found["cell"]), np.asarray(found["count"])

    def answers(
        self, plan: CorrectionPlan, asked: Asked, spans: Spans | None, keys: Longs | None
    ) -> pa.Table:
        """As ``Prefix`` says."""
        frame, events = frame_of(self.step), self._rows(plan)
        wire, columns = frame.wire(self.step), frame.columns(self.step)
        if spans is not None:
            events = events.where(_inside(spans))
        types = {f.name: f for f in from_arrow_schema(self.events.schema)}
        for name in {*columns} - {*events.columns}:
            events = events.withColumn(name, F.lit(None).cast(types[name].dataType))
        marks = marks_of(self.tables, Table(self.events), self.step, plan)
        tasks = int(str(self.spark.conf.get(PARTITIONS)))
        parts = events.select(*columns).mapInArrow(
            mapping(self.step, self.events.schema, tasks, self.sides, keys, marks),
            from_arrow_schema(parts_of_shards(wire)),
        )
        found = parts.groupBy("shard").applyInArrow(
            reducing(self.step, asked, self.sides), from_arrow_schema(wire.answers)
        )
        return found.toArrow()

    def _rows(self, plan: CorrectionPlan) -> DataFrame:
        require_whole(self.events.uri)
        events = self.spark.read.format("delta").load(self.events.uri)
        if self.step.streams:
            events = events.where(F.col(STREAM).isin(*self.step.streams))
        events = events.where(F.col("arrival_seq") <= plan.through_seq)
        return events if self.step.above is None else _newest(events, self.step.above)


def _newest(answers: DataFrame, above: Above) -> DataFrame:
    """Answers without those that were revised later."""
    by = known_by(above)
    revised = answers.where(F.col("origin") == REVISION).groupBy(*by)
    both = answers.join(revised.agg(F.max("arrival_seq").alias(NEWEST)), by, "left")
    stays = F.coalesce(F.col(NEWEST), F.lit(-1)) <= F.col("arrival_seq")
    return both.where(stays).drop(NEWEST)


def _inside(spans: Spans) -> Column:
    """Whether a record's event time is in one of some spans."""
    inside = F.lit(False)
    for since, until in spans:
        inside |= (F.col("event_time") >= F.timestamp_micros(F.lit(since))) & (
            F.col("event_time") < F.timestamp_micros(F.lit(until))
        )
    return inside
