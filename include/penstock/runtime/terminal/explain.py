"""Prints what ``penstock explain`` says."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from penstock.config.answers import OverAnswers
from penstock.config.catalog import others_of
from penstock.config.guest import Guest
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.config.slack import USUAL, Quality
from penstock.control.explain import explain
from penstock.control.explanation import Explanation, PlacePlan
from penstock.control.spoken import spoken
from penstock.core.errors import ConfigError
from penstock.core.step import StepSpec
from penstock.core.version import pipeline_of
from penstock.core.window import instant
from penstock.lake.ingest import notices
from penstock.lake.ingest import sample as samples
from penstock.lake.ingest.sample import Queue, Sample, SlackEffect
from penstock.lake.proof.foreseen import foreseen
from penstock.lake.proof.sampled import sampled
from penstock.lake.proof.worth import Worth
from penstock.lake.storage.tables import Tables
from penstock.runtime.terminal.explain_over import show_over
from penstock.runtime.terminal.explain_step import (
    show_alternatives,
    show_doubts,
    show_effect,
    show_slack,
    show_step,
)
from penstock.runtime.terminal.words import at, count, head, pairs, put, share, table


@contextmanager
def _shown() -> Iterator[None]:
    """What is odd about files stands in what is shown; the log would say it once more."""
    notices.log.disabled = True
    try:
        yield
    finally:
        notices.log.disabled = False


@_shown()
def show_explanation(settings: Settings, pipeline: Pipeline, now: datetime, out: Console) -> None:
    """Explain a pipeline on its file and on the first records of its source.

    Raises:
        ConfigError: the source cannot be listed.
    """
    tables, plans = Tables(settings.lake_uri, pipeline.log), list[Explanation]()
    if isinstance(pipeline, OverAnswers):
        plans.append(explain(pipeline, settings, now))
        _show_title(plans[0], pipeline, out)
        show_over(pipeline, plans[0], out)
    for stream in () if plans else pipeline.intakes:
        plans.append(_show_stream(settings, pipeline, stream, now, out, is_first=not plans))
    _show_tables(tables, pipeline, out)
    _show_dags(plans[0], now, out)


def _show_stream(
    settings: Settings, pipeline: Pipeline, stream: str, now: datetime, out: Console,
    *, is_first: bool,
) -> Explanation:  # fmt: skip
    """Of one stream, or the only one, with the steps over it; the first is below the title."""
    tables, intake = Tables(settings.lake_uri, pipeline.log), pipeline.intakes[stream]
    whose = file_of_log(pipeline)
    try:
        queue = samples.queue(intake.source, settings.home, tables, "live", stream)
        sample = samples.read_sample(pipeline, settings.home, now, stream=stream)
    except OSError as wrong:
        raise ConfigError(
            f"{pipeline.name}: its source cannot be listed: {wrong}. Check source in"
            f" {whose}, and that you may read there."
        ) from wrong
    example = instant(int(sample.times[0])) if len(sample.times) else None
    plan = explain(pipeline, settings, now, example, stream)
    if is_first:
        _show_title(plan, pipeline, out)
    head(f"Source {stream}".rstrip(), out)
    if pipeline.log != pipeline_of(pipeline.name):
        said = f"that of {pipeline.log}: {whose} says what its records are, and their columns"
        out.print(pairs(("log", said)))
    out.print(_place(plan.source, queue))
    if plan.history is not None and intake.history is not None:
        head(f"History {stream}".rstrip(), out)
        waiting = samples.queue(intake.history, settings.home, tables, "history", stream)
        out.print(_place(plan.history, waiting))
    _show_records(plan, out)
    _show_sample(sample, stream, out)
    for step in plan.steps:
        spec = pipeline.spec(step.name)
        show_step(step, out)
        show_slack(step, plan, out)
        if len(sample.times) and not step.compares:
            quality, effect = pipeline.steps[spec.name].quality, samples.effect(sample, spec)
            own = effect, sampled(sample, spec, effect, quality)
            show_effect(step, plan, *own, out)
            show_doubts(foreseen(tables, pipeline, spec, sample, effect.controller), out)
            show_alternatives(own, _others(sample, spec, quality), out)
    return plan


def file_of_log(pipeline: Pipeline) -> Path:
    """The file that says what the records of its log are."""
    while isinstance(pipeline, Guest):
        pipeline = pipeline.other
    return pipeline.path


def _others(
    sample: Sample, step: StepSpec, quality: Quality | None
) -> dict[str, tuple[SlackEffect, Worth]]:
    """Other slacks on the sample: what they do to its records, cost and bring."""
    every = samples.alternatives(sample, step) | samples.policies(sample, step, quality or USUAL)
    return {said: (one, sampled(sample, step, one, quality)) for said, one in every.items()}


def _show_title(plan: Explanation, pipeline: Pipeline, out: Console) -> None:
    out.print(Text.assemble((plan.name, "bold"), f"  {plan.description}"))
    out.print(Text(f"{plan.file}, content {plan.digest}", style="dim"))
    if others := others_of(pipeline):
        said = ", ".join(f"{each.name} ({', '.join(each.steps)})" for each in others)
        out.print(f"The file is these pipelines, too: {said}", highlight=False)


def _place(place: PlacePlan, queue: Queue) -> Table:
    more = "more than " if queue.more else ""
    if queue.away:
        waiting = Text(f"not known, the source cannot be read: {queue.away}", style="red")
    elif not queue.files:
        waiting = Text("no file is there yet", style="yellow")
    elif not queue.waiting:
        waiting = Text(f"none: all of {count(queue.files, 'file')} taken in already")
    else:
        waiting = Text(f"{more}{queue.waiting:,} of {more}{count(queue.files, 'file')}")
    said = [
        ("where", place.uri),
        ("format", f"{place.format}, {place.order}"),
        ("end", place.ending),
        ("waiting", waiting),
    ]
    if queue.changed:
        text = (
            f"{count(len(queue.changed), 'file')} after being taken, not read again; the first:"
            f" {queue.changed[0]}. penstock accept settles it"
        )
        said.append(("changed", Text(text, style="yellow")))
    if queue.gone:
        text = (
            f"{count(queue.gone, 'file')} that were taken, with all else in their folders: if"
            " something was mounted there, mount it again; if not, penstock accept settles it"
        )
        said.append(("gone", Text(text, style="yellow")))
    for what, names in queue.notices.items():
        text = f"{what}: {count(len(names), 'name')}, the first {min(names)}"
        said.append(("note", Text(text, style="yellow")))
    return pairs(*said)


def _show_records(plan: Explanation, out: Console) -> None:
    head(f"Records {plan.stream}".rstrip(), out)
    rows = [
        ("event time", f"column {plan.event_time}; without a zone it is read as {plan.zone}"),
        ("arrival", plan.arrival_time),
        ("kept", plan.kept),
    ]
    if plan.clock_changes:
        rows.append(("clocks", plan.clock_changes))
    out.print(pairs(*rows))
    shown = table("column", "type", "in the source", "used by")
    for column in plan.columns:
        shown.add_row(
            column.name, column.type, column.source, ", ".join(column.used_by) or "no step here"
        )
    put(shown, out)
    said = (
        "Other columns are kept, too: in undeclared, or as JSON in extra. A record is refused for"
        " one of these reasons, and kept in quarantine; being late is none of them:"
    )
    out.print(Padding(said, (0, 0, 0, 2), expand=False))
    rules = table("reason", "when")
    for reason, when in plan.refused:
        rules.add_row(reason, when)
    put(rules, out)


def _show_sample(sample: Sample, stream: str, out: Console) -> None:
    head(f"Disorder {stream}".rstrip(), out)
    if not sample.received:
        out.print("  The source has no record yet; explain again when it has.")
        return
    refused = ", ".join(f"{n:,} {reason}" for reason, n in sorted(sample.refused.items()))
    accepted = len(sample.times)
    behind = ", ".join(
        f"{said} {spoken(sample.lateness_at(q))}"
        for said, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("greatest", 1.0))
    )
    out.print(
        pairs(
            (
                "sample",
                f"the first {count(sample.received, 'record')} in the order of arrival"
                f" ({count(sample.files, 'file')})",
            ),
            ("accepted", f"{accepted:,}" + (f"; refused: {refused}" if refused else ", all")),
            (
                "out of order",
                f"{share(int((sample.lateness > 0).sum()), accepted)} have an event time before"
                " the newest one seen",
            ),
            ("lateness", f"{behind} behind the newest event time"),
        )
    )


def _show_tables(tables: Tables, pipeline: Pipeline, out: Console) -> None:
    head("Tables (Delta)", out)
    base = tables.uri()
    out.print(Text(f"  all below {base}"), soft_wrap=True)
    rows = [
        (tables.uri("events"), "accepted records"),
        (tables.uri("quarantine"), "refused records with their reason"),
        (tables.uri("blocks"), "sealed blocks of the log"),
        (tables.uri("corrections"), "plans of corrections, and which are done"),
        (tables.uri("audits"), "what each audit compared and found"),
        (tables.uri("freezes"), "up to where the log is closed for good"),
        (tables.uri("pipelines"), "which pipelines are linked to the log's stream"),
        (tables.uri("steps"), "each run of a step: its definition, and whether it runs"),
        (tables.uri("tasks"), "the tasks of each run"),
        (tables.uri("shares"), "which run answers for a step of a pipeline"),
        (tables.uri("rescalings"), "what was decided about the number of tasks, and why"),
    ]
    for step in pipeline.specs:
        rows.append((tables.answers(step).uri, "answers, every revision"))
        rows.append((tables.late(step, []).uri, "what missed its answer"))
        rows.append((tables.control(step).uri, "sealed micro-batches"))
        rows.append((tables.coverage(step).uri, "how much of each window was there in time"))
    shown = table("table", "holds")
    for uri, holds in rows:
        shown.add_row(uri.removeprefix(f"{base}/"), holds)
    put(shown, out)


def _show_dags(plan: Explanation, now: datetime, out: Console) -> None:
    head("DAGs in Airflow", out)
    shown = table("DAG", "what it does", "runs (UTC)", "next (UTC)")
    for dag in plan.dags:
        due = "" if dag.next is None else f"{at(dag.next)}, in {spoken(dag.next - now)}"
        shown.add_row(dag.dag, dag.does, dag.schedule, due)
    put(shown, out)
    out.print(f"  Next: penstock up, then see the answers with penstock show {plan.name}")
