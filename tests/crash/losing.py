"""A node that is lost with a task of an audit, which has no point: its tasks are Spark's own."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from psutil import Process
from pyspark.sql import SparkSession

from penstock.config.settings import Settings
from tests.clusters import TestCluster
from tests.processes import signal_all

AFTER = "LOST_AFTER"
"""The environment of such an audit: so many of its tasks are done first."""
POLL_SECONDS = 0.01
LOOKS = 100
"""So often a node that stands still is looked at before it is said to hold a task: what it said
before it stood still may be on its way. Tasks are given to it as to any other."""


@contextmanager
def losing(spark: SparkSession, settings: Settings, done: int) -> Iterator[None]:
    """Kill the node of the next task, once so many are done."""
    home = settings.cluster.parent
    cluster = TestCluster(settings.model_copy(update={"home": home}))
    store, ended, lost = spark.sparkContext._jsc.sc().statusStore(), Event(), Event()
    nodes = {node.host: cluster.processes(node.host) for node in cluster.state.nodes}
    before = _done(_executors(store))
    thread = Thread(target=_lose, args=(store, nodes, before + done, ended, lost))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert lost.is_set(), f"no task was lost; {_done(_executors(store)) - before} were done"


def _executors(store: Any) -> list[Any]:
    told = store.executorList(True)
    return [told.apply(n) for n in range(told.size())]


def _done(executors: list[Any]) -> int:
    return sum(each.completedTasks() for each in executors)


def _lose(
    store: Any, nodes: dict[str, list[Process]], done: int, ended: Event, lost: Event
) -> None:
    """Stop all nodes, until the driver has given one of them a task; kill that, wake the others."""
    while _done(_executors(store)) < done:
        if ended.wait(POLL_SECONDS):
            return
    every = [process for node in nodes.values() for process in node]
    signal_all(every, signal.SIGSTOP)
    try:
        while not ended.wait(POLL_SECONDS):
            for each in _executors(store):
                node = nodes.get(each.hostPort().rpartition(":")[0], [])
                if node and all(_holds(store, each.id(), ended) for _ in range(LOOKS)):
                    signal_all(node, signal.SIGKILL)
                    lost.set()
                    return
    finally:
        signal_all(every, signal.SIGCONT)


def _holds(store: Any, number: str, ended: Event) -> bool:
    ended.wait(POLL_SECONDS)
    return any(each.id() == number and each.activeTasks() for each in _executors(store))
