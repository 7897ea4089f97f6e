"""What a pool of nodes can do: the port by which the cluster's supervisor has its nodes."""

from collections.abc import Sequence
from typing import Protocol

from penstock.config.cluster import Worker
from penstock.control.nodes import NodeState

SLOTS = 8
"""Applications that a worker takes at a time: it offers its cores and its memory so often."""


class NodePool(Protocol):
    """Where nodes come from; every call returns within seconds."""

    url: str
    """Of Spark's master."""

    def check(self) -> None:
        """See that all it needs is there.

        Raises:
            PenstockError: it is not; says the remedy.
        """

    def open(self) -> None:
        """Start what all nodes need."""

    def tend(self) -> None:
        """Restart what has died, and go on with what was begun."""

    def nodes(self) -> Sequence[NodeState]:
        """The nodes there are, by name."""

    def add(self, name: str) -> None:
        """Have one node more."""

    def drain(self, name: str) -> None:
        """Let a node's tasks end and its state move, then take it away; by force if it lasts."""

    def close(self) -> None:
        """End everything; returns when it has ended."""


def offered(worker: Worker) -> tuple[str, str]:
    """Cores and memory that a worker tells the master of."""
    return str(worker.cores * SLOTS), f"{int(worker.memory[:-1]) * SLOTS}{worker.memory[-1]}"


def name_of(number: int) -> str:
    """Of the first node: node1."""
    return f"node{number}"


def number_of(name: str) -> int:
    """Of node1: 1."""
    return int(name.removeprefix("node"))


def difference(
    wanted: int, present: Sequence[str], draining: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Which nodes to add and which to drain, so that as many stay as wanted.

    The lowest free numbers come, the highest go. A node that is being drained does not count, and
    its name is not given again before it is gone.

    Args:
        wanted: so many there should be.
        present: names of the nodes that stay.
        draining: of those that go.
    """
    have = sorted(present, key=number_of)
    taken = {*present, *draining}
    free = (name for n in range(1, wanted + len(taken) + 1) if (name := name_of(n)) not in taken)
    add = [name for name, _ in zip(free, range(wanted - len(have)), strict=False)]
    return add, have[wanted:][::-1]
