"""A streaming query: some steps over one scan of their log, which come and go while it runs."""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

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
from penstock.core.step import StepSpec
from penstock.lake.history.checkpoint import drop_later_state, read_checkpoint
from penstock.lake.history.generation import Generation
from penstock.lake.history.registry import Registry
from penstock.lake.log.side import SideReader
from penstock.lake.storage.tables import Tables
from penstock.spark.cores import cores_at_work, partitioned
from penstock.spark.follow import StepStart
from penstock.spark.results import Writer
from penstock.spark.roster import Roster, tell
from penstock.spark.sink import QuerySink, StandsStill, StepSink, Told
from penstock.spark.source import FORMAT, LogSource, SourceSpec
from penstock.spark.state_host import StateHost

RUNS, ROSTER, SPEC = "runs", "roster", "source"
"""In the checkpoint: what a kind keeps beside Spark's own state, and what the source is told."""
MANY = 32
"""Steps for which there are shards at least: how many will come nobody knows."""


class LogQuery:
    """One query that runs.

    Args:
        spark: the session.
        tables: of the log.
        pipeline: whose log it is.
        query: its name.
        clock: tells when something was published.
        told: gets each row of ``control`` once it is committed.
        stands_still: gets the name of a step that cannot go on, and why.
        bounds: of the size of micro-batches; none: the pipeline's.
        shards: into how many a state is to be cut that its step says nothing of; 0: as it is, or a
            core each.
    """

    streaming: StreamingQuery
    tasks = 0
    """Into how many shards the state of a step is cut that says nothing of it."""

    def __init__(
        self,
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
    ) -> None:
        self.spark, self.tables, self.pipeline, self.name = spark, tables, pipeline, query
        self.clock, self.bounds = clock, bounds or pipeline.micro_batch.bounds
        self.registry = Registry(tables, clock, pipeline, shards)
        self.sink = QuerySink(told, stands_still)
        self._starts: dict[str, StepStart] = {}
        self._folder = Path()
        self._roster: Roster | None = None

    @property
    def steps(self) -> tuple[StepSpec, ...]:
        """That it runs now."""
        return tuple(start.step for start in self._starts.values())

    def generation_of(self, step: str) -> Generation | None:
        """With which generation a step runs, by id; none: it does not."""
        start = self._starts.get(step)
        return None if start is None else start.generation

    def shards_of(self, step: str) -> int:
        """Into how many shards a step's state is cut, by id, or about to be."""
        return self._starts[step].shards

    def start(self, steps: Sequence[StepSpec]) -> StreamingQuery:
        """Start it, or go on with it, with some steps."""
        begun = self.registry.start(self.name, steps)
        drop_later_state(read_checkpoint(begun.checkpoint))
        cores, folder = cores_at_work(self.spark), path_of(begun.checkpoint)
        number = self.tasks = begun.shards or cores
        self._folder, self._roster = folder, Roster(folder / ROSTER)
        for step in steps:
            cut = begun.cut[step.id] or self.cut(step.parallelism)
            self._take(step, begun.generations[step.id], cut)
        self._tell()
        spec = SourceSpec(
            tables=self.tables,
            events=self.tables.events(self.pipeline.types),
            roster=self._roster.path,
            shards=balanced_shards(self.spark, number, max(len(steps), MANY)),
            tasks=cores,
            bounds=self.bounds,
        )
        self.spark.dataSource.register(LogSource)
        tell(folder / SPEC, spec)
        rows = self.spark.readStream.format(FORMAT).option("spec", str(folder / SPEC)).load()
        hand, sides = Writer(self.tables, self.clock).packets, SideReader(self.tables)
        reduced = rows.groupBy(F.col("shard")).transformWithStateInPandas(
            statefulProcessor=StateHost(hand, folder / RUNS, sides),
            outputStructType=from_arrow_schema(PACKET),
            outputMode="Append",
            timeMode="None",
        )
        reached("speed start")
        with partitioned(self.spark, number):
            self.streaming = (
                reduced.writeStream.queryName(self.name)
                .option("checkpointLocation", begun.checkpoint)
                .outputMode("append")
                .foreachBatch(self.sink)
                .start()
            )
        return self.streaming

    def add(self, steps: Sequence[StepSpec]) -> None:
        """Take steps in, or their new definitions; the others do not notice."""
        begun = self.registry.join(steps)
        for step in steps:
            self._take(step, begun[step.id], self.cut(step.parallelism))
        self._tell()

    def cut(self, parallelism: int) -> int:
        """Into how many shards the state of a step is cut that begins now."""
        return parallelism if parallelism > 0 else self.tasks

    def again(self, step: StepSpec, shards: int, reason: str) -> None:
        """Begin a step anew, its state rebuilt and cut into so many shards."""
        self.sink.drop(step.id)
        self._take(step, self.registry.join([step], reason)[step.id], shards)
        self._tell()

    def move(self, step: str, shards: int) -> None:
        """Cut a step's state into so many shards: each gives away what is another one's."""
        self._starts[step] = replace(self._starts[step], shards=shards)
        self._tell()

    def remove(self, step: str) -> None:
        """Let a step go; the others do not notice."""
        del self._starts[step]
        self._tell()
        self.sink.drop(step)

    @property
    def undecided(self) -> bool:
        """Whether it has neither ended, nor done a micro-batch, nor found nothing to do."""
        return self.streaming.isActive and self.done < 0 and not self._waits

    @property
    def done(self) -> int:
        """Number of the last micro-batch that is done; -1: none in this run."""
        progress = self.streaming.lastProgress
        return -1 if progress is None else int(progress["batchId"])

    @property
    def pace(self) -> float:
        """Seconds that the shortest of its last micro-batches took; 0: none has ended."""
        spans = (progress["batchDuration"] for progress in self.streaming.recentProgress)
        return min(spans, default=0) / 1e3

    @property
    def ended(self) -> bool:
        """Whether it runs no more."""
        return self.streaming.exception() is not None or not self.streaming.isActive

    @property
    def state_bytes(self) -> int:
        """Memory that its states take, after its last micro-batch."""
        progress = self.streaming.lastProgress
        operators = [] if progress is None else progress.get("stateOperators", [])
        return sum(int(each["memoryUsedBytes"]) for each in operators)

    def finish(self, until: float, since: int) -> None:
        """Let the running micro-batch finish, then stop: nothing is written afterwards.

        Args:
            until: of the clock that only rises, s: it is not waited for longer.
            since: the last one that was done when the end was asked for.
        """
        while (
            self.streaming.isActive
            and self.streaming.status["isTriggerActive"]
            and time.monotonic() < until
        ):
            if self._waits or self.done != since:  # a backlog waits
                break
            threading.Event().wait(0.02)
        self.sink.close(until)
        self.streaming.stop()

    @property
    def _waits(self) -> bool:
        return bool(self.streaming.status["message"].startswith("Waiting"))

    def _take(self, step: StepSpec, generation: Generation, shards: int) -> None:
        """Its sink first: what the source gives of it is written."""
        self._starts[step.id] = StepStart(step, generation, shards)
        self.sink.add(StepSink(self.tables, step, generation, self.clock, self._folder))

    def _tell(self) -> None:
        """Let the source know which steps there are."""
        assert self._roster is not None  # noqa: S101  it runs
        self._roster.write([*self._starts.values()])


def balanced_shards(
    spark: SparkSession, partitions: int, steps: int
) -> tuple[tuple[int, ...], ...]:
    """Ids of shards, one for each shuffle partition, so that no task of a step gets two.

    Args:
        spark: the session.
        partitions: of the shuffle.
        steps: of the query; there are ids for many more: a checkpoint may know former ones.
    """
    ids = spark.range(64 * partitions * steps)
    rows = ids.groupBy(F.expr(f"pmod(hash(id), {partitions})").alias("p")).agg(
        F.sort_array(F.collect_list("id")).alias("ids")
    )
    every = [[*map(int, row["ids"])] for row in rows.orderBy("p").collect()]
    return tuple(zip(*every, strict=False))
