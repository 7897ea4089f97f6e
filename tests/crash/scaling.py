"""A run of ``scale__cluster`` as a process to be killed, and what it leaves.

``python tests/crash/scaling.py`` looks at a load once and scales: observe, decide, act, verify. The
supervisor of the cluster is a lock that the process holds; nodes come as soon as they are wanted.
"""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from penstock.config.cluster import Cluster, Nodes, Scale
from penstock.config.settings import Settings
from penstock.control.nodes import REGISTERED, NodeState
from penstock.core.clock import SystemClock
from penstock.core.window import micros
from penstock.lake.cluster.executors import CAME, Change, executors_spec, note_changes
from penstock.lake.cluster.load import Load, LoadTable, forget
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables
from penstock.runtime.cluster.scaler import Scaler
from penstock.runtime.cluster.state import ClusterFiles
from penstock.runtime.streams.paths import take_lock

WANTED = 3
RUN = "killed"


def scaler_of(settings: Settings) -> Scaler:
    scale = Scale(come=timedelta(seconds=20), drain=timedelta(seconds=20))
    cluster = Cluster(nodes=Nodes(start=1, least=1, most=4), scale=scale)
    return Scaler(settings, cluster, SystemClock(), ["p"])


def tell(files: ClusterFiles, nodes: int) -> None:
    """As the supervisor of a cluster does."""
    found = [NodeState(f"node{n}", f"h{n}", REGISTERED) for n in range(1, nodes + 1)]
    files.publish("spark://here:1", found)


def scale(settings: Settings) -> None:
    """One look at the load, and one run."""
    tables, now = Tables(settings.lake_uri, "p"), SystemClock().now()
    files = ClusterFiles(settings.home)
    files.folder.mkdir(parents=True, exist_ok=True)
    assert take_lock(files.lock) is not None
    if files.wanted() is None:
        files.want(1)
    tell(files, files.wanted() or 0)
    note_changes(Table(executors_spec(tables)), [Change(micros(now), CAME, "node1", "h1", "0", "")])
    LoadTable(tables).append([Load(micros(now), 5.0, "node1", "h1", 1, 1.0, 0)])
    forget(tables, now + timedelta(days=8))
    scaler = scaler_of(settings)
    made = scaler.decide(RUN, scaler.observe(), WANTED, "as asked")
    if made is not None:
        scaler.act(made)
        tell(files, files.wanted() or 0)
        scaler.verify(made)


def scaled_apart(home: Path, trace: Path, **more: str) -> int:
    """In a process of its own; returns its exit code."""
    root = Settings().root
    path = os.pathsep.join(str(folder) for folder in (root / "include", root))
    environment = os.environ | {
        "PENSTOCK_HOME": str(home), "PENSTOCK_CRASH_TRACE": str(trace), "PYTHONPATH": path, **more
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.crash.scaling"]
    return subprocess.run(
        command, env=environment, cwd=root, start_new_session=True, check=False
    ).returncode


if __name__ == "__main__":
    scale(Settings())
