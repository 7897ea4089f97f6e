"""A cluster of a test's own: its file, its home, its nodes."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from penstock.config.settings import Settings
from penstock.control.nodes import conf_environment
from penstock.runtime.cluster import control
from penstock.runtime.cluster.state import ClusterFiles, ClusterState


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

    def processes(self, host: str) -> list[psutil.Process]:
        """The worker with an address, and its executors."""
        found = [p for p in psutil.process_iter() if _is_of(p, host)]
        assert found, f"nobody is {host}"
        return found


def _is_of(process: psutil.Process, host: str) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    spark = any("deploy.worker.Worker" in w or "CoarseGrainedExecutor" in w for w in words)
    return spark and host in words


def free_port() -> int:
    """One that nobody listens on, nor on the next."""
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
def a_cluster(home: Path, nodes: int, more: str = "") -> Iterator[TestCluster]:
    """A cluster of so many nodes below a home folder; down at the end."""
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    file = home / "cluster.yaml"
    file.write_text(
        f"master: {{port: {port}}}\nworker: {{cores: 1, memory: 512m}}\n"
        f"nodes: {{start: {nodes}, least: 1, most: 4}}\n{more}"
    )
    settings = Settings(
        home=home, cluster=file, spark_master=f"spark://127.0.0.1:{port}",
        pipelines=home / "pipelines", driver_memory="512m",
    )  # fmt: skip
    umask = os.umask(0o077)
    try:
        control.up(settings, lambda _: None)
        yield TestCluster(settings)
    finally:
        control.down(settings)
        os.umask(umask)
