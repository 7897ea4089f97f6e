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

AFTER = "LOST_AFTER"
"""The environment of such an audit: so many of its tasks are done first."""
POLL_SECONDS = 0.01
LOOKS = 100
"""So often a node that stands still is looked at before it is said to hold a task: what it said
before it stood still may be on its way."""


@contextmanager
def losing(spark: SparkSession, settings: Settings, done: int) -> Iterator[None]:
    """Kill the node of a task that runs, once so many are done."""
    home = settings.cluster.parent
    cluster = TestCluster(settings.model_copy(update={"home": home}))
    store, ended = spark.sparkContext._jsc.sc().statusStore(), Event()
    nodes = {node.host: cluster.processes(node.host) for node in cluster.state.nodes}
    before = _done(_executors(store))
    thread = Thread(target=_lose, args=(store, nodes, before + done, ended), name="losing")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    failed = sum(each.failedTasks() for each in _executors(store, active=False))
    assert failed, f"no task was lost; {_done(_executors(store)) - before} were done"


def _executors(store: Any, *, active: bool = True) -> list[Any]:
    told = store.executorList(active)
    return [told.apply(n) for n in range(told.size())]


def _done(executors: list[Any]) -> int:
    return sum(each.completedTasks() for each in executors)


def _lose(store: Any, nodes: dict[str, list[Process]], done: int, ended: Event) -> None:
    """Stop a node that seems to have a task; kill it if it has, else let it go on."""
    while not ended.wait(POLL_SECONDS):
        if _done(_executors(store)) < done:
            continue
        for each in _executors(store):
            node = nodes.get(each.hostPort().rpartition(":")[0], [])
            if node and each.activeTasks():
                _send(node, signal.SIGSTOP)
                holds = all(_holds(store, each.id(), ended) for _ in range(LOOKS))
                _send(node, signal.SIGKILL if holds else signal.SIGCONT)
                if holds:
                    return


def _holds(store: Any, number: str, ended: Event) -> bool:
    ended.wait(POLL_SECONDS)
    return any(each.id() == number and each.activeTasks() for each in _executors(store))


def _send(node: list[Process], number: signal.Signals) -> None:
    for process in node:
        process.send_signal(number)
