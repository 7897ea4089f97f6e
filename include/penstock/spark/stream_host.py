"""The stream host of a log: its ingest, and the steps of all pipelines that are linked to it.

Generations are registered before the first record is taken, so that a pipeline's first records
are never mistaken for history. One query runs all steps but those that run apart. Queries start one
after the other: each starts Python processes, and all at once would keep each other from starting.
Then the host follows what is linked: a step comes, goes, or gets another definition, and the others
do not notice (EMR, OTAP). Stopping lets the running micro-batches finish.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.config.pipeline import TOGETHER, Pipeline
from penstock.core.batch_size import Bounds
from penstock.core.clock import Clock
from penstock.core.errors import PenstockError, TerminalError, TransientError
from penstock.core.step import StepSpec
from penstock.lake.cluster.load import EVERY
from penstock.lake.history.checkpoint import note_failure
from penstock.lake.history.registry import Registry
from penstock.lake.log.register import Register, Rows
from penstock.lake.over.entrance import entrance
from penstock.lake.over.feed import Feed
from penstock.lake.storage.tables import Tables
from penstock.spark.cause import cause_of
from penstock.spark.crew import SparkCrew
from penstock.spark.hosted import Hosted
from penstock.spark.ingest import POLL_SECONDS, Ingest
from penstock.spark.load import Progress
from penstock.spark.pulse import Pulse
from penstock.spark.query import LogQuery
from penstock.spark.registered import NOTHING, facts
from penstock.spark.rescaler import Rescaler
from penstock.spark.running import Linked, wanted
from penstock.spark.session import end_of
from penstock.spark.shed import ShedWatch
from penstock.spark.watchdog import Watchdog

log = logging.getLogger(__name__)

FOLLOW_SECONDS = 1.0
"""Between two looks at what is linked."""
SETTLE_SECONDS = 20.0
FAILED_SECONDS = 60.0
"""For the other steps' running micro-batches, once the host has failed."""


class StreamFailedError(TransientError):
    """A step's query ended by itself; the next start goes on where it was sealed."""


class StreamHost:
    """Runs one log until it is stopped or its bounded source has ended.

    Args:
        spark: the session.
        tables: of the log.
        pipeline: whose log it is.
        home: where relative places start.
        clock: tells when something was published.
        pulse: told how it goes.
        shards: into how many a state is to be cut that its step says nothing of; 0: as it is, or a
            core each.
        linked: whose steps run; none: those of the pipeline.
    """

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
        linked: Linked | None = None,
    ) -> None:
        self.spark, self.tables, self.pipeline = spark, tables, pipeline
        self.clock, self.pulse, self.shards = clock, pulse, shards
        self.linked: Linked = linked or (lambda: [pipeline])
        self.door = entrance(tables, pipeline, home, clock, SparkCrew(spark))
        self.ingest = Ingest(self.door, pipeline.name, pulse)
        self.hosted = Hosted(tables, clock, self._query, pulse, TOGETHER)
        self.register = Register(tables, clock)
        self.rescaler = Rescaler(tables, self.hosted, clock, lambda: self.door.next_seq)
        self._bounds: Bounds | None = None
        self._watchdog = Watchdog()
        self._sheds: ShedWatch | None = None
        self._works = self._stopped = False
        self._weigh_due = self._follow_due = 0.0

    def run(self, bounds: Bounds | None = None) -> None:
        """Return once stopped or ended.

        Args:
            bounds: of the size of micro-batches; none: the pipeline's.

        Raises:
            StreamFailedError: a query or the ingest failed; starting again goes on.
            TerminalError: it does not go on until a person has changed something. Where only some
                steps cannot, the others go on to the end of a bounded source first.
        """
        self._bounds = bounds
        if isinstance(self.door, Feed):  # what is answered by now is history
            self.door.catch_up()
        queries = self._begin()
        self.ingest.start()
        try:
            for name in queries:
                query = self.hosted.start(name)
                if not self._watch(lambda query=query: not query.undecided):
                    return
            if self._watch(self._finished, follows=True):
                self._end()
        except BaseException as failed:
            ended = end_of(failed)
            self.pulse.fail(ended or f"{type(failed).__name__}: {failed}")
            if ended is None:
                self._stop(patience=FAILED_SECONDS)
            self._stopped = True
            self.ingest.halt.set()
            raise
        finally:
            self._stop()

    @property
    def progress(self) -> Progress:
        """How far it is: records that are sealed, and those that every step has answered."""
        answered = (running.answered for running in self.hosted.steps.values())
        return Progress(self.door.next_seq, min(answered, default=0))

    def _begin(self) -> Sequence[str]:
        """Register what is linked: what comes to the log now is no history to it; its queries."""
        for query, step in self._asked().values():
            self.hosted.know(step, query)
        queries = self.hosted.meant
        Registry(self.tables, self.clock, self.pipeline, self.shards).start_all(queries)
        self._serve()
        return [*queries]

    def _query(self, name: str) -> LogQuery:
        return LogQuery(
            self.spark, self.tables, self.pipeline, name, self.clock, self._told,
            self.hosted.give_up, self._bounds, shards=self.shards,
        )  # fmt: skip

    def _told(self, step: str, row: Mapping[str, Any]) -> None:
        """In a thread of Spark's."""
        self.hosted.told(step, row)
        if self._works:
            self.pulse.works(self.hosted.micro_batches)

    def _asked(self) -> Mapping[str, tuple[str, StepSpec]]:
        return wanted(self._linked())

    def _linked(self) -> Sequence[Pipeline]:
        """Whose steps run; not of a file that says another log: the host ends for that."""
        return [each for each in self.linked() if each.log_digest == self.pipeline.log_digest]

    def _serve(self) -> None:
        """See to what other steps need of the log."""
        steps = [running.step for running in self.hosted.steps.values()]
        self._sheds = ShedWatch(self.tables, steps, self.clock)
        self.door.serve(self._linked())

    def _watch(self, done: Callable[[], bool], *, follows: bool = False) -> bool:
        """See that all goes well until something is done; False: a stop was asked for."""
        while not self.pulse.should_stop():
            self._check()
            if not self._works and not self.hosted.undecided:
                self._works = True
                self.pulse.works(self.hosted.micro_batches)
            if follows:
                self._follow()
            if done():
                return True
            self.ingest.halt.wait(POLL_SECONDS)
        return False

    def _follow(self) -> None:
        """Run what is linked now."""
        if (now := time.monotonic()) < self._follow_due:
            return
        self._follow_due = now + FOLLOW_SECONDS
        if self.hosted.follow(self._asked(), again=not self._ends()):
            self._serve()
        _or_later("nothing is rescaled", self.rescaler.look)
        self._say(facts(self._linked(), self.hosted))

    def _say(self, what: Mapping[str, Rows]) -> None:
        """Keep the register true."""
        _or_later("the register says something else", lambda: self.register.say(what))

    def _ends(self) -> bool:
        """Whether bounded sources have ended, and all is sealed."""
        return not self.pipeline.is_live() and self.door.ended

    def _finished(self) -> bool:
        """Whether they have, and every step that can has answered all of them."""
        last, steps = self.door.next_block, self.hosted.steps.values()
        return self._ends() and all(step.block >= last or step.error for step in steps)

    def _check(self) -> None:
        failure = self.ingest.failure
        if isinstance(failure, TerminalError):
            raise failure
        if failure is not None:
            said = f"{type(failure).__name__}: {cause_of(failure)}"
            raise StreamFailedError(f"{self.pipeline.name}: ingest failed: {said}") from failure
        if len(self.hosted.still) == len(self.hosted.steps):
            self._end()
        for name, query in self.hosted.queries.items():
            if query.ended:
                self._fail(name, query.streaming.exception())
        self._look_for_stuck()
        if self._sheds is not None:
            answered = {name: each.answered for name, each in self.hosted.steps.items()}
            self._sheds.look(self.door.next_seq, answered)
        if time.monotonic() > self._weigh_due:  # Spark tells it as JSON: not at every poll
            self._weigh_due = time.monotonic() + EVERY.total_seconds()
            state = sum(query.state_bytes for query in self.hosted.queries.values())
            self.pulse.beat(state_bytes=state)

    def _fail(self, name: str, broken: StreamingQueryException | None) -> None:
        """End the host because a query ended."""
        self._settle()
        queries = self.hosted.queries
        for other, query in queries.items():  # each is counted: all may have lost their state
            if other == name or query.streaming.exception() is not None:
                note_failure(self.tables, other)
        broken = broken or StreamingQueryException("ended without a reason")
        steps = ", ".join(step.id for step in queries[name].steps)
        raise StreamFailedError(
            f"{self.pipeline.name}: the query of {steps} ended: {cause_of(broken)}"
        ) from broken

    def _end(self) -> None:
        """All that could be done is done: raise if that is not all there was to do.

        What may pass is tried again by a new life of the host, at once and with growing pauses.
        """
        if still := self.hosted.still:
            lasts = all(running.lasting for running in still)
            kind = TerminalError if lasts else StreamFailedError
            raise kind("; ".join(running.error for running in still))

    def _look_for_stuck(self) -> None:
        """Raise when a step seals nothing though it has something to seal, for too long."""
        owing = self.hosted.owing(self.door.next_block)
        if (found := self._watchdog.stuck(owing, self.door.next_seq)) is None:
            return
        step, seconds = found
        running = self.hosted.steps[step]
        note_failure(self.tables, running.query)
        waiting = self.door.next_block - running.block
        status = self.hosted.queries[running.query].streaming.status
        raise StreamFailedError(
            f"{self.pipeline.name}.{step}: it has sealed nothing for {seconds:.0f} s while"
            f" {waiting} blocks wait; its query says: {status['message']}"
        )

    def _settle(self) -> None:
        """Wait until every query has failed or shown that it runs; they fail one by one."""
        until = time.monotonic() + SETTLE_SECONDS
        queries = self.hosted.queries.values()
        while time.monotonic() < until and any(query.undecided for query in queries):
            threading.Event().wait(0.02)

    def _stop(self, patience: float = math.inf) -> None:
        """Let running micro-batches finish, for so many seconds, then stop; once."""
        if self._stopped:
            return
        self._stopped = True
        until = time.monotonic() + patience
        self.ingest.halt.set()
        self.ingest.join(None if patience == math.inf else patience)
        running = [(query, query.done) for query in self.hosted.queries.values()]
        for query, done in running:
            query.finish(until, done)
        self._say(NOTHING)


def _or_later(otherwise: str, work: Callable[[], None]) -> None:
    """Do something that is no reason to end: what fails now is tried at the next look."""
    try:
        work()
    except (PenstockError, OSError) as away:
        log.warning("%s, until the next look: %s", otherwise, away)
