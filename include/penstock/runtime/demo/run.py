"""``penstock demo``: the whole loop on the flights of 2013, through Airflow, and what came out."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from penstock.config.catalog import Catalog
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.runtime.demo import closing, product
from penstock.runtime.demo.airflow import UNFINISHED, Airflow, DagRun
from penstock.runtime.demo.flights import FlightsSummary, write_flights
from penstock.runtime.demo.truth import Truth, Verdict
from penstock.runtime.embedded import lifecycle as embedded
from penstock.runtime.embedded import report
from penstock.runtime.embedded.airflow_environment import base_url
from penstock.runtime.terminal.progress import Look, stage
from penstock.runtime.terminal.words import console as terminal

PIPELINE = "flights"
POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One DAG's part of the loop.

    Attributes:
        dag: DAG.
        title: what it does, for people.
        progress: asked while it goes on; None: its tasks' states are all there is.
        fresh: only a run that was asked for after the stage before it had ended will do.
        log: where more is said than in Airflow's log.
    """

    dag: str
    title: str
    progress: Callable[[], Look] | None = None
    fresh: bool = False
    log: Path | None = None


def run_demo(settings: Settings, setup_seconds: float | None) -> int:
    """Bring everything up, run the loop, show what came out.

    Args:
        settings: where and on which port.
        setup_seconds: what set-up and downloads took before, to be told; None or 0: not known.

    Returns:
        Exit status: 0 if every answer is true and every record accounted for.

    Raises:
        PenstockError: something could not be started, or a run failed.
    """
    console = terminal()
    begun = time.monotonic()
    settings = embedded.anchored(settings)
    pipeline = shipped_pipeline(settings)
    flights = _prepare(settings, console)
    first = not embedded.passwords(settings)
    url = settings.airflow_url or embedded.up(settings, console).url
    logs = settings.logs / "airflow"
    airflow = Airflow(url, ("admin", embedded.password(settings, "admin")), logs)
    stages, ended = _stages(settings, pipeline, flights), ""
    # An audit between two stages would only take the machine from the next one.
    with airflow.resting([part.dag for part in stages]):
        for part in stages:
            ended = _run(airflow, part, ended, console)
    good = _close(settings, pipeline, flights, console)
    report.show_entrance(settings, base_url(settings), console, first=first)
    _show_times(setup_seconds, time.monotonic() - begun, console)
    return 0 if good else 1


def shipped_pipeline(settings: Settings) -> Pipeline:
    """The demo's pipeline.

    Raises:
        ConfigError: its file is missing or has problems.
    """
    catalog = Catalog.read(settings.pipelines)
    ours = [str(problem) for problem in catalog.errors if problem.path.stem == PIPELINE]
    if ours:
        raise ConfigError("\n".join(["the demo's pipeline file has problems:", *ours]))
    return catalog.pipeline(PIPELINE)


def _prepare(settings: Settings, console: Console) -> FlightsSummary:
    with stage(console, "Flights of 2013") as show:
        flights = write_flights(settings.home / "demo" / "flights")
        late = 100 * flights.late_rows / flights.rows
        there = "" if flights.written else ", were there already"
        show(
            Look(
                f"{flights.rows:,} sightings of aircraft, {late:.0f} % arrive late;"
                f" {flights.history_rows:,} history, {flights.live_rows:,} live{there}"
            ),
            last=True,
        )
    return flights


def _stages(settings: Settings, pipeline: Pipeline, flights: FlightsSummary) -> tuple[Stage, ...]:
    name = pipeline.name
    return (
        Stage(
            f"preload__{name}",
            "Preload the history",
            lambda: product.preload_progress(settings, pipeline, flights.history_rows),
        ),
        Stage(
            f"stream__{name}",
            "Stream the live part",
            lambda: product.stream_progress(settings, pipeline, flights.live_rows),
            log=settings.logs / "streams" / f"{name}.log",
        ),
        Stage(f"correct__{name}", "Correct what late records changed", fresh=True),
        Stage(f"audit__{name}", "Audit: recompute everything another way", fresh=True),
    )


def _run(airflow: Airflow, part: Stage, since: str, console: Console) -> str:
    """Run one DAG to its end.

    Args:
        airflow: where.
        part: which.
        since: when the stage before it ended, as Airflow says it.
        console: for the progress.

    Returns:
        When it ended, as Airflow says it.

    Raises:
        RunFailedError: it failed.
    """
    before = part.progress() if part.progress else None
    with stage(console, f"{part.title} ({part.dag})") as show:
        run = airflow.start(part.dag, since if part.fresh else "", by_itself=part.fresh)
        while run.state in UNFINISHED:
            works = part.progress is not None and run.state == "running"
            show(part.progress() if part.progress and works else Look(run.said))
            time.sleep(POLL_SECONDS)
            run = airflow.look(run)
        if run.state != "success":
            raise airflow.failure(run, part.log)
        show(_result(airflow, part, run, before), last=True)
    return run.ended


def _result(airflow: Airflow, part: Stage, run: DagRun, before: Look | None) -> Look:
    """What a run did: as its job says, or by how far its tables are now."""
    outcome = airflow.outcome(run)
    if outcome or part.progress is None:
        return Look(product.said_of(part.dag.partition("__")[0], outcome))
    after = part.progress()
    return Look(f"nothing was left to do: {after.said}") if after == before else after


def _close(
    settings: Settings, pipeline: Pipeline, flights: FlightsSummary, console: Console
) -> bool:
    """Show what came out; whether all of it is true."""
    folder = flights.folder
    files = [path for part in ("history", "live") for path in (folder / part).glob("*.parquet")]
    accounts, verdicts = [], []
    with stage(console, "Compare with DuckDB over the raw files") as show:
        truth = Truth(pipeline, sorted(files), settings.home)
        raw = truth.records()
        for step in pipeline.specs:
            show(Look(step.name))
            first = product.first(settings, pipeline, step)
            verdict = truth.judge(step, first, product.in_force(settings, pipeline, step))
            verdicts.append(verdict)
            accounts.append(product.account(settings, pipeline, step, verdict.pairs))
        truth.close()
        show(
            Look(f"{sum(v.windows for v in verdicts):,} windows and keys, every measure"), last=True
        )
    for verdict in verdicts:
        closing.show_examples(verdict, console)
    closing.show_verdicts(verdicts, console)
    closing.show_worths(product.worths(settings, pipeline), console)
    closing.show_accounts(accounts, raw, console)
    return _all_true(verdicts, accounts, raw, console)


def _all_true(
    verdicts: list[Verdict], accounts: list[product.Account], raw: int, console: Console
) -> bool:
    wrong = sum(verdict.wrong for verdict in verdicts)
    balanced = all(account.balanced and account.received == raw for account in accounts)
    if wrong:
        console.print(f"[red]{wrong:,} answers are not true.[/] See the audit's report.")
    if not balanced:
        console.print("[red]Records or pairs are lost or doubled.[/] See the audit's report.")
    if not wrong and balanced:
        console.print("[green]Every answer is true, and every record is accounted for.[/]")
    return not wrong and balanced


def _show_times(setup_seconds: float | None, work_seconds: float, console: Console) -> None:
    setup = f"set-up and downloads {setup_seconds:.0f} s, " if setup_seconds else ""
    console.print(f"Times: {setup}work {work_seconds:.0f} s", highlight=False)
