"""What the page *Cluster* shows: nodes, how busy they were, what was decided, who was lost."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.config.cluster import Scale, checked_cluster
from penstock.config.kept import catalog_in_force
from penstock.config.settings import Settings
from penstock.core.clock import Clock
from penstock.core.scaling import Tau
from penstock.core.window import instant, micros
from penstock.lake.cluster.executors import Change, changes
from penstock.lake.cluster.load import FRESH, Load, busy_now, loads, taus
from penstock.lake.cluster.scalings import Scaling, Scalings
from penstock.lake.storage.tables import Tables
from penstock.runtime.cluster.state import ClusterFiles, ClusterState

SPAN = timedelta(hours=1)
SHOWN = 20
WIDTH, HEIGHT = 900, 220
"""Of the picture, in its own units."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the picture.

    Attributes:
        name: what it shows.
        points: as SVG wants them, x,y pairs.
    """

    name: str
    points: str


@dataclass(frozen=True, slots=True)
class View:
    """All of the page.

    Attributes:
        state: of the cluster.
        scale: its rules; none: its file is wrong or not there.
        at: the instant that is shown.
        all_nodes: how busy all nodes were together.
        nodes: how busy each was.
        levels: height of tau0, tau* and tau2 in the picture, by name.
        streams: newest look at each stream, by pipeline.
        busy: newest look at each node, shares by name.
        scalings: the newest first.
        changes: with their pipelines, the newest first.
    """

    state: ClusterState
    scale: Scale | None
    at: datetime
    all_nodes: Line
    nodes: list[Line]
    levels: dict[str, float]
    streams: dict[str, Load]
    busy: dict[str, float]
    scalings: list[Scaling]
    changes: list[tuple[str, Change]]


def view(settings: Settings, clock: Clock) -> View:
    """Everything as of now."""
    now = clock.now()
    logs = {pipeline.log for pipeline in catalog_in_force(settings).pipelines}
    tables = {name: Tables(settings.lake_uri, name) for name in sorted(logs)}
    found = {name: loads(each, now - SPAN) for name, each in tables.items()}
    cluster = checked_cluster(settings.cluster)[0] if settings.cluster.exists() else None
    by_node = _by_node([*found.values()])
    recent = micros(now - FRESH)
    scale = None if cluster is None else cluster.scale
    levels = {} if scale is None else {
        "idle": scale.idle, "target": scale.target, "overloaded": scale.overloaded
    }  # fmt: skip
    changed = [(name, each) for name, t in tables.items() for each in changes(t)]
    return View(
        state=ClusterFiles(settings.home).read(),
        scale=scale,
        at=now,
        all_nodes=Line("all", points(taus(found.values()), now)),
        nodes=[Line(name, points(each, now)) for name, each in sorted(by_node.items())],
        levels={name: height(level) for name, level in levels.items()},
        streams=_newest(found, recent),
        busy=busy_now(found.values(), now),
        scalings=Scalings(settings.lake_uri, clock).all()[-SHOWN:][::-1],
        changes=sorted(changed, key=lambda pair: pair[1].at)[-SHOWN:][::-1],
    )


def _by_node(found: list[list[Load]]) -> dict[str, list[Tau]]:
    names = {load.node for stream in found for load in stream if load.node is not None}
    return {
        name: taus([[load for load in stream if load.node == name] for stream in found])
        for name in names
    }


def _newest(found: dict[str, list[Load]], since: int) -> dict[str, Load]:
    whole = {
        name: [load for load in stream if load.node is None and load.at >= since]
        for name, stream in found.items()
    }
    return {name: stream[-1] for name, stream in whole.items() if stream}


def points(found: list[Tau], now: datetime) -> str:
    """A line of the picture: time to the right, the newest at the right edge; tau upwards."""
    first = micros(now - SPAN)
    across = [(tau.at - first) / micros(SPAN) * WIDTH for tau in found]
    return " ".join(
        f"{x:.1f},{height(tau.tau):.1f}" for x, tau in zip(across, found, strict=True) if x >= 0
    )


def height(tau: float) -> float:
    """Of a share of 1 in the picture; what is above 1 stays within it."""
    return HEIGHT * (1 - min(max(tau, 0.0), 1.0))


def told_instant(us: int) -> str:
    """Of a row, to the second, UTC."""
    return instant(us).strftime("%Y-%m-%d %H:%M:%S")
