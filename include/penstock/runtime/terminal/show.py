"""Prints what ``penstock show`` says: where the steps stand, and answers with their revisions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.control.spoken import spoken
from penstock.core.slack import SlackPolicy
from penstock.core.step import StepSpec
from penstock.core.version import which_of
from penstock.core.window import BEGINNING, instant
from penstock.lake.history.position import BACKFILL
from penstock.lake.history.standing import standing, told
from penstock.lake.log.freezes import frozen
from penstock.lake.serve import show as shows
from penstock.lake.serve.above import owed_above, waits_above
from penstock.lake.serve.revisions import answers
from penstock.lake.serve.show import StepState
from penstock.lake.serve.sides import SideState, sides
from penstock.lake.storage.tables import Tables
from penstock.runtime.streams import control
from penstock.runtime.streams.links import linked, runs
from penstock.runtime.streams.paths import StreamPaths, read_json
from penstock.runtime.terminal.answer_tables import Wanted, show_found, show_revisions
from penstock.runtime.terminal.words import (
    at,
    count,
    head,
    pairs,
    put,
    share,
    table,
)


def show_answers(
    settings: Settings,
    pipeline: Pipeline,
    steps: Sequence[StepSpec],
    wanted: Wanted,
    out: Console,
) -> None:
    """Show steps of a pipeline."""
    tables = Tables(settings.lake_uri, pipeline.log)
    out.print(Text.assemble((pipeline.name, "bold"), f"  {pipeline.description}"))
    audit = read_json(settings.docs / pipeline.name / "latest.json")
    folder = settings.docs / pipeline.name
    rows = [("stream", _stream(settings, pipeline)), ("audit", _audit(audit, folder))]
    if (gone := frozen(tables)).seq >= 0:
        farther = (step for step in pipeline.specs if step.lag)
        later = [f", of {s.name} before {at(instant(gone.begin_of(s)))}" for s in farther]
        said = f"windows before {at(instant(gone.window_from))}{''.join(later)}: the records up to"
        rows.append(("frozen", Text(f"{said} number {gone.seq:,} have gone, their answers stay")))
    rows += [(f"load {side.name}", _side(side)) for side in sides(tables, pipeline)]
    rows += [("above", _above(*found)) for found in waits_above(tables, pipeline)]
    rows += [("above", _owed(*found)) for found in owed_above(tables, pipeline)]
    out.print(pairs(*rows))
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
            show_revisions(tables, shown, pipeline, wanted, out)
        elif shown is not None or state is not None:
            definition = step if shown is None else shown.step
            limit = wanted.limit_of(definition)
            found = answers(tables, shown, pipeline, wanted.keys, limit)
            show_found(found, definition, wanted, out)
        if state is not None:
            _show_balance(state, shows.last_audit(tables, step), step, out)


def _side(side: SideState) -> Text:
    if side.rows is None:
        return Text("nothing of it has been taken yet", style="yellow")
    since = f" from number {side.first:,} on" if side.first else ""
    versions = f" (version {side.versions})" if side.versions > 1 else ""
    said = Text(f"{count(side.rows, 'row')} hold{since}{versions}")
    if side.refused:
        said.append(f"; what its files hold now is not taken: {side.refused}", style="red")
    return said


def _stream(settings: Settings, pipeline: Pipeline) -> Text:
    paths = StreamPaths(settings.streams, pipeline.log)
    known = control.status(paths)
    if known.alive and not runs(paths, pipeline.name):
        others = ", ".join(linked(paths))
        return Text(f"does not run; its log goes on for {others}", style="yellow")
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
        first = f"the DAG preload__{name} for its history, then " if pipeline.histories else ""
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
    if not control.status(StreamPaths(settings.streams, pipeline.log)).alive:
        return (
            "  It has begun, and nothing is sealed yet; its stream does not run. What it says of a"
            f" history can be read with what comes first. Next: {start}."
        )
    log = settings.logs / "streams" / f"{pipeline.log}.log"
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
        closed = "" if step.by_key else ": every window is closed"
        watermark = f"the source has ended{closed}"
    elif mark <= BEGINNING:
        watermark = "no record seen yet"
    elif not step.by_key:
        watermark = f"{at(instant(mark))}: windows that end by then are answered"
    elif step.only_adds:
        watermark = f"{at(instant(mark))}: what is older is late"
    else:
        watermark = at(instant(mark))
    if step.slack.policy is SlackPolicy.FIXED:
        policy = "fixed"
    elif step.slack.tuning is not None:
        policy = f"{step.slack.policy}, for {step.slack.tuning.threshold:.2%} of a window"
    else:
        policy = f"greatest lateness so far, up to {spoken(step.slack.span)}"
    return pairs(
        *([("stream", ", ".join(step.streams))] if step.streams else []),
        ("sealed", sealed),
        ("watermark", watermark),
        *([("slack K", f"{spoken(state.fold.slack)} ({policy})")] if step.has_slack else []),
        *([("sheds", _shed(state, step))] if step.shed or (state.shed and not step.above) else []),
        ("pending", _pending(state, step, pipeline)),
        ("corrected", _corrected(state)),
        *([("excluded", _excluded(state.excluded))] if state.excluded.num_rows else []),
    )


def _above(pipeline: str, step: str, waiting: int) -> Text:
    """What waits of a step above."""
    if not waiting:
        return Text(f"no answer of {step} of {pipeline} waits for a correction")
    said = f"{count(waiting, 'answer')} of {step} wait for correct__{pipeline}, and with them what"
    return Text(f"{said} is made of them here", style="yellow")


def _owed(pipeline: str, step: str) -> Text:
    """What a step above has to do first."""
    said = f"{step} has not answered its past yet: nothing comes from it before correct__{pipeline}"
    return Text(f"{said} has run", style="yellow")


def _excluded(found: pa.Table) -> Text:
    first = found.slice(0, 1).to_pylist()[0]
    said = f"{count(found.num_rows, 'record')} on which the code fails, in no answer; the first,"
    return Text(f"{said} number {first['arrival_seq']:,}: {first['reason']}", style="yellow")


def _shed(state: StepState, step: StepSpec) -> str | Text:
    """What is shed now, and what may be."""
    may = "" if step.shed is None else f", of at most {step.shed.base:.0%}"
    if not state.shed:
        return f"nothing now{may}"
    return Text(f"{state.shed} % of the records now{may}: the stream is behind", style="yellow")


def _pending(state: StepState, step: StepSpec, pipeline: Pipeline) -> Text:
    waited = "late record" if step.only_adds else "answer"
    waits = [count(state.pending, waited)] if state.pending else []
    if state.owes:
        waits.append("the answers of all windows from before its start")
    if not waits:
        return Text("no answer waits for a correction")
    said = f"{' and '.join(waits)} wait for {corrected_by(pipeline.name)}"
    return Text(said, style="yellow")


def corrected_by(name: str) -> str:
    """The DAG that corrects a pipeline; a version has none of its own."""
    return "apply__topology, or for it to be in force" if which_of(name) else f"correct__{name}"


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


def _show_balance(
    state: StepState, audit: Mapping[str, Any] | None, step: StepSpec, out: Console
) -> None:
    found = state.balance
    shown = table("nothing is lost", "number", "=", "where it went", right=("number",))
    good = found.received == found.accepted + found.quarantined
    parts = f"{found.accepted:,} accepted + {found.quarantined:,} quarantined"
    shown.add_row("records received", f"{found.received:,}", _sign(good), parts)
    for stream, (accepted, refused) in state.streams.items():
        parts = f"{accepted:,} accepted + {refused:,} quarantined"
        shown.add_row(f"of stream {stream}", f"{accepted + refused:,}", Text("="), parts)
    names = {"on time": found.on_time, "late": found.late}
    if found.shed or step.shed is not None:
        names[step.withheld] = found.shed
    names |= {"open": found.open, "preloaded": found.preloaded}
    if found.excluded:
        names["excluded"] = found.excluded
    parts = " + ".join(f"{n:,} {name}" for name, n in names.items())
    counted = "records" if step.by_key else "(record, window) pairs"
    shown.add_row(counted, f"{found.pairs:,}", Text("="), parts)
    if state.compared is not None:
        looked, told = state.compared
        said = f"candidates compared, of which {share(told, looked)} are pairs"
        shown.add_row("of the last records", f"{looked:,}", Text(""), said)
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
