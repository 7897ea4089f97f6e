"""A pool of Spark's own: a master and its workers, supervised processes on this host.

Each worker has an address of its own, so that Spark sees so many hosts. Source: measured ways to
start master and workers from the pip package, and to drain a worker (SIGPWR) so that no task fails.
"""

import json
import logging
import os
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import jwt

from penstock.config.cluster import Cluster
from penstock.config.settings import Settings
from penstock.control.nodes import DEFAULTS, DOWN, DRAINING, REGISTERED, STARTING, NodeState
from penstock.core.clock import Clock
from penstock.runtime.cluster.executors import Farewell, executors_of
from penstock.runtime.cluster.master import ALIVE, workers
from penstock.runtime.cluster.pool import number_of, offered
from penstock.runtime.cluster.state import ClusterFiles
from penstock.runtime.embedded.airflow_environment import project_environment, spark_home
from penstock.runtime.embedded.child import Child, ChildSpec
from penstock.runtime.embedded.credentials import spark_secret, write_private, write_spark_defaults
from penstock.runtime.embedded.logfiles import RotatingLog

log = logging.getLogger(__name__)

DEPLOY = "org.apache.spark.deploy"
SECRETS = "secrets.json"
FILTER = "org.apache.spark.ui.JWSFilter"
GRACE = timedelta(seconds=10)
WORKER_TIMEOUT = 15
"""Seconds without a word until the master counts a worker as lost."""
DAEMON_MEMORY = "256m"


@dataclass(frozen=True, slots=True)
class Site:
    """Where the processes of nodes run.

    Attributes:
        host: address of a node, by its number.
        prefix: what stands before the command of a node, by its number: where it runs elsewhere.
    """

    host: Callable[[int], str] = lambda n: f"127.0.0.{10 + n}"
    prefix: Callable[[int], tuple[str, ...]] = lambda _: ()


@dataclass(slots=True)
class _Node:
    child: Child
    host: str
    drains_until: float | None = None
    farewell: Farewell | None = None


class Standalone:
    """The pool ``standalone``."""

    def __init__(
        self, settings: Settings, cluster: Cluster, clock: Clock, site: Site | None = None
    ) -> None:
        self.settings, self.cluster, self.clock = settings, cluster, clock
        self.site = site or Site()
        self.url = cluster.url
        self.files = ClusterFiles(settings.home)
        self._master: Child | None = None
        self._nodes: dict[str, _Node] = {}
        self._alive: frozenset[str] = frozenset()
        self._looked = 0.0

    def check(self) -> None:
        """See that Spark is installed."""
        spark_home()

    def open(self) -> None:
        """Start the master; workers that were registered come back to it by themselves."""
        write_conf(self.files)
        self.files.work.mkdir(parents=True, exist_ok=True)
        master = self.cluster.master
        words = ("--host", master.host, "--port", str(master.port),
                 "--webui-port", str(self._web_port))  # fmt: skip
        self._master = self._child("master", master.host, (), "Master", words)
        self._master.start()

    def tend(self) -> None:
        """Restart what has died; take away what is drained."""
        if self._master is not None:
            self._master.tend()
        for name, node in [*self._nodes.items()]:
            if node.drains_until is None:
                node.child.tend()
            else:
                self._drained(name, node)
        if time.monotonic() - self._looked > 1.0:
            self._looked = time.monotonic()
            self._alive = self._registered()

    def nodes(self) -> Sequence[NodeState]:
        """The nodes, by number."""
        return [self._state(name, self._nodes[name]) for name in sorted(self._nodes, key=number_of)]

    def add(self, name: str) -> None:
        """Start a worker."""
        number, (cores, memory) = number_of(name), offered(self.cluster.worker)
        host = self.site.host(number)
        words = (
            self.url, "--host", host, "--port", "0", "--webui-port", "0",
            "--cores", cores, "--memory", memory,
            "--work-dir", str(self.files.work / name),
        )  # fmt: skip
        prefix = self.site.prefix(number)
        child = self._child(name, host, prefix, "Worker", words)
        self._nodes[name] = _Node(child, host)
        child.start()

    def drain(self, name: str) -> None:
        """Tell a worker that it goes: its executors take no more tasks, and end."""
        node = self._nodes[name]
        if node.drains_until is None:
            node.drains_until = time.monotonic() + self.cluster.scale.drain.total_seconds()

    def close(self) -> None:
        """Stop the workers, then the master."""
        children = [node.child for node in self._nodes.values()]
        if self._master is not None:
            children.append(self._master)
        for child in children:
            child.request_stop()
        for child in children:
            child.finish_stop(time.monotonic() + GRACE.total_seconds())
        self._nodes.clear()

    def _drained(self, name: str, node: _Node) -> None:
        pid, now = node.child.pid, time.monotonic()
        executors = executors_of(pid)
        if pid is not None and node.farewell is None and node.child.is_running:
            node.farewell = Farewell(executors)
            os.kill(pid, signal.SIGPWR)
            return
        if node.farewell is not None:
            node.farewell.look(executors, now)
        assert node.drains_until is not None  # noqa: S101
        busy = node.child.is_running and executors
        if not busy or now > node.drains_until:
            if busy:
                log.warning("not drained in time, ended by force node=%s", name)
            node.child.request_stop()
            node.child.finish_stop(now + GRACE.total_seconds())
            del self._nodes[name]

    def _state(self, name: str, node: _Node) -> NodeState:
        if node.drains_until is not None:
            state = DRAINING
        elif not node.child.is_running:
            state = DOWN
        else:
            state = REGISTERED if node.host in self._alive else STARTING
        return NodeState(name, node.host, state, node.child.restarts)

    @property
    def _web_port(self) -> int:
        """Of the master's page, which answers to nobody but us."""
        return self.cluster.master.port + 1

    def _registered(self) -> frozenset[str]:
        """Addresses of the workers that the master counts as alive."""
        secret = json.loads((self.files.conf / SECRETS).read_text())["page"]
        token = jwt.encode({}, secret, algorithm="HS256")
        told = workers(f"http://{self.cluster.master.host}:{self._web_port}/json/", token)
        return frozenset(host for host, state in told.items() if state == ALIVE)

    def _child(
        self,
        name: str,
        host: str,
        prefix: tuple[str, ...],
        role: str,
        words: tuple[str, ...],
    ) -> Child:
        environment = project_environment(self.settings) | {
            "SPARK_CONF_DIR": str(self.files.conf),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        }
        program = spark_home() / "bin" / "spark-class"
        command = (*prefix, str(program), f"{DEPLOY}.{role.lower()}.{role}", *words)
        spec = ChildSpec(name, command, environment, self.files.work, GRACE)
        return Child(spec, RotatingLog(self.settings.logs / "cluster" / f"{name}.log"), self.clock)


def write_conf(files: ClusterFiles) -> None:
    """What all processes of the cluster share, for their owner alone; its secrets are made once."""
    secret = files.conf / SECRETS
    if not secret.exists():
        made = {"talk": spark_secret(), "page": secrets.token_urlsafe(48)}
        write_private(secret, json.dumps(made))
    told = json.loads(secret.read_text())
    lines = {
        "spark.network.crypto.enabled": "true",
        "spark.ui.filters": FILTER,
        f"spark.{FILTER}.param.secretKey": jwt.utils.base64url_encode(
            told["page"].encode()
        ).decode(),
        "spark.ui.killEnabled": "false",
        "spark.master.rest.enabled": "false",
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.deploy.recoveryDirectory": str(files.folder / "recovery").replace("\\", "\\\\"),
        "spark.worker.timeout": str(WORKER_TIMEOUT),
        "spark.worker.cleanup.enabled": "true",
        "spark.decommission.enabled": "true",
    }
    write_spark_defaults(files.conf / DEFAULTS, told["talk"], lines)
