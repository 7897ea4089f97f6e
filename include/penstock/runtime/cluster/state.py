"""How many nodes there should be, and what the cluster's supervisor says of those there are.

Two files that are replaced as a whole: anybody may read them, from any process that sees the home
folder. Who is alive is said by a lock alone.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.control.nodes import REGISTERED, STATE_FILE, NodeState, conf_of, folder_of, nodes_in
from penstock.runtime.streams.paths import is_held, read_json, write_json


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What is known of the cluster.

    Attributes:
        alive: whether its supervisor runs.
        url: of Spark's master.
        wanted: so many nodes there should be.
        nodes: those there are.
    """

    alive: bool
    url: str
    wanted: int
    nodes: tuple[NodeState, ...]

    @property
    def registered(self) -> int:
        """Nodes that take tasks."""
        return sum(node.state == REGISTERED for node in self.nodes)

    @property
    def settled(self) -> bool:
        """Whether there are as many nodes as wanted, all registered, and none besides."""
        return self.alive and self.registered == self.wanted == len(self.nodes)


class ClusterFiles:
    """The folder of the cluster below the home folder."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder = home, folder_of(home)

    @property
    def lock(self) -> Path:
        """Held by the supervisor as long as it lives."""
        return self.folder / "lock"

    @property
    def conf(self) -> Path:
        """Spark's SPARK_CONF_DIR: the secret that all processes of the cluster share."""
        return conf_of(self.home)

    @property
    def work(self) -> Path:
        """What workers write."""
        return self.folder / "work"

    def read(self) -> ClusterState:
        """What is known; of a cluster that was never up, an empty one."""
        told = read_json(self.folder / STATE_FILE)
        alive = is_held(self.lock)
        return ClusterState(
            alive=alive,
            url=told.get("url", ""),
            wanted=self.wanted() or 0,
            nodes=nodes_in(told) if alive else (),
        )

    def publish(self, url: str, nodes: Sequence[NodeState]) -> None:
        """Say how the cluster is; of the supervisor alone."""
        found = [asdict(node) for node in nodes]
        told = {"url": url, "nodes": found, "supervisor": os.getpid()}
        write_json(self.folder / STATE_FILE, told)

    def wanted(self) -> int | None:
        """How many nodes there should be; none: nobody has said so yet."""
        found = read_json(self.folder / "wanted.json").get("nodes")
        return None if found is None else int(found)

    def want(self, nodes: int) -> None:
        """Say how many nodes there should be: the supervisor brings it about."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / "wanted.json", {"nodes": nodes})
