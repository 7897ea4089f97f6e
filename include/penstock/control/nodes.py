"""The nodes of a cluster, as its supervisor tells of them in a file that any process may read."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STARTING, REGISTERED, DRAINING, DOWN = "starting", "registered", "draining", "down"
STATE_FILE = "state.json"
DEFAULTS = "spark-defaults.conf"


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node, as the supervisor sees it.

    Attributes:
        name: node1, node2, ...
        host: address of its worker.
        state: starting, registered (with the master), draining, or down (about to be restarted).
        restarts: so often its worker was started again.
    """

    name: str
    host: str
    state: str
    restarts: int = 0


def folder_of(home: Path) -> Path:
    """Where everything of the cluster lies below the home folder."""
    return home / "cluster"


def conf_of(home: Path) -> Path:
    """SPARK_CONF_DIR of all that talk with the cluster: the secret that they share."""
    return folder_of(home) / "conf"


def conf_environment(master: str, home: Path) -> dict[str, str]:
    """How Spark finds the secret of a cluster of this home; empty: it is none."""
    conf = conf_of(home)
    if master.startswith("local") or not (conf / DEFAULTS).exists():
        return {}
    return {"SPARK_CONF_DIR": str(conf)}


def told_nodes(home: Path) -> tuple[NodeState, ...]:
    """The nodes that were last told of; none: there is no cluster."""
    try:
        return nodes_in(json.loads((folder_of(home) / STATE_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError):
        return ()


def nodes_in(told: dict[str, Any]) -> tuple[NodeState, ...]:
    """The nodes in the content of the file."""
    return tuple(NodeState(**each) for each in told.get("nodes", ()))


def names_of(home: Path) -> dict[str, str]:
    """Names of the nodes by address."""
    return {node.host: node.name for node in told_nodes(home)}


def registered_hosts(home: Path) -> list[str]:
    """Addresses of the nodes that take tasks, each as often as nodes have it."""
    return [node.host for node in told_nodes(home) if node.state == REGISTERED]
