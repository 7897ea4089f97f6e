"""Up, down and size of the cluster, from any process of this host."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta

from penstock.config.cluster import Cluster, read_cluster
from penstock.config.settings import Settings
from penstock.control.nodes import STATE_FILE
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError, TransientError
from penstock.runtime.cluster.pools import pool_for
from penstock.runtime.cluster.state import ClusterFiles, ClusterState
from penstock.runtime.embedded import privacy
from penstock.runtime.embedded.airflow_environment import project_environment
from penstock.runtime.embedded.processes import identify, send, wait_until_gone
from penstock.runtime.streams.paths import hand_over, read_json, take_lock
from penstock.runtime.streams.processes import MARK, kill_marked, marked

POLL_SECONDS = 0.2
STOP_LIMIT = timedelta(seconds=60)
_launched: list["subprocess.Popen[bytes]"] = []  # kept: the supervisor outlives its Popen object


def cluster_of(settings: Settings) -> Cluster:
    """What the file of the cluster says.

    Raises:
        ConfigError: it has problems.
    """
    return read_cluster(settings.cluster)


def up(settings: Settings, told: Callable[[ClusterState], None]) -> ClusterState:
    """Start the cluster, or join it; returns once all wanted nodes are registered.

    Args:
        settings: where.
        told: gets the state whenever it changed.

    Raises:
        ConfigError: its file is wrong, or something that its pool needs is not there.
        TransientError: nodes did not come.
    """
    cluster = cluster_of(settings)
    files = ClusterFiles(settings.home)
    pool_for(settings, cluster, SystemClock()).check()
    os.umask(privacy.OWNER_ONLY)
    files.folder.mkdir(parents=True, exist_ok=True)
    hand_over(files.folder)
    if (lock := take_lock(files.lock)) is not None:
        try:
            hand_over(files.lock)
            kill_marked(mark_of(settings), set())  # what a killed supervisor has left
            if files.wanted() is None:
                files.want(cluster.nodes.start)
            files.publish(cluster.url, ())
            _launch(settings, lock)
        finally:
            os.close(lock)
    return wait(settings, cluster.scale.come, told)


def wait(
    settings: Settings, limit: timedelta, told: Callable[[ClusterState], None]
) -> ClusterState:
    """Wait until there are as many nodes as wanted.

    Raises:
        TransientError: it takes too long, or nobody keeps the cluster.
    """
    files, until = ClusterFiles(settings.home), time.monotonic() + limit.total_seconds()
    former: ClusterState | None = None
    while True:
        state = files.read()
        if state != former:
            told(state)
            former = state
        if state.settled:
            return state
        if not state.alive:
            raise TransientError(
                "the cluster's supervisor has ended: see"
                f" {settings.logs / 'cluster' / 'supervisor.log'}. Start it: penstock cluster up"
            )
        if time.monotonic() > until:
            missing = ", ".join(f"{n.name} {n.state}" for n in state.nodes) or "none"
            raise TransientError(
                f"{state.wanted} nodes are wanted and {state.registered} are registered after"
                f" {limit.total_seconds():.0f} s ({missing}). See {settings.logs / 'cluster'}; what"
                " a container says, docker logs shows"
            )
        time.sleep(POLL_SECONDS)


def down(settings: Settings) -> bool:
    """Stop the cluster; True when there was one.

    Raises:
        ConfigError: its supervisor cannot be seen from here: it runs outside of this container.
    """
    files = ClusterFiles(settings.home)
    alive = files.read().alive
    if alive and not marked(mark_of(settings)):
        raise ConfigError("the cluster is kept from elsewhere: stop it where it was started")
    if alive and (found := identify(read_json(files.folder / STATE_FILE).get("supervisor", 0))):
        send(found.pid, signal.SIGTERM)
        if not wait_until_gone(found, STOP_LIMIT):
            send(found.pid, signal.SIGKILL)
    left = kill_marked(mark_of(settings), set())
    return alive or left > 0


def mark_of(settings: Settings) -> str:
    """Value of PENSTOCK_MARK in the environment of every process of the cluster."""
    return str(ClusterFiles(settings.home).folder)


def _launch(settings: Settings, lock: int) -> None:
    command = (sys.executable, "-m", "penstock.runtime.cluster.supervisor", str(lock))
    environment = project_environment(settings) | {MARK: mark_of(settings)}
    logs = settings.logs / "cluster"
    logs.mkdir(parents=True, exist_ok=True)
    with (logs / "launch.log").open("wb") as output:
        _launched.append(
            subprocess.Popen(
                command, env=environment, cwd=settings.root, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True, pass_fds=(lock,),
            )
        )  # fmt: skip
