"""A session's executors: one on each node of a pool, and what they tell of themselves.

Spark's own figures, asked of the driver: no port is opened for them. Source: notes of the
standalone master: without a limit an application takes all cores of each worker, and with
``spark.cores.max`` it never takes those of a worker that joins later; a total that the driver asks
for can be changed while a stream runs.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from penstock.config.cluster import Cluster, PoolKind, read_cluster
from penstock.config.settings import JVM_OPTIONS, Settings
from penstock.control.nodes import registered_hosts
from penstock.core.errors import TransientError

log = logging.getLogger(__name__)

HEAP = "JVMHeapMemory"
KEPT = "org.apache.spark.status.ExecutorSummaryWrapper"
NEVER = "100000h"
NO_LIMIT = str(2**31 - 1)
"""A master may have another default; how many executors there are says how many cores."""
DRIVER = "driver"
REGISTER_SECONDS = 30.0
MOST_TASKS = 10_000
"""That are asked for of a stage; no more run at a time."""


class NoNodesError(TransientError):
    """The cluster that a job should run on has no node."""


@dataclass(frozen=True, slots=True)
class Executor:
    """One executor, as the driver knows it.

    Attributes:
        number: Spark's id.
        host: address of its node.
        active: whether it runs.
        cores: tasks at a time.
        busy: milliseconds that its tasks have taken, those that run included.
        memory: most heap that it held, bytes.
        removed: why it went; empty: it did not, or nobody knows.
    """

    number: str
    host: str
    active: bool
    cores: int
    busy: int
    memory: int
    removed: str


def on_a_cluster(settings: Settings) -> dict[str, str]:
    """What a session needs to run on the nodes of the pool, one executor on each.

    Raises:
        NoNodesError: no node is registered.
        ConfigError: the file of the cluster is wrong.
    """
    if (cluster := pool_of(settings)) is None:
        return {}
    count = len(registered_hosts(settings.home))
    if not count:
        raise NoNodesError(
            f"no node is registered with {cluster.url}. See: penstock cluster status; start them:"
            " penstock cluster up"
        )
    # A total is asked for from the start on only where Spark allocates by itself; least and most
    # are the same, so that it never does.
    allocation = "spark.dynamicAllocation"
    here = cluster.master.host
    # In a container Spark takes the container's own address.
    address = {} if cluster.pool is PoolKind.COMPOSE else {
        "spark.driver.host": here, "spark.driver.bindAddress": here
    }  # fmt: skip
    return {
        **address,
        "spark.cores.max": NO_LIMIT,
        "spark.executor.cores": str(cluster.worker.cores),
        "spark.executor.memory": cluster.worker.memory,
        # A host may have more than its node has: a JVM counts them for its own threads.
        "spark.executor.extraJavaOptions": (
            f"{JVM_OPTIONS} -XX:ActiveProcessorCount={cluster.worker.cores}"
        ),
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        # How often a node that goes looks whether its blocks have moved; Spark's own is 30 s.
        "spark.storage.decommission.replicationReattemptInterval": "1s",
        f"{allocation}.enabled": "true",
        f"{allocation}.shuffleTracking.enabled": "true",
        f"{allocation}.executorIdleTimeout": NEVER,
        **{f"{allocation}.{n}Executors": str(count) for n in ("min", "initial", "max")},
    }


def pool_of(settings: Settings) -> Cluster | None:
    """The cluster that Penstock keeps itself, if jobs run there; none: they run elsewhere."""
    if settings.spark_master.startswith("local") or not settings.cluster.exists():
        return None
    cluster = read_cluster(settings.cluster)
    return cluster if cluster.url == settings.spark_master else None


class Tasks:
    """Into how many tasks a micro-batch is cut: as many as there are cores now.

    In the process of a source, which knows no session.

    Args:
        least: cores when the query began.
        settings: where the cluster tells of its nodes.
    """

    def __init__(self, least: int, settings: Settings) -> None:
        self._least, self._home = least, settings.home
        cluster = pool_of(settings)
        self._cores = 0 if cluster is None else cluster.worker.cores

    @property
    def now(self) -> int:
        """At this moment."""
        if not self._cores:
            return self._least
        return max(1, len(registered_hosts(self._home)) * self._cores)


def placed(found: Iterable[Executor]) -> list[Executor]:
    """Those that run tasks, and whose place is known.

    A driver with a cluster runs none. Of another executor Spark may tell first how it does, and a
    moment later where it is: who took it for a node would not know it again.
    """
    return [each for each in found if (each.cores if each.number == DRIVER else each.host)]


class Executors:
    """The executors of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext._jsc.sc()  # noqa: SLF001  no other way to it
        self._jvm = spark.sparkContext._jvm  # noqa: SLF001
        self._backend = self._context.schedulerBackend()

    def all(self) -> list[Executor]:
        """Those that run, and those that have gone; without a cluster the driver is one."""
        told, running = self._context.statusStore().executorList(False), self._running()
        return placed(self._read(told.apply(n), running) for n in range(told.size()))

    def wait(self, count: int) -> None:
        """Until so many run, or ``REGISTER_SECONDS`` are over: who is late is followed later."""
        until = time.monotonic() + REGISTER_SECONDS
        while sum(each.active for each in self.all()) < count and time.monotonic() < until:
            time.sleep(0.1)

    def follow(self, running: Sequence[Executor], hosts: Sequence[str]) -> None:
        """Have one executor on each node.

        A total says nothing of places: where a node was lost, Spark puts the executor that is
        missing beside another one. So one of two on a node goes.

        Args:
            running: executors.
            hosts: addresses of the nodes, each as often as nodes have it.
        """
        wanted, have = Counter(hosts), Counter(each.host for each in running)
        missing = wanted - have
        spare = have - wanted
        if missing:
            self._ask(wanted.total())
        for host, count in spare.items():
            if wanted[host]:  # on a node that goes they end by themselves
                mine = [each.number for each in running if each.host == host]
                self._end(sorted(mine, key=int)[-count:])

    def _busy_of_driver(self) -> int:
        """The store tells the time since its start, unless it is asked for what it keeps."""
        kind = self._jvm.java.lang.Class.forName(KEPT)
        return int(self._context.statusStore().store().read(kind, DRIVER).info().totalDuration())

    def _running(self) -> Counter[str]:
        """Milliseconds, by executor, of tasks that run: Spark counts a task at its end.

        Without them the node of a long task is idle, look by look, and then busier than it can be:
        no rule would ever hold.
        """
        store, v1 = self._context.statusStore(), self._jvm.org.apache.spark.status.api.v1
        found, now = Counter[str](), self._jvm.java.lang.System.currentTimeMillis()
        statuses = self._jvm.java.util.ArrayList()
        statuses.add(v1.TaskStatus.RUNNING)
        stages = store.activeStages()
        for stage in (stages.apply(n) for n in range(stages.size())):
            tasks = store.taskList(
                stage.stageId(), stage.attemptId(), 0, MOST_TASKS, v1.TaskSorting.ID, statuses
            )
            for task in (tasks.apply(n) for n in range(tasks.size())):
                found[task.executorId()] += max(0, now - task.launchTime().getTime())
        return found

    def _ask(self, total: int) -> None:
        empty = self._jvm.scala.collection.immutable.HashMap()
        self._context.requestTotalExecutors(total, 0, empty)
        log.info("executors asked for total=%d", total)

    def _end(self, numbers: list[str]) -> None:
        some = self._jvm.PythonUtils.toSeq(numbers)
        adjust, failures, force = True, False, True
        self._backend.killExecutors(some, adjust, failures, force)
        log.info("executors ended numbers=%s", numbers)

    def _read(self, told: object, running: Counter[str]) -> Executor:
        peak, driver = told.peakMemoryMetrics(), told.id() == DRIVER
        return Executor(
            number=told.id(),
            host=told.hostPort().rpartition(":")[0],
            active=told.isActive(),
            cores=told.totalCores(),
            busy=running[told.id()] + (self._busy_of_driver() if driver else told.totalDuration()),
            memory=peak.get().getMetricValue(HEAP) if peak.isDefined() else 0,
            removed=told.removeReason().get() if told.removeReason().isDefined() else "",
        )
