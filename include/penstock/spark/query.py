"""Starts a streaming query: some steps of a pipeline over one scan of its log."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from penstock.columns.packets import PACKET
from penstock.config.pipeline import Pipeline
from penstock.core.batch_size import Bounds
from penstock.core.clock import Clock
from penstock.core.crash import reached
from penstock.core.place import path_of
from penstock.lake.history.checkpoint import drop_later_state, read_checkpoint
from penstock.lake.history.registry import Registry
from penstock.lake.log.side import SideReader
from penstock.lake.storage.tables import Tables
from penstock.spark.cores import cores_at_work, partitioned
from penstock.spark.follow import StepStart
from penstock.spark.results import Writer
from penstock.spark.sink import QuerySink, StandsStill, StepSink, Told
from penstock.spark.source import FORMAT, LogSource, SourceSpec
from penstock.spark.state_host import StateHost

RUNS = "runs"
"""In the checkpoint: what a kind keeps beside Spark's own state."""


def start_query(
    spark: SparkSession,
    tables: Tables,
    pipeline: Pipeline,
    query: str,
    clock: Clock,
    told: Told,
    stands_still: StandsStill,
    bounds: Bounds | None = None,
    *,
    shards: int = 0,
) -> StreamingQuery:
    """Start or go on with a query.

    Args:
        spark: the session.
        tables: of the pipeline.
        pipeline: its file.
        query: one of its queries.
        clock: tells when something was published.
        told: gets each row of ``control`` once it is committed.
        stands_still: gets the name of a step that cannot go on, and why.
        bounds: of the size of micro-batches; none: the pipeline's.
        shards: into how many the state of each step is to be cut; 0: as it is, or a core each.
    """
    steps, events = pipeline.queries[query], tables.events(pipeline.types)
    begun = Registry(tables, clock, pipeline, shards).start(query, steps)
    drop_later_state(read_checkpoint(begun.checkpoint))
    cores = cores_at_work(spark)
    number = begun.shards or cores
    starts = tuple(StepStart(step, begun.generations[step.name]) for step in steps)
    spec = SourceSpec(
        tables=tables,
        events=events,
        starts=starts,
        shards=balanced_shards(spark, number, len(steps)),
        tasks=cores,
        bounds=bounds or pipeline.micro_batch.bounds,
    )
    spark.dataSource.register(LogSource)
    rows = spark.readStream.format(FORMAT).option("spec", spec.to_text()).load()
    reduced = rows.groupBy(F.col("shard")).transformWithStateInPandas(
        statefulProcessor=StateHost(
            steps,
            Writer(tables, starts, clock).packets,
            path_of(begun.checkpoint) / RUNS,
            SideReader(tables),
        ),
        outputStructType=from_arrow_schema(PACKET),
        outputMode="Append",
        timeMode="None",
    )
    sinks = [StepSink(tables, step, begun.generations[step.name], clock) for step in steps]
    reached("speed start")
    with partitioned(spark, number):
        return (
            reduced.writeStream.queryName(query)
            .option("checkpointLocation", begun.checkpoint)
            .outputMode("append")
            .foreachBatch(QuerySink(sinks, told, stands_still))
            .start()
        )


def balanced_shards(
    spark: SparkSession, partitions: int, steps: int
) -> tuple[tuple[int, ...], ...]:
    """Ids of shards, one for each shuffle partition, so that no task of a step gets two.

    Args:
        spark: the session.
        partitions: of the shuffle.
        steps: of the query; there are ids for many more: a checkpoint may know former ones.
    """
    ids = spark.range(64 * partitions * max(steps, 1))
    rows = ids.groupBy(F.expr(f"pmod(hash(id), {partitions})").alias("p")).agg(
        F.sort_array(F.collect_list("id")).alias("ids")
    )
    every = [[*map(int, row["ids"])] for row in rows.orderBy("p").collect()]
    return tuple(zip(*every, strict=False))
