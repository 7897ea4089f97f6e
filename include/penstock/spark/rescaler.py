"""Sees to it that each step runs in as many tasks as it should; the others do not notice.

Source: EMR (OPAP), RTMR (algorithm 2: how many that is, where the load decides).
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.core.parallelism import AUTO, HELD, Look, Verdict, decide
from penstock.core.rescaling import Prediction, Way, predicted
from penstock.kinds.frame import frame_of
from penstock.lake.cluster.load import EVERY, loads, taus
from penstock.lake.history.position import position
from penstock.lake.log.rescalings import DECIDED, LEFT, Rescaling, Rescalings, rescalings
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import data_files
from penstock.lake.storage.tables import Tables
from penstock.spark.hosted import Hosted
from penstock.spark.query import LogQuery
from penstock.spark.running import Running, Worked

log = logging.getLogger(__name__)

ASKED = "asked for"
PARALLELISM = "parallelism"
"""Why a generation begins whose state is rebuilt for another number of tasks."""


@dataclass
class _Watched:
    """What was seen of a step whose load decides."""

    tasks: int
    worked: Worked
    looks: list[Look] = field(default_factory=list)


class Rescaler:
    """Of the steps of one host; in the host's own thread.

    Args:
        tables: of the log.
        hosted: what runs.
        clock: tells when something was decided.
        received: tells how many records the log holds.
    """

    def __init__(
        self, tables: Tables, hosted: Hosted, clock: Clock, received: Callable[[], int]
    ) -> None:
        self._tables, self._hosted, self._clock = tables, hosted, clock
        self._received, self._table = received, Rescalings(tables, clock)
        self._open: dict[str, Rescaling] | None = None
        self._watched: dict[str, _Watched] = {}
        self._looked, self._known = time.monotonic(), received()

    def look(self) -> None:
        """Begin what is due, and write down what has ended."""
        running = {name: each for name, each in self._hosted.steps.items() if not each.error}
        self._finish(running)
        self._watch([each for each in running.values() if each.step.parallelism == AUTO])
        for name, each in running.items():
            query = self._hosted.queries.get(each.query)
            if query is None or each.moves or not each.shards or name in self._opened:
                continue
            wanted = self._wanted(each, query)
            if wanted is not None and wanted.tasks != each.shards:
                self._begin(each, query, wanted)

    @property
    def _opened(self) -> dict[str, Rescaling]:
        """What has not ended, of an earlier host, too."""
        if self._open is None:
            self._open = {each.run: each for each in rescalings(self._tables)
                          if each.state == DECIDED}  # fmt: skip
        return self._open

    def _finish(self, running: dict[str, Running]) -> None:
        """Write down what is over, one way or the other."""
        for name, decided in [*self._opened.items()]:
            each = running.get(name)
            if name not in self._hosted.steps:  # nobody asks for it any more
                self._table.over(decided, LEFT)
                del self._opened[name]
            if each is None or not each.shards or each.moves:
                continue
            if each.shards == decided.tasks:
                moved = each.moved_rows if decided.way is Way.MOVE else None
                done = self._table.over(decided, moved=moved)
                log.info("step=%s tasks=%s took=%.1f s", name, done.tasks, done.took or 0)
                del self._opened[name]
            elif each.began > decided.at:  # it began anew, as it was before
                self._table.over(decided, LEFT)
                del self._opened[name]

    def _wanted(self, each: Running, query: LogQuery) -> Verdict | None:
        if each.step.parallelism != AUTO:
            return Verdict(query.cut(each.step.parallelism), ASKED)
        watched = self._watched.get(each.step.id)
        return None if watched is None else decide(watched.looks, each.shards, query.tasks)

    def _begin(self, each: Running, query: LogQuery, wanted: Verdict) -> None:
        step = each.step
        prediction, records = self._predicted(each, query)
        decided = self._table.decide(Rescaling(
            step.id, 0, DECIDED, prediction.way, wanted.reason, each.shards, wanted.tasks,
            each.kept, records, prediction.move, prediction.rebuild,
        ))  # fmt: skip
        log.info("step=%s tasks=%s becomes=%s way=%s: %s", step.id, each.shards, wanted.tasks,
                 prediction.way, wanted.reason)  # fmt: skip
        try:
            if prediction.way is Way.MOVE:
                query.move(step.id, wanted.tasks)
            else:
                query.again(step, wanted.tasks, PARALLELISM)
        except PenstockError as wrong:
            self._table.over(decided, LEFT)
            self._hosted.give_up_for(step.id, wrong)
        else:
            self._opened[step.id] = decided

    def _predicted(self, each: Running, query: LogQuery) -> tuple[Prediction, int]:
        """What either way is predicted to take, and records that a rebuild reads."""
        step = each.step
        frame, at = frame_of(step), position(self._tables, step)
        records = 0
        if at is not None:
            since = frame.since(step, at.sealed.state.watermark)
            events = Table(self._tables.events(query.pipeline.types, step.streams))
            files = data_files(events.refresh(), "event_time") if events.exists() else []
            records = sum(f.rows for f in files if f.greatest is None or f.greatest >= since)
        return predicted(each.kept, records, query.pace, by_key=frame.by_key(step)), records

    def _watch(self, some: list[Running]) -> None:
        """Look at the load, every five seconds."""
        now = time.monotonic()
        if not some or now - self._looked < EVERY.total_seconds():
            return
        received, seconds = self._received(), now - self._looked
        arrives, self._known, self._looked = (received - self._known) / seconds, received, now
        used = self._used()
        for each in some:
            watched = self._watched.get(each.step.id)
            if watched is None or watched.tasks != each.shards:
                self._watched[each.step.id] = _Watched(each.shards, each.worked)
                continue
            did = each.worked.since(watched.worked)
            watched.worked = each.worked
            watched.looks = [*watched.looks, Look(arrives, did.speed, used)][-HELD:]

    def _used(self) -> float:
        """Share of the nodes' cores that is in use; 0: nobody has looked."""
        found = loads(self._tables, self._clock.now() - 4 * EVERY)
        last = taus([found])[-1:]
        return last[0].tau if last else 0.0
