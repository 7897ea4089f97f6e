"""The stream host: ingest and every step of one pipeline in one Spark application.

Generations are registered before the first record is taken, so that a pipeline's first records
are never mistaken for history. Stopping lets the running micro-batches finish.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from penstock.config.pipeline import Mode, Pipeline
from penstock.core.clock import Clock
from penstock.core.errors import TerminalError, TransientError
from penstock.core.window import instant
from penstock.lake.commit import ConflictError
from penstock.lake.generation import note_failure
from penstock.lake.ingest.door import Door
from penstock.lake.tables import Tables
from penstock.lake.view import position
from penstock.spark.layout import SumOverflowError
from penstock.spark.query import BLOCKS_A_MICRO_BATCH, start_query

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
SETTLE_SECONDS = 20.0


class Pulse(Protocol):
    """Tells the supervisor how the host is, and the host whether to stop."""

    def beat(self, *, step: str | None = None, **figures: Any) -> None:
        """Publish figures."""

    def should_stop(self) -> bool:
        """Whether somebody asked for an end."""


class StreamFailedError(TransientError):
    """A step's query ended by itself; the next start goes on where it was sealed."""


class StreamHost:
    """Runs one pipeline until it is stopped or its bounded source has ended."""

    def __init__(
        self,
        spark: SparkSession,
        tables: Tables,
        pipeline: Pipeline,
        home: Path,
        clock: Clock,
        pulse: Pulse,
    ) -> None:
        self.spark, self.tables, self.pipeline = spark, tables, pipeline
        self.clock, self.pulse = clock, pulse
        self.door = Door(tables, pipeline, home, clock)
        self.queries: dict[str, StreamingQuery] = {}
        self._blocks: dict[str, int] = {}
        self._halt = threading.Event()
        self._ingest = threading.Thread(target=self._take, name="ingest", daemon=True)
        self._failure: BaseException | None = None
        self._received = 0
        self._sealed = 0.0
        self._began = time.monotonic()

    def run(self, blocks: int = BLOCKS_A_MICRO_BATCH) -> None:
        """Return once stopped or ended.

        Args:
            blocks: most blocks a micro-batch takes.

        Raises:
            StreamFailedError: a query or the ingest failed; starting again goes on.
        """
        for step in self.pipeline.specs:
            at = position(self.tables, step)
            self._blocks[step.name] = 0 if at is None else at.sealed.block
            told = self._teller(step.name)
            self.queries[step.name] = start_query(
                self.spark, self.tables, self.pipeline, step, self.clock, told, blocks
            )
        self._ingest.start()
        try:
            while not self.pulse.should_stop() and not self._finished():
                self._check()
                self._halt.wait(POLL_SECONDS)
        finally:
            self._stop()

    def _take(self) -> None:
        """The ingest thread: take what waits, else look again soon."""
        try:
            while not self._halt.is_set():
                try:
                    received = self.door.work()
                except ConflictError:
                    continue
                self._received += max(received, 0)
                self.pulse.beat(received=self._received)
                if received < 0:
                    self._halt.wait(POLL_SECONDS)
        except BaseException as failed:  # noqa: BLE001  handed to the main thread, which raises it
            self._failure = failed

    def _teller(self, step: str) -> Callable[[dict[str, Any]], None]:
        def told(row: dict[str, Any]) -> None:
            self._blocks[step] = row["block"]
            mark = instant(row["watermark_us"])
            newest = instant(row["t_max_us"])
            self._sealed += row["records"] / len(self.queries)
            self.pulse.beat(
                step=step,
                micro_batch=row["micro_batch"],
                block=row["block"],
                through_seq=row["through_seq"],
                records=row["records"],
                answers=row["answers"],
                pairs_late=row["pairs_late"],
                pairs_open=row["pairs_open"],
                watermark=mark.isoformat(),
                newest=newest.isoformat(),
                slack_seconds=row["slack_us"] / 1e6,
            )
            elapsed = max(time.monotonic() - self._began, 1e-3)
            self.pulse.beat(
                block=min(self._blocks.values()),
                records_per_second=round(self._sealed / elapsed, 1),
            )

        return told

    def _finished(self) -> bool:
        """Whether a bounded source has ended and every step has answered all of it."""
        if self.pipeline.source.mode is not Mode.BOUNDED or not self.door.ended:
            return False
        last = self.door.next_block
        return all(self._blocks.get(name, 0) >= last for name in self.queries)

    def _check(self) -> None:
        if self._failure is not None:
            raise StreamFailedError(f"{self.pipeline.name}: ingest failed") from self._failure
        for step in self.pipeline.specs:
            query = self.queries[step.name]
            broken = query.exception()
            if broken is None and query.isActive:
                continue
            if broken is not None and SumOverflowError.__name__ in str(broken):
                raise TerminalError(_said(broken)) from broken
            self._settle()
            for other in self.pipeline.specs:  # each is counted: all may have lost their state
                if other is step or self.queries[other.name].exception() is not None:
                    note_failure(self.tables, other)
            raise StreamFailedError(f"{self.pipeline.name}.{step.name}: its query ended") from (
                broken or StreamingQueryException("ended without a reason")
            )

    def _settle(self) -> None:
        """Wait until every query has failed or shown that it runs; they fail one by one."""
        until = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < until and any(map(_is_undecided, self.queries.values())):
            threading.Event().wait(0.02)

    def _stop(self) -> None:
        """Let running micro-batches finish, then stop."""
        self._halt.set()
        self._ingest.join()
        running = {name: _finished_batches(query) for name, query in self.queries.items()}
        for name, query in self.queries.items():
            while query.isActive and query.status["isTriggerActive"]:
                if _waits(query) or _finished_batches(query) != running[name]:  # a backlog waits
                    break
                threading.Event().wait(0.02)
            query.stop()


def _is_undecided(query: StreamingQuery) -> bool:
    """Whether a query has neither ended, nor done a micro-batch, nor found nothing to do."""
    return query.isActive and _finished_batches(query) < 0 and not _waits(query)


def _waits(query: StreamingQuery) -> bool:
    return bool(query.status["message"].startswith("Waiting"))


def _finished_batches(query: StreamingQuery) -> int:
    """Number of the last micro-batch that is done; -1: none in this run."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def _said(broken: StreamingQueryException) -> str:
    """The message of the error that ended a query, without the trace around it."""
    lines = str(broken).splitlines()
    found = [line for line in lines if SumOverflowError.__name__ in line]
    return found[-1].partition(f"{SumOverflowError.__name__}: ")[2] or found[-1]
