"""Looks at a stream's nodes every few seconds, from a thread: how busy they are, how far it is."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from penstock.config.settings import Settings
from penstock.control.nodes import names_of, registered_hosts
from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.core.window import micros
from penstock.lake.cluster.executors import CAME, WENT, Change, executors_spec, note_changes
from penstock.lake.cluster.load import EVERY, Load, LoadTable
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables
from penstock.spark.nodes import DRIVER, Executor, Executors, pool_of

log = logging.getLogger(__name__)

LOCAL = "here"
"""Name of the node where there is no cluster."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream is.

    Attributes:
        received: records that its log holds, sealed.
        answered: up to which of them every step has answered.
    """

    received: int
    answered: int


class LoadWatch:
    """One look after the other.

    Args:
        executors: of the session.
        tables: of the pipeline.
        settings: where the cluster tells of its nodes.
        clock: of what is written.
        progress: tells how far the stream is.
    """

    def __init__(
        self,
        executors: Executors,
        tables: Tables,
        settings: Settings,
        clock: Clock,
        progress: Callable[[], Progress],
    ) -> None:
        self._executors, self._settings, self._clock = executors, settings, clock
        self._progress, self._of_pool = progress, pool_of(settings) is not None
        self._loads, self._changes = LoadTable(tables), Table(executors_spec(tables))
        self._busy: dict[str, int] = {}
        self._known: dict[str, Executor] = {}
        self._names: dict[str, str] = {}
        self._before = self._progress()
        self._looked = time.monotonic()
        self._hosts = list[str]()

    def look(self) -> None:
        """Write down what is found, and have one executor on each node."""
        found = self._executors.all()
        names = names_of(self._settings.home)
        now, at = time.monotonic(), micros(self._clock.now())
        seconds, self._looked = now - self._looked, now
        note_changes(self._changes, [*self._changed(found, names, at)])
        running = [each for each in found if each.active]
        rows = [self._of_node(each, names, at, seconds) for each in running]
        self._loads.append([*rows, self._of_stream(rows, at, seconds)])
        if self._of_pool:
            self._follow(running, registered_hosts(self._settings.home))

    def follow(self) -> None:
        """Have one executor on each node, where nodes have come or gone since."""
        if self._of_pool and (hosts := registered_hosts(self._settings.home)) != self._hosts:
            self._follow([each for each in self._executors.all() if each.active], hosts)

    def _follow(self, running: list[Executor], hosts: list[str]) -> None:
        self._executors.follow(running, hosts)
        self._hosts = hosts

    def _of_node(self, each: Executor, names: dict[str, str], at: int, seconds: float) -> Load:
        before = self._busy.get(each.number, each.busy)
        self._busy[each.number] = each.busy
        busy = max(0, each.busy - before) / 1e3  # a task that ends took less than it seemed to
        node = self._name(each, names)
        return Load(at, seconds, node, each.host, each.cores, busy, each.memory)

    def _of_stream(self, rows: list[Load], at: int, seconds: float) -> Load:
        before, now = self._before, self._progress()
        self._before = now
        processed = max(0, now.answered - before.answered) / seconds
        backlog = max(0, now.received - now.answered)
        return Load(
            at, seconds, None, None, sum(row.cores for row in rows), sum(row.busy for row in rows),
            max((row.memory for row in rows), default=0),
            received=max(0, now.received - before.received) / seconds, processed=processed,
            backlog=backlog, behind=backlog / processed if processed else None,
        )  # fmt: skip

    def _changed(self, found: list[Executor], names: dict[str, str], at: int) -> Iterator[Change]:
        for each in found:
            former = self._known.get(each.number)
            self._known[each.number] = each
            node = self._name(each, names)
            if former is None and each.active:
                yield Change(at, CAME, node, each.host, each.number, "")
            if not each.active and (former is None or former.active):
                log.warning("node lost node=%s reason=%s", node, each.removed)
                yield Change(at, WENT, node, each.host, each.number, each.removed)

    def _name(self, each: Executor, names: dict[str, str]) -> str:
        """Of its node; a node that has gone keeps its name."""
        if each.number == DRIVER:
            return LOCAL
        return self._names.setdefault(each.number, names.get(each.host, each.host))


@contextmanager
def watched(
    spark: SparkSession,
    tables: Tables,
    settings: Settings,
    clock: Clock,
    progress: Callable[[], Progress],
) -> Iterator[None]:
    """Look at the load while the stream runs; a look that fails is tried again at the next."""
    ended = threading.Event()
    watch = LoadWatch(Executors(spark), tables, settings, clock, progress)

    def looking() -> None:
        for second in count(1):
            if ended.wait(1.0):
                return
            try:
                watch.follow() if second % EVERY.seconds else watch.look()
            except (Py4JError, PenstockError, DeltaError, OSError) as failed:
                log.warning("no look at the nodes this time: %s", str(failed).splitlines()[0])

    thread = threading.Thread(target=looking, name="load", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(EVERY.total_seconds())
