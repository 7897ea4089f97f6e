"""Starts the streaming query of one step."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from penstock.columns.marks import Marks
from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.crash import reached
from penstock.core.slack import SlackChange
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, WindowSpec
from penstock.lake.commit import Table
from penstock.lake.generation import Generation, lived
from penstock.lake.log import slack_changes
from penstock.lake.registry import Registry
from penstock.lake.start import epoch_of
from penstock.lake.tables import Tables
from penstock.spark.reducer import Reducer
from penstock.spark.sink import StepSink, Told
from penstock.spark.source import FORMAT, LogSource, SourceSpec
from penstock.spark.wire import PACKET

RECORDS_A_MICRO_BATCH = 4_000_000


def start_query(
    spark: SparkSession,
    tables: Tables,
    pipeline: Pipeline,
    step: StepSpec,
    clock: Clock,
    told: Told,
    records: int = RECORDS_A_MICRO_BATCH,
) -> StreamingQuery:
    """Start or go on with a step's query.

    Args:
        spark: the session.
        tables: of the pipeline.
        pipeline: its file.
        step: one of its steps.
        clock: tells when something was published.
        told: gets each row of ``control`` once it is committed.
        records: a micro-batch takes no further block once it has so many.
    """
    events = tables.events(pipeline.types)
    generation = Registry(tables, clock, pipeline).start(step)
    epoch = epoch_of(tables, step, generation)
    changes = tuple(slack_changes(tables, step.name))
    shards = balanced_shards(spark)
    spec = SourceSpec(
        step=step,
        tables=tables,
        events=events,
        generation=generation,
        past=past_marks(tables, Table(events), epoch, generation, changes, step.window),
        shards=shards,
        tasks=len(shards),
        records=records,
    )
    spark.dataSource.register(LogSource)
    rows = spark.readStream.format(FORMAT).option("spec", spec.to_text()).load()
    reduced = rows.groupBy(F.col("shard")).transformWithStateInPandas(
        statefulProcessor=Reducer(step),
        outputStructType=from_arrow_schema(PACKET),
        outputMode="Append",
        timeMode="None",
    )
    checkpoint = tables.checkpoint(step, generation.number)
    if "://" not in checkpoint:
        Path(checkpoint).mkdir(parents=True, exist_ok=True)
    sink = StepSink(tables, step, generation, clock, told)
    reached("speed start")
    return (
        reduced.writeStream.queryName(step.name)
        .option("checkpointLocation", checkpoint)
        .outputMode("append")
        .foreachBatch(sink)
        .start()
    )


def balanced_shards(spark: SparkSession) -> tuple[int, ...]:
    """One shard id for each shuffle partition, so that no task gets two and none gets none."""
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
    ids = spark.range(64 * partitions).selectExpr("id", f"pmod(hash(id), {partitions}) AS p")
    rows = ids.groupBy("p").agg(F.min("id").alias("id")).orderBy("p").collect()
    return tuple(int(row["id"]) for row in rows)


def past_marks(
    tables: Tables,
    events: Table,
    epoch: Generation,
    at: Generation,
    changes: Sequence[SlackChange],
    window: WindowSpec,
) -> Marks:
    """Watermarks in force before a generation starts, to rebuild its state.

    What came before the epoch is its history: the epoch's own watermark judges it.
    """
    if at.number == epoch.number:
        return Marks((BEGINNING,), (epoch.state.watermark,))
    marks = lived(tables, events, window, epoch, at.block, changes).marks
    return Marks.of([(BEGINNING, epoch.state.watermark), *marks[1:]])
