"""Prints what ``penstock show`` says: where the steps stand, and answers with their revisions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.control.explain import spoken
from penstock.core.slack import SlackPolicy
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, instant
from penstock.lake.history.position import BACKFILL
from penstock.lake.history.standing import Standing, standing, told
from penstock.lake.serve import show as shows
from penstock.lake.serve.show import Answers, Shown, StepState
from penstock.lake.storage.tables import Definition, Tables
from penstock.runtime.streams import control
from penstock.runtime.streams.paths import StreamPaths, read_json
from penstock.runtime.terminal.words import (
    NARROW,
    NOTHING,
    REASONS,
    at,
    count,
    head,
    pairs,
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


def show_answers(
    settings: Settings,
    pipeline: Pipeline,
    steps: Sequence[StepSpec],
    wanted: Wanted,
    out: Console,
) -> None:
    """Show steps of a pipeline."""
    tables = Tables(settings.lake_uri, pipeline.name)
    out.print(Text.assemble((pipeline.name, "bold"), f"  {pipeline.description}"))
    audit = read_json(settings.docs / pipeline.name / "latest.json")
    folder = settings.docs / pipeline.name
    out.print(pairs(("stream", _stream(settings, pipeline)), ("audit", _audit(audit, folder))))
    for step in steps:
        state, shown = shows.state(tables, step), standing(tables, step)
        head(f"Step {step.name}", out)
        if state is None:
            out.print(Text(_friendly(shows.why_nothing(tables, step), settings, pipeline, step)))
        else:
            out.print(_state(state, step, pipeline))
        if shown is not None and shown.waits:
            out.print()
            out.print(Text("  " + told(step, shown), style="yellow"))
        if wanted.revisions and shown is not None:
            _show_revisions(tables, shown, pipeline, wanted, out)
        elif shown is not None or state is not None:
            definition = step if shown is None else shown.step
            limit = wanted.limit_of(definition)
            found = shows.answers(tables, shown, pipeline, wanted.keys, limit)
            _show_found(found, definition, wanted, out)
        if state is not None:
            _show_balance(state, shows.last_audit(tables, step), out)


def _stream(settings: Settings, pipeline: Pipeline) -> Text:
    known = control.status(StreamPaths(settings.streams, pipeline.name))
    if known.state == "absent":
        return Text("does not run")
    error = known.wrong
    colour = "red" if error or known.troubled else "green" if known.alive else ""
    said = known.state.replace("_", " ")
    if known.state == "dead":
        said = f"dead: its supervisor was killed; the DAG stream__{pipeline.name} starts it again"
    if not error and known.alive and known.driver.get("waits_for"):
        error, colour = f"waits for its source: {known.driver['waits_for']}", "yellow"
    return Text(f"{said}: {error}" if error else said, style=colour)


def _audit(latest: Mapping[str, Any], folder: object) -> Text:
    if not latest:
        return Text("none yet")
    status = str(latest.get("status", "unknown"))
    colour = {"passed": "green", "warning": "yellow", "nothing": ""}.get(status, "red")
    said = Text("nothing to say" if status == "nothing" else status, style=colour)
    said.append(
        f" at {str(latest.get('at', ''))[:16].replace('T', ' ')} UTC,"
        f" {latest.get('answers_compared', 0):,} answers compared\n{folder}/index.html"
    )
    return said


def _friendly(why: str, settings: Settings, pipeline: Pipeline, step: StepSpec) -> str:
    """What to do when there is nothing to show."""
    name = pipeline.name
    start = f"start the DAG stream__{name} in Airflow (penstock up says where)"
    if why == "empty":
        first = f"the DAG preload__{name} for its history, then " if pipeline.history else ""
        return (
            f"  Nothing has been taken in yet. Next: penstock up, then trigger {first}the DAG"
            f" stream__{name}.\n  What it will do: penstock explain {name}"
        )
    if why == "not started":
        return f"  Records are there, but the step has not run yet. Next: {start}."
    if why == "changed":
        return (
            f"  The definition of {step.name} has changed, so that its answers begin anew;"
            f" until they say as much, readers get those of the former one."
            f" Next: {start}; clear its task if it runs already."
        )
    log = settings.logs / "streams" / f"{name}.log"
    return (
        "  It has started and will seal its first micro-batch soon. Look again in a moment; if"
        f" nothing comes: penstock status, and {log}"
    )


def _state(state: StepState, step: StepSpec, pipeline: Pipeline) -> Table:
    behind = state.received - state.sealed_seq - 1
    sealed = f"through record {state.sealed_seq + 1:,} of {state.received:,}"
    if behind > 0:
        sealed += f"; {behind:,} wait"
    mark = state.fold.watermark
    if state.ended:
        watermark = "the source has ended: every window is closed"
    elif mark <= BEGINNING:
        watermark = "no record seen yet"
    else:
        watermark = f"{at(instant(mark))}: windows that end by then are answered"
    if step.slack.policy is SlackPolicy.FIXED:
        policy = "fixed"
    elif step.slack.tuning is not None:
        policy = f"{step.slack.policy}, for {step.slack.tuning.threshold:.2%} of a window"
    else:
        policy = f"greatest lateness so far, up to {spoken(step.slack.span)}"
    return pairs(
        ("sealed", sealed),
        ("watermark", watermark),
        ("slack K", f"{spoken(state.fold.slack)} ({policy})"),
        ("pending", _pending(state, pipeline)),
        ("corrected", _corrected(state)),
    )


def _pending(state: StepState, pipeline: Pipeline) -> Text:
    waits = [count(state.pending, "answer")] if state.pending else []
    if state.owes:
        waits.append("the answers of all windows from before its start")
    if not waits:
        return Text("no answer waits for a correction")
    said = f"{' and '.join(waits)} wait for correct__{pipeline.name}"
    return Text(said, style="yellow")


def _corrected(state: StepState) -> str:
    row = state.corrected
    if row is None:
        return "never yet"
    if row["reason"] == BACKFILL:
        return f"never yet; the last of the history gave {count(row['answers'] or 0, 'answer')}"
    return (
        f"{at(row['recorded_at'].replace(second=0, microsecond=0))} UTC, run {row['run_id']}:"
        f" {count(row['answers'] or 0, 'answer')} recomputed, {row['changed'] or 0:,} changed"
    )


def _show_found(found: Answers, step: Definition, wanted: Wanted, out: Console) -> None:
    of = ", ".join(f"{name} = {text}" for name, text in wanted.keys.items())
    counts = (
        f"  {count(found.count, 'answer')}{' of ' + of if of else ''} in force:"
        f" {found.timely:,} given in time, {found.history:,} from the history,"
        f" {found.only_late:,} from late records only. Late records changed {found.changed:,}."
    )
    out.print()
    out.print(Text(counts))
    if not found.count:
        return
    if found.repaired:
        title = "Repaired by correction, newest windows first (UTC)"
        put(_answers(found.repaired, step, title, out), out)
    put(_answers(found.newest, step, "Newest windows (UTC)", out), out)


def _answers(rows: Sequence[Shown], step: Definition, title: str, out: Console) -> Table:
    """A line a measure: narrow terminals fold cells, and each fold stays in its line."""
    narrow = out.width < NARROW
    revision = "rev" if narrow else "revision"
    key = ", ".join(step.key_names) or "key"
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


def _show_revisions(
    tables: Tables, of: Standing, pipeline: Pipeline, wanted: Wanted, out: Console
) -> None:
    step = of.step
    limit = wanted.limit_of(step)
    rows = shows.all_revisions(tables, of, pipeline, wanted.keys, limit)
    if not rows:
        out.print("  No answer has more than one revision.")
        return
    measures = [m.name for m in step.values]
    narrow = out.width < NARROW
    right = (*measures, "rev", "records", "through record")
    shown = table(
        "window", *step.key_names, "rev", *measures, "records", "reason",
        *(() if narrow else ("published", "through record")),
        right=right, title="Every revision, newest windows first (UTC)",
    )  # fmt: skip
    before: tuple[Any, ...] = ()
    for row in rows:
        same = (row["window_start"], *(row[k] for k in step.key_names))
        again, before = same == before, same
        place = ["" if again else window(row["window_start"], row["window_end"], year=not narrow)]
        place += ["" if again else value(row[k]) for k in step.key_names]
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


def _show_balance(state: StepState, audit: Mapping[str, Any] | None, out: Console) -> None:
    found = state.balance
    shown = table("nothing is lost", "number", "=", "where it went", right=("number",))
    good = found.received == found.accepted + found.quarantined
    parts = f"{found.accepted:,} accepted + {found.quarantined:,} quarantined"
    shown.add_row("records received", f"{found.received:,}", _sign(good), parts)
    names = (("on time", found.on_time), ("late", found.late), ("open", found.open))
    parts = " + ".join(f"{n:,} {name}" for name, n in (*names, ("preloaded", found.preloaded)))
    shown.add_row("(record, window) pairs", f"{found.pairs:,}", Text("="), parts)
    if audit is not None:
        compared = json.loads(audit["comparisons"])
        events = compared["pairs_events"]
        whole = compared["through_seq"] == state.sealed_seq
        said = "counted by the audit in the events" if whole else "by the last audit, before now"
        same = _sign(compared["pairs_unaccounted"] == 0)
        shown.add_row("", f"{events:,}", same, said)
    put(shown, out)


def _sign(good: bool) -> Text:
    return Text("=", style="green") if good else Text("IS NOT", style="bold red")
