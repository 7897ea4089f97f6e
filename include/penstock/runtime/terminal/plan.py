"""``penstock plan``: what pipeline files change, as a table."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from penstock.core.version import pipeline_of
from penstock.lake.topology.plan import Outlook, What
from penstock.runtime.terminal.words import NOTHING, put, table

COLOURS = {What.STARTS: "green", What.SHARES: "green", What.REBUILT: "yellow",
           What.WAITS: "yellow", What.RESCALED: "yellow",
           What.ENDS: "red", What.STAYS: "dim"}  # fmt: skip


def show_plan(outlook: Outlook, versions: Mapping[str, Sequence[str]], out: Console) -> None:
    """Print it: what stays last; then what waits, and what versions that are built still owe."""
    if not outlook.changes:
        out.print("No pipeline file, and nothing has run.")
        return
    shown = table("log", "step", "run", "", "records to read", "about", "why",
                  right=("records to read",))  # fmt: skip
    for change in sorted(outlook.changes, key=lambda each: each.what is What.STAYS):
        what = Text(change.what.value, style=COLOURS[change.what])
        read = f"{change.records:,}" if change.records else NOTHING
        shown.add_row(
            change.log,
            change.name or NOTHING,
            change.run,
            what,
            read,
            change.about or NOTHING,
            change.because,
        )
    put(shown, out)
    built = {pipeline_of(name) for name in versions}
    for name in (each for each in outlook.held if each not in built):
        said = f"{name}: its edit waits. Trigger apply__topology in Airflow, and approve it there."
        out.print(Text(said, style="yellow"), soft_wrap=True)
    for name, owed in versions.items():
        said = f"{name} is built: {'; '.join(owed) or 'readers can switch to it'}."
        out.print(Text(said, style="yellow"), soft_wrap=True)
