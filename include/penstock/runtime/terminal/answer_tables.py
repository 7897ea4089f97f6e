"""Answers on the terminal: what was said first beside what is in force, and every revision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.config.pipeline import Pipeline
from penstock.lake.history.standing import Standing
from penstock.lake.serve.revisions import Answers, Shown, all_revisions
from penstock.lake.storage.definition import Definition
from penstock.lake.storage.tables import Tables
from penstock.runtime.terminal.words import (
    NARROW,
    NOTHING,
    REASONS,
    at,
    count,
    put,
    table,
    value,
    window,
)

LINES = 24
"""Lines of a table of answers, unless a limit is given."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to show.

    Attributes:
        keys: key column -> value; only these.
        limit: windows and keys a table; none: a screenful.
        revisions: every revision instead of the first and the last.
    """

    keys: Mapping[str, str]
    limit: int | None
    revisions: bool

    def limit_of(self, step: Definition) -> int:
        """Windows and keys a table: each takes a line a measure."""
        return self.limit or max(3, LINES // len(step.values))


def show_found(found: Answers, step: Definition, wanted: Wanted, out: Console) -> None:
    """Say how many answers there are, and show some: repaired ones, then the newest."""
    of = ", ".join(f"{name} = {text}" for name, text in wanted.keys.items())
    gone = f", {found.taken_back:,} taken back" if found.taken_back else ""
    counts = (
        f"  {count(found.count, 'answer')}{' of ' + of if of else ''} in force{gone}:"
        f" {found.timely:,} given in time, {found.history:,} from the history,"
        f" {found.only_late:,} from late records only. Late records changed {found.changed:,}."
    )
    out.print()
    out.print(Text(counts))
    if not found.newest:
        return
    if found.repaired:
        title = "Repaired by correction, newest windows first (UTC)"
        put(_answers(found.repaired, step, title, out), out)
    put(_answers(found.newest, step, "Newest windows (UTC)", out), out)


def _answers(rows: Sequence[Shown], step: Definition, title: str, out: Console) -> Table:
    """A line a measure: narrow terminals fold cells, and each fold stays in its line."""
    narrow = out.width < NARROW
    revision = "rev" if narrow else "revision"
    key = ", ".join(step.identity_names) or "key"
    right = ("timely", "in force", revision, "records")
    shown = table(
        "window", key, "measure", *right[:3], "reason", "records", right=right, title=title
    )
    for row in rows:
        first = [window(row.start, row.end, year=not narrow), ", ".join(map(value, row.key))]
        last: list[str | Text] = [
            str(row.revision),
            REASONS.get(row.reason, row.reason),
            _records(row),
        ]
        for i, measure in enumerate(step.values):
            place = first if not i else ["", ""]
            rest = last if not i else []
            shown.add_row(*map(Text, place), Text(measure.name), *_cell(row, measure.name), *rest)
    return shown


def _cell(row: Shown, name: str) -> tuple[Text, Text]:
    now = value(row.now[name])
    if row.first is None:
        return Text(NOTHING, style="dim"), Text(now, style="bold yellow")
    first = value(row.first[name])
    if name not in row.changed:
        return Text(first), Text(now)
    if first == now:
        first, now = repr(row.first[name]), repr(row.now[name])
    return Text(first, style="dim"), Text(f"→ {now}", style="bold yellow")


def _records(row: Shown) -> Text:
    now = value(row.now["n_records"])
    if row.first is None or "n_records" not in row.changed:
        return Text(now)
    return Text(f"{value(row.first['n_records'])} → {now}", style="bold yellow")


def show_revisions(
    tables: Tables, of: Standing, pipeline: Pipeline, wanted: Wanted, out: Console
) -> None:
    """Show every revision of the newest windows that have more than one."""
    step = of.step
    limit = wanted.limit_of(step)
    rows = all_revisions(tables, of, pipeline, wanted.keys, limit)
    if not rows:
        out.print("  No answer has more than one revision.")
        return
    measures = [m.name for m in step.values]
    narrow = out.width < NARROW
    right = (*measures, "rev", "records", "through record")
    shown = table(
        "window", *step.identity_names, "rev", *measures, "records", "reason",
        *(() if narrow else ("published", "through record")),
        right=right, title="Every revision, newest windows first (UTC)",
    )  # fmt: skip
    before: tuple[Any, ...] = ()
    for row in rows:
        same = (row["window_start"], *(row[k] for k in step.identity_names))
        again, before = same == before, same
        place = ["" if again else window(row["window_start"], row["window_end"], year=not narrow)]
        place += ["" if again else value(row[k]) for k in step.identity_names]
        shown.add_row(
            *(Text(cell) for cell in place),
            str(row["revision"]),
            *(Text(value(row[m]), style="bold yellow" if again else "") for m in measures),
            value(row["n_records"]),
            REASONS.get(row["reason"], row["reason"]),
            *(() if narrow else _published(row)),
        )
    put(shown, out)


def _published(row: Mapping[str, Any]) -> tuple[str, str]:
    return at(row["published_at"].replace(microsecond=0)), f"{row['through_seq'] + 1:,}"
