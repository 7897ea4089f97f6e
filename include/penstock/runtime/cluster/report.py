"""What the terminal says of the cluster: its nodes, its load, what was decided."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.config.kept import catalog_in_force
from penstock.config.settings import Settings
from penstock.core.clock import Clock
from penstock.core.window import instant
from penstock.lake.cluster.load import FRESH, busy_now, loads
from penstock.lake.cluster.scalings import Scalings
from penstock.lake.storage.tables import Tables
from penstock.runtime.cluster.state import ClusterFiles, ClusterState

SHOWN = 8
COLOURS = {"registered": "green", "starting": "yellow", "draining": "yellow", "down": "red"}


def show_status(settings: Settings, clock: Clock, console: Console) -> bool:
    """Nodes with their load, then the newest scalings; whether all that are wanted are there."""
    state = ClusterFiles(settings.home).read()
    if not state.alive:
        console.print("The cluster is down. Start it: penstock cluster up")
        return False
    now, logs = clock.now(), {each.log for each in catalog_in_force(settings).pipelines}
    looks = [loads(Tables(settings.lake_uri, name), now - FRESH) for name in sorted(logs)]
    taus = busy_now(looks, now)
    console.print(f"{state.url}: {state.registered} of {state.wanted} wanted nodes registered")
    table = Table("node", "address", "state", "restarts", "busy", box=None, pad_edge=False)
    for node in state.nodes:
        tau = taus.get(node.name)
        table.add_row(
            node.name, node.host, Text(node.state, COLOURS.get(node.state, "")),
            str(node.restarts), "" if tau is None else f"{tau:.0%}",
        )  # fmt: skip
    console.print(table)
    for each in Scalings(settings.lake_uri, clock).all()[-SHOWN:]:
        at = instant(each.at).strftime("%Y-%m-%d %H:%M:%S")
        said = f"{at}  {each.state}: {each.nodes} to {each.wanted} nodes ({each.rule}): "
        console.print(Text(said + each.reason), soft_wrap=True)
    return state.settled


def told(state: ClusterState) -> str:
    """A line while it comes up."""
    nodes = ", ".join(f"{node.name} {node.state}" for node in state.nodes)
    return f"{state.registered} of {state.wanted} nodes registered ({nodes or 'none yet'})"
