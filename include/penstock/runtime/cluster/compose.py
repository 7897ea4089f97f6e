"""A pool of containers: workers of the compose file's service ``spark-worker``.

Each node is a container that was made by itself (``compose run``), so that the one that is drained
is the one that goes. ``up --scale`` takes away by number, and any later ``up`` all but one.
Everything is found by labels: nodes of a killed supervisor are the next one's.

Source: Compose 1.29 and 5, as read and tried: both make such a container without a restart policy,
and no ``up`` touches it.
"""

import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress

from penstock.config.cluster import Cluster
from penstock.config.settings import Settings
from penstock.control.nodes import DOWN, DRAINING, REGISTERED, STARTING, NodeState
from penstock.core.errors import ConfigError, TransientError
from penstock.runtime.cluster.docker import (
    NUMBER,
    ONE_OFF,
    PROJECT,
    Container,
    Docker,
    is_same_folder,
)
from penstock.runtime.cluster.executors import Farewell
from penstock.runtime.cluster.master import ALIVE, DECOMMISSIONED, workers
from penstock.runtime.cluster.pool import number_of, offered

log = logging.getLogger(__name__)

MASTER, WORKER, RUNNER = "spark-master", "spark-worker", "stream-runner"
HOME = "/var/lib/penstock"
"""In all containers."""
PAGE = "http://{}:8080/json/"
"""Of the master, at its container's address: nothing of Spark's is published."""
NODE = "penstock.node"
"""Label of a container that is a node: its name."""
COMPOSES_OWN = 1000
"""Added to the number of a worker that Compose has started by itself: it counts, and goes first."""
LOOK_SECONDS = 2.0
PAUSE_SECONDS = 10.0
"""After a container that could not be started."""


class Compose:
    """The pool ``compose``."""

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self.settings, self.cluster = settings, cluster
        self.url = cluster.url
        self._docker = Docker(settings.root)
        self._project = ""
        self._nodes: dict[str, Container] = {}
        self._master: Container | None = None
        self._workers: dict[str, str] = {}
        self._until: dict[str, float] = {}
        self._told: dict[str, Farewell] = {}
        self._look_due = self._add_due = 0.0

    def check(self) -> None:
        """See that Docker is there, that the services run, and that they have this home folder.

        Raises:
            ConfigError: they do not, or it is another folder.
            TransientError: Docker does not answer.
        """
        self._docker.find()
        ids = self._docker.compose("ps", "-q", MASTER, RUNNER).split()
        running = {c.service: c for c in self._docker.containers(*ids) if c.is_running}
        if missing := {MASTER, RUNNER} - running.keys():
            raise ConfigError(
                f"{', '.join(sorted(missing))}: not running. Start the services first, in"
                f" {self.settings.root}: docker compose up -d --scale {WORKER}=0"
            )
        home, theirs = self.settings.home, running[RUNNER].mounts.get(HOME, "none")
        if not is_same_folder(home, theirs):
            raise ConfigError(
                f"{home} is not the home folder of the containers, which is {theirs}. Set"
                " PENSTOCK_HOME to one folder of this host for Compose and for this command, and"
                " start the services again: docs/how-to/run-in-containers.md"
            )
        if os.geteuid() not in {0, home.stat().st_uid}:
            raise ConfigError(f"{home} is user {home.stat().st_uid}'s: be that user, or root")
        self._project = running[MASTER].labels[PROJECT]

    def open(self) -> None:
        """Find the nodes that are there; those that were being drained are drained further."""
        self.check()
        self._look()
        for name, node in self._nodes.items():
            if self._workers.get(node.address) == DECOMMISSIONED:
                self.drain(name)

    def tend(self) -> None:
        """Look at the containers; start those that have ended, take away those that are drained."""
        if time.monotonic() < self._look_due:
            return
        try:
            self._look()
            for name, node in [*self._nodes.items()]:
                if name in self._until:
                    self._drained(name, node)
                elif node.status in {"created", "exited"}:
                    self._keep_running(node.id)
                    self._docker.ask("start", node.id)
        except TransientError as failed:
            log.warning("this look has failed: %s", failed)

    def nodes(self) -> Sequence[NodeState]:
        """The nodes, by number."""
        return [self._state(name, self._nodes[name]) for name in sorted(self._nodes, key=number_of)]

    def add(self, name: str) -> None:
        """Start a worker's container; later, if there is no master now or the last one failed."""
        if self._master is None or time.monotonic() < self._add_due:
            return
        cores, memory = offered(self.cluster.worker)
        container = f"{self._project}-{name}"
        try:
            self._docker.compose(
                "run", "-d", "-T", "--no-deps", "--name", container, "--label", f"{NODE}={name}",
                "-e", f"SPARK_WORKER_CORES={cores}", "-e", f"SPARK_WORKER_MEMORY={memory}", WORKER,
            )  # fmt: skip
            self._keep_running(container)
            self._look()
        except TransientError as failed:
            self._add_due = time.monotonic() + PAUSE_SECONDS
            log.warning("not started node=%s: %s", name, failed)

    def drain(self, name: str) -> None:
        """Tell a worker that it goes: its executors take no more tasks, and end."""
        limit = self.cluster.scale.drain.total_seconds()
        self._until.setdefault(name, time.monotonic() + limit)

    def close(self) -> None:
        """End the nodes; the master, and workers that Compose has started, are Compose's to end."""
        with suppress(TransientError):
            self._look()
        mine = [node.id for node in self._nodes.values() if NODE in node.labels]
        self._nodes.clear()
        if not mine:
            return
        try:
            self._docker.ask("rm", "-f", *mine)
        except TransientError as failed:
            log.warning("nodes are left; the next supervisor has them: %s", failed)

    def _look(self) -> None:
        self._look_due = time.monotonic() + LOOK_SECONDS
        found = self._docker.project(self._project)
        self._master = next((c for c in found if c.service == MASTER and c.is_running), None)
        self._nodes = {name: c for c in found if (name := _name(c))}
        self._workers = {} if self._master is None else workers(PAGE.format(self._master.address))
        self._until = {n: until for n, until in self._until.items() if n in self._nodes}
        self._told = {n: told for n, told in self._told.items() if n in self._until}

    def _keep_running(self, container: str) -> None:
        self._docker.ask("update", "--restart", "unless-stopped", container)

    def _drained(self, name: str, node: Container) -> None:
        executors = self._docker.executors(node.id) if node.is_running else []
        # A worker that has not registered yet would die of the signal, and Docker start it again.
        if name not in self._told and (executors or self._workers.get(node.address) == ALIVE):
            self._told[name] = Farewell(executors)
            self._docker.ask("kill", "-s", "PWR", node.id)
            return
        if name in self._told:
            self._told[name].look(executors, time.monotonic())
        if not executors or time.monotonic() > self._until[name]:
            if executors:
                log.warning("not drained in time, ended by force node=%s", name)
            self._docker.ask("rm", "-f", node.id)
            del self._nodes[name], self._until[name]

    def _state(self, name: str, node: Container) -> NodeState:
        if name in self._until:
            state = DRAINING
        elif not node.is_running:
            state = DOWN
        else:
            state = REGISTERED if self._workers.get(node.address) == ALIVE else STARTING
        return NodeState(name, node.address, state, node.restarts)


def _name(container: Container) -> str:
    """Of a node; empty: the container is none."""
    labels = container.labels
    if container.service != WORKER or NODE in labels:
        return labels.get(NODE, "")
    if labels[ONE_OFF] == "True" or not container.is_running:
        return ""
    return f"node{COMPOSES_OWN + int(labels[NUMBER])}"
