"""The stream host: ingest and every step of one pipeline in one Spark application.

Generations are registered before the first record is taken, so that a pipeline's first records
are never mistaken for history. One query runs all steps but those that run apart. Queries start one
after the other: each starts Python processes, and all at once would keep each other from starting.
Stopping lets the running micro-batches finish.
"""

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from penstock.config.pipeline import Pipeline
from penstock.core.batch_size import Bounds
from penstock.core.clock import Clock
from penstock.core.errors import TerminalError, TransientError
from penstock.core.window import instant
from penstock.lake.cluster.load import EVERY
from penstock.lake.history.checkpoint import note_failure
from penstock.lake.history.position import position
from penstock.lake.history.registry import Registry
from penstock.lake.ingest.ahead import ClockError
from penstock.lake.ingest.reading import SourceError
from penstock.lake.over.entrance import entrance
from penstock.lake.over.feed import Feed
from penstock.lake.proof.unsettled import OVERDUE
from penstock.lake.storage.commit import ConflictError
from penstock.lake.storage.room import UnwrittenError
from penstock.lake.storage.tables import Tables
from penstock.spark.cause import cause_of
from penstock.spark.crew import SparkCrew
from penstock.spark.load import Progress
from penstock.spark.query import start_query
from penstock.spark.session import end_of
from penstock.spark.shed import ShedWatch
from penstock.spark.watchdog import Watchdog

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
SETTLE_SECONDS = 20.0
FAILED_SECONDS = 60.0
"""For the other steps' running micro-batches, once the host has failed."""
AWAY_SECONDS = 2.0
"""Until a source that could not be read is tried again."""


class Pulse(Protocol):
    """Tells the supervisor how the host is, and the host whether to stop."""

    def beat(self, *, step: str | None = None, **figures: Any) -> None:
        """Publish figures."""

    def works(self, sealed: int) -> None:
        """Say that so many micro-batches are sealed, or that none waits to be."""

    def fail(self, error: str) -> None:
        """Say why the host ends."""

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
        *,
        shards: int = 0,
    ) -> None:
        self.spark, self.tables, self.pipeline = spark, tables, pipeline
        self.clock, self.pulse, self.shards = clock, pulse, shards
        self.door = entrance(tables, pipeline, home, clock, SparkCrew(spark))
        self.queries: dict[str, StreamingQuery] = {}
        self._given_up: dict[str, str] = {}
        self._blocks: dict[str, int] = {}
        self._answered: dict[str, int] = {}
        self._halt = threading.Event()
        self._ingest = threading.Thread(target=self._take, name="ingest", daemon=True)
        self._failure: BaseException | None = None
        self._watchdog = Watchdog()
        self._sheds: ShedWatch | None = None
        self._micro_batches: Counter[str] = Counter()
        self._received = 0
        self._waits_for: str | None = None
        self._away_since = 0.0
        self._works = False
        self._sealed = self._weigh_due = 0.0
        self._began = time.monotonic()

    def run(self, bounds: Bounds | None = None) -> None:
        """Return once stopped or ended.

        Args:
            bounds: of the size of micro-batches; none: the pipeline's.

        Raises:
            StreamFailedError: a query or the ingest failed; starting again goes on.
            TerminalError: it does not go on until a person has changed something. Where only some
                steps cannot, the others go on to the end of a bounded source first.
        """
        if isinstance(self.door, Feed):  # what is answered by now is history
            self.door.catch_up()
        Registry(self.tables, self.clock, self.pipeline, self.shards).start_all()
        self._sheds = ShedWatch(self.tables, self.pipeline, self.clock)
        for step in self.pipeline.specs:
            at = position(self.tables, step)
            self._blocks[step.name] = 0 if at is None else at.sealed.block
            self._answered[step.name] = 0 if at is None else at.sealed.seq + 1
        self._ingest.start()
        try:
            for name in self.pipeline.queries:
                self.queries[name] = start_query(
                    self.spark, self.tables, self.pipeline, name, self.clock, self._told,
                    self._give_up, bounds, shards=self.shards,
                )  # fmt: skip
                if not self._watch(lambda name=name: not _is_undecided(self.queries[name])):
                    return
            if self._watch(self._finished):
                self._end()
        except BaseException as failed:
            ended = end_of(failed)
            self.pulse.fail(ended or f"{type(failed).__name__}: {failed}")
            if ended is None:
                self._stop(patience=FAILED_SECONDS)
            self._halt.set()
            raise
        finally:
            self._stop()

    @property
    def progress(self) -> Progress:
        """How far it is: records that are sealed, and those that every step has answered."""
        return Progress(self.door.next_seq, min(self._answered.values(), default=0))

    def _watch(self, done: Callable[[], bool]) -> bool:
        """See that all goes well until something is done; False: a stop was asked for."""
        while not self.pulse.should_stop():
            self._check()
            self._show()
            if done():
                return True
            self._halt.wait(POLL_SECONDS)
        return False

    def _show(self) -> None:
        """Tell once that every query has sealed something, or has found nothing to seal."""
        if self._works or len(self.queries) < len(self.pipeline.queries):
            return
        if not any(map(_is_undecided, self.queries.values())):
            self._works = True
            self.pulse.works(self._micro_batches.total())

    def _take(self) -> None:
        """The ingest thread: take what waits, else look again soon."""
        try:
            while not self._halt.is_set():
                try:
                    received = self.door.work()
                except ConflictError:
                    continue
                except (SourceError, ClockError, UnwrittenError) as away:
                    self._waits(str(away))
                    self._halt.wait(AWAY_SECONDS)
                    continue
                if self.door.away is None:
                    self._goes_on(received)
                else:  # other sources go on
                    self._received += max(received, 0)
                    self._waits(self.door.away)
                if received < 0:
                    self._halt.wait(POLL_SECONDS)
        except BaseException as failed:  # noqa: BLE001  handed to the main thread, which raises it
            self._failure = failed

    def _waits(self, away: str) -> None:
        """Say what a source is waited for, and what to do once that lasts."""
        if self._waits_for != away:
            log.warning("ingest waits: %s", away)
        if self._waits_for is None:
            self._away_since = time.monotonic()
        self._waits_for = away
        fails = self._overdue(away, time.monotonic() - self._away_since)
        self.pulse.beat(waits_for=away, fails=fails)

    def _goes_on(self, received: int) -> None:
        if self._waits_for is not None:
            log.info("ingest goes on")
        self._waits_for = None
        self._received += max(received, 0)
        self.pulse.beat(
            received=self._received, waits_for=None, fails=None, changed=self._changed()
        )

    def _overdue(self, waits_for: str, seconds: float) -> str | None:
        """What is wrong where the same is waited for too long; none: it may pass."""
        if seconds < OVERDUE.total_seconds():
            return None
        return (
            f"nothing was taken for {seconds / 60:.0f} min: {waits_for}. If it does not pass by"
            " itself: mend what the system lacks, or move the file away and, where a plan waits for"
            f" it, penstock giveup {self.pipeline.name} FILE counts it as one unreadable record"
        )

    def _changed(self) -> str | None:
        """Files that are other than taken, in words; none: there is none."""
        found = self.door.changed
        if not found:
            return None
        return (
            f"{len(found):,} files were changed after they were taken, and are not read again; the"
            f" first: {found[0]}. penstock accept {self.pipeline.name} FILE settles it"
        )

    def _told(self, step: str, row: dict[str, Any]) -> None:
        """Publish what a step has sealed; in a thread of Spark's."""
        self._blocks[step] = row["block"]
        self._answered[step] = row["through_seq"] + 1
        self._micro_batches[step] += 1
        mark = instant(row["watermark_us"])
        newest = instant(row["t_max_us"])
        self._sealed += row["records"] / len(self.pipeline.specs)
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
            block=min(n for name, n in self._blocks.items() if name not in self._given_up),
            records_per_second=round(self._sealed / elapsed, 1),
        )
        if self._works:
            self.pulse.works(self._micro_batches.total())

    def _finished(self) -> bool:
        """Whether bounded sources have ended and every step has answered all of them."""
        if self.pipeline.is_live() or not self.door.ended:
            return False
        last = self.door.next_block
        return all(self._blocks[name] >= last for name in self._blocks.keys() - self._given_up)

    def _check(self) -> None:
        if isinstance(self._failure, TerminalError):
            raise self._failure
        if self._failure is not None:
            said = f"{type(self._failure).__name__}: {cause_of(self._failure)}"
            raise StreamFailedError(
                f"{self.pipeline.name}: ingest failed: {said}"
            ) from self._failure
        if len(self._given_up) == len(self.pipeline.specs):
            self._end()
        for name, query in self.queries.items():
            if query.exception() is not None or not query.isActive:
                self._fail(name, query.exception())
        self._look_for_stuck()
        if self._sheds is not None:
            self._sheds.look(self.door.next_seq, self._answered)
        if time.monotonic() > self._weigh_due:  # Spark tells it as JSON: not at every poll
            self._weigh_due = time.monotonic() + EVERY.total_seconds()
            self.pulse.beat(state_bytes=sum(map(_state_bytes, self.queries.values())))

    def _fail(self, name: str, broken: StreamingQueryException | None) -> None:
        """End the host because a query ended."""
        self._settle()
        for other, query in self.queries.items():  # each is counted: all may have lost their state
            if other == name or query.exception() is not None:
                note_failure(self.tables, other)
        broken = broken or StreamingQueryException("ended without a reason")
        steps = ", ".join(step.name for step in self.pipeline.queries[name])
        raise StreamFailedError(
            f"{self.pipeline.name}: the query of {steps} ended: {cause_of(broken)}"
        ) from broken

    def _give_up(self, step: str, cause: str) -> None:
        """Go on without a step that cannot; the next start tries it again, from where it stands.

        In a thread of Spark's.
        """
        self._given_up[step] = cause
        log.error("step=%s stands still: %s", step, cause)
        self.pulse.beat(step=step, error=cause)
        names, causes = ", ".join(self._given_up), "; ".join(self._given_up.values())
        self.pulse.beat(stands_still=f"{names} stands still, the other steps go on: {causes}")

    def _end(self) -> None:
        """All that could be done is done: raise if that is not all there was to do."""
        if self._given_up:
            raise TerminalError("; ".join(self._given_up.values()))

    def _look_for_stuck(self) -> None:
        """Raise when a step seals nothing though it has something to seal, for too long."""
        owing = {
            step.name: self._micro_batches[step.name]
            for name, query in self.queries.items()
            for step in self.pipeline.queries[name]
            if step.name not in self._given_up
            and (self._blocks[step.name] < self.door.next_block or _is_undecided(query))
        }
        if (found := self._watchdog.stuck(owing, self.door.next_seq)) is None:
            return
        step, seconds = found
        query = self.pipeline.query_of(step)
        note_failure(self.tables, query)
        waiting = self.door.next_block - self._blocks[step]
        raise StreamFailedError(
            f"{self.pipeline.name}.{step}: it has sealed nothing for {seconds:.0f} s while"
            f" {waiting} blocks wait; its query says: {self.queries[query].status['message']}"
        )

    def _settle(self) -> None:
        """Wait until every query has failed or shown that it runs; they fail one by one."""
        until = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < until and any(map(_is_undecided, self.queries.values())):
            threading.Event().wait(0.02)

    def _stop(self, patience: float = math.inf) -> None:
        """Let running micro-batches finish, for so many seconds, then stop; once."""
        if self._halt.is_set():
            return
        until = time.monotonic() + patience
        self._halt.set()
        self._ingest.join(None if patience == math.inf else patience)
        running = {name: _finished_batches(query) for name, query in self.queries.items()}
        for name, query in self.queries.items():
            while query.isActive and query.status["isTriggerActive"] and time.monotonic() < until:
                if _waits(query) or _finished_batches(query) != running[name]:  # a backlog waits
                    break
                threading.Event().wait(0.02)
            query.stop()


def _state_bytes(query: StreamingQuery) -> int:
    """Memory that the states of a query take, after its last micro-batch."""
    progress = query.lastProgress
    operators = [] if progress is None else progress.get("stateOperators", [])
    return sum(int(each["memoryUsedBytes"]) for each in operators)


def _is_undecided(query: StreamingQuery) -> bool:
    """Whether a query has neither ended, nor done a micro-batch, nor found nothing to do."""
    return query.isActive and _finished_batches(query) < 0 and not _waits(query)


def _waits(query: StreamingQuery) -> bool:
    return bool(query.status["message"].startswith("Waiting"))


def _finished_batches(query: StreamingQuery) -> int:
    """Number of the last micro-batch that is done; -1: none in this run."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])
