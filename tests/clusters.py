"""A cluster of a test's own: its file, its home, its nodes."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import psutil

from penstock.config.settings import Settings
from penstock.control.nodes import conf_environment
from penstock.core.clock import SystemClock
from penstock.runtime.cluster import control
from penstock.runtime.cluster.standalone import Standalone
from penstock.runtime.cluster.state import ClusterFiles, ClusterState
from penstock.runtime.cluster.supervisor import ClusterSupervisor
from penstock.runtime.streams.paths import take_lock
from penstock.runtime.streams.processes import marked
from tests.hosts import Hosts
from tests.processes import signal_all


@dataclass(frozen=True)
class TestCluster:
    """One that is up."""

    __test__ = False
    settings: Settings

    @property
    def files(self) -> ClusterFiles:
        return ClusterFiles(self.settings.home)

    @property
    def state(self) -> ClusterState:
        return self.files.read()

    @property
    def environment(self) -> dict[str, str]:
        """Of a process whose jobs run on it; its home folder is another's."""
        return {
            "PENSTOCK_SPARK_MASTER": self.settings.spark_master,
            "PENSTOCK_CLUSTER": str(self.settings.cluster),
        } | conf_environment(self.settings.spark_master, self.settings.home)

    def want(self, nodes: int) -> ClusterState:
        """Scale, and wait until it is done."""
        self.files.want(nodes)
        limit = control.cluster_of(self.settings).scale.come
        return control.wait(self.settings, limit, lambda _: None)

    def lose(self, name: str) -> None:
        """Kill a node's worker and executors."""
        host = next(node.host for node in self.state.nodes if node.name == name)
        signal_all(self.processes(host), signal.SIGKILL)

    @property
    def executors(self) -> list[psutil.Process]:
        """Of all nodes."""
        hosts = {node.host for node in self.state.nodes}
        return [p for host in hosts for p in self._of(host) if "--executor-id" in _words(p)]

    def processes(self, host: str) -> list[psutil.Process]:
        """The worker with an address, and its executors."""
        found = self._of(host)
        assert found, f"nobody is {host}"
        return found

    def _of(self, host: str) -> list[psutil.Process]:
        mine = marked(control.mark_of(self.settings))
        return [p for p in psutil.process_iter() if p.pid in mine and _is_of(p, host)]


def _is_of(process: psutil.Process, host: str) -> bool:
    words = _words(process)
    spark = any("deploy.worker.Worker" in w or "CoarseGrainedExecutor" in w for w in words)
    return spark and host in words


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def nodes_asked_for() -> int:
    """Nodes that tests are to run on; 0: on the cores of this machine."""
    return int(os.environ.get("PENSTOCK_TEST_NODES", "0"))


def two_free_ports() -> int:
    """The first of two in a row that nobody listens on."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            try:
                two.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return int(port)


@contextmanager
def a_cluster(home: Path, nodes: int, hosts: Hosts | None = None) -> Iterator[TestCluster]:
    """A cluster of so many nodes below a home folder; down at the end.

    Args:
        home: the folder.
        nodes: that it starts with.
        hosts: where they run; none: on addresses of this machine's own.
    """
    home.mkdir(parents=True, exist_ok=True)
    here = "127.0.0.1" if hosts is None else hosts.here
    port = two_free_ports()
    file = home / "cluster.yaml"
    most = max(nodes, 4)
    file.write_text(
        f"master: {{host: {here}, port: {port}}}\nworker: {{cores: 1, memory: 512m}}\n"
        f"nodes: {{start: {nodes}, least: 1, most: {most}}}\n"
    )
    settings = Settings(
        home=home, cluster=file, spark_master=f"spark://{here}:{port}",
        pipelines=home / "pipelines", driver_memory="512m",
    )  # fmt: skip
    umask = os.umask(0o077)
    try:
        with _kept(settings, hosts):
            yield TestCluster(settings)
    finally:
        control.down(settings)
        os.umask(umask)


@contextmanager
def _kept(settings: Settings, hosts: Hosts | None) -> Iterator[None]:
    """By a supervisor of its own, or, on hosts that only a test has, by one in this process."""
    if hosts is None:
        control.up(settings, lambda _: None)
        yield
        return
    files, cluster = ClusterFiles(settings.home), control.cluster_of(settings)
    files.want(cluster.nodes.start)
    lock = take_lock(files.lock)
    assert lock is not None
    pool = Standalone(settings, cluster, SystemClock(), hosts.site)
    supervisor = ClusterSupervisor(files, pool)
    thread = Thread(target=supervisor.run, name="cluster")
    thread.start()
    try:
        control.wait(settings, cluster.scale.come, lambda _: None)
        yield
    finally:
        supervisor.stop.set()
        thread.join()
        os.close(lock)
