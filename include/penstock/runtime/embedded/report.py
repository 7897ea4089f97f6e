"""What ``up``, ``down`` and ``status`` show."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from penstock.config.kept import catalog_in_force, put_out
from penstock.config.settings import Settings
from penstock.core.clock import Clock
from penstock.runtime.embedded import probe
from penstock.runtime.embedded.airflow_environment import base_url, passwords_file
from penstock.runtime.embedded.instance import Instance, InstanceState, ProcessState
from penstock.runtime.embedded.leftovers import left_over
from penstock.runtime.embedded.lifecycle import anchored, passwords
from penstock.runtime.embedded.processes import is_alive
from penstock.runtime.terminal.words import NARROW, put, table

_EVER = datetime.min.replace(tzinfo=UTC)
_COLOURS = {"running": "green", "waiting": "yellow", "wanted": "yellow", "dead": "red",
            "gave_up": "red", "starting": "yellow", "silent": "red", "failing": "red"}  # fmt: skip


def show_entrance(settings: Settings, url: str, console: Console, *, first: bool) -> None:
    """Where the user interface is, who may enter, how to stop.

    Args:
        settings: Of the instance.
        url: Of the user interface.
        console: Where to.
        first: Passwords are shown once, then only the file that holds them.
    """
    known = passwords(settings)
    lines = [f"user interface  [link={url}]{url}[/link]"]
    if first:
        lines += [f"user            {name}  password {word}" for name, word in known.items()]
    else:
        lines += [f"users           {', '.join(known)}"]
    lines += [
        f"passwords       {escape(str(passwords_file(anchored(settings))))}",
        f"logs            {escape(str(anchored(settings).logs))}",
    ]
    if not settings.airflow_url:
        lines.append("stop            make down")
    console.print(Panel.fit("\n".join(lines), title="Penstock"), highlight=False)


def show_stopped(stopped: list[str], console: Console) -> None:
    """What ``down`` has done."""
    if stopped:
        console.print(f"[green]Stopped:[/] {', '.join(stopped)}.")
    else:
        console.print("Nothing runs.")


def show_status(settings: Settings, clock: Clock, console: Console) -> bool:
    """Processes, health, streams, disk.

    Returns:
        Whether Airflow runs and all of it is healthy.
    """
    settings = anchored(settings)
    instance = Instance(settings.home)
    state = instance.read()
    healthy = False
    if settings.airflow_url:
        healthy = _show_health(settings, settings.airflow_url, _EVER, console)
    elif state is None or not state.lives:
        console.print("Embedded mode does not run. Start it: make up")
        _show_left_overs(instance, console)
    else:
        console.print(_process_table(state, clock))
        since = datetime.fromisoformat(state.since)
        healthy = _show_health(settings, state.url, since, console)
    _show_streams(settings.streams, clock, console)
    _show_problems(settings, console)
    _show_disk(settings.home, console)
    return healthy


def _process_table(state: InstanceState, clock: Clock) -> Table:
    table = Table(
        title=f"Embedded mode: {state.phase}" + (f", {state.detail}" * bool(state.detail))
    )
    for column in ("process", "pid", "state", "restarts", "up for", "log"):
        table.add_column(column, justify="right" if column in {"pid", "restarts"} else "left")
    up_for = _since(state.since, clock)
    table.add_row("supervisor", str(state.supervisor.pid), _coloured("running"), "", up_for, "")
    for process in state.processes:
        runs = process.identity is not None and is_alive(process.identity)
        table.add_row(
            process.name,
            str(process.identity.pid) if process.identity else "",
            _coloured(_status_of(process, runs=runs)),
            str(process.restarts),
            _since(process.since, clock) if runs else "",
            Path(process.log).name,
        )
    return table


def _status_of(process: ProcessState, *, runs: bool) -> str:
    if process.status == "running":
        return "running" if runs else "dead"  # for a moment: the supervisor restarts it
    return f"{process.status} (last exit code {process.exit_code})"


def _show_health(settings: Settings, url: str, since: datetime, console: Console) -> bool:
    answer = probe.health(url, since)
    words = [
        f"[{'green' if good else 'red'}]{name.replace('_', ' ')}"
        f" {'healthy' if good else 'not healthy'}[/]"
        for name, good in answer.items()
    ]
    console.print(f"Airflow   {', '.join(words) or '[red]does not answer[/]'}", soft_wrap=True)
    file = escape(str(passwords_file(settings)))
    console.print(f"URL       {base_url(settings)}  passwords in {file}", soft_wrap=True)
    console.print(f"logs      {escape(str(settings.logs))}", highlight=False, soft_wrap=True)
    return bool(answer) and all(answer.values())


def _show_left_overs(instance: Instance, console: Console) -> None:
    found = left_over(instance)
    if found:
        listed = ", ".join(f"{name} (pid {one.pid})" for name, one in found.items())
        console.print(
            f"[yellow]The supervisor was killed; still running: {listed}.[/]"
            " The next make up or make down ends them."
        )


def _show_problems(settings: Settings, console: Console) -> None:
    catalog = catalog_in_force(settings)
    for problem in catalog.errors:
        console.print(f"✗ {problem}", style="red", markup=False, highlight=False, soft_wrap=True)
    for name in sorted(catalog.standing_in | catalog.held):
        console.print(f"[yellow]{name}: {catalog.why_former(name)}.[/]", soft_wrap=True)
    for name, one in put_out(settings, catalog).items():
        said = f"{name} is not in force: {one.why}"
        console.print(said, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _show_streams(folder: Path, clock: Clock, console: Console) -> None:
    from penstock.runtime.streams import control
    from penstock.runtime.streams.paths import StreamPaths

    names = control.names(folder)
    if not names:
        return
    figures = ("pid", "restarts", "block", "records/s", "state MB")
    narrow = console.width < NARROW
    shown = table("log", "state", *figures, *["steps"] * (not narrow), right=figures,
                  title="Streams")  # fmt: skip
    for column in shown.columns:
        column.no_wrap = column.header not in {"log", "steps"}
    said: list[tuple[object, str, str]] = []
    for name in names:
        known = control.status(StreamPaths(folder, name), clock)
        driver = known.driver if known.alive else {}
        steps = ", ".join(sorted(driver.get("steps", {})))
        shown.add_row(
            name,
            _coloured(known.state),
            str(driver.get("pid", "")),
            str(known.said.get("restarts", "")),
            str(driver.get("block", "")),
            str(driver.get("records_per_second", "")),
            f"{driver['state_bytes'] / 1e6:.0f}" if "state_bytes" in driver else "",
            *[steps] * (not narrow),
        )
        colour = "red" if known.wrong else "yellow"
        said += [(narrow and steps and f"runs {steps}", name, ""),
                 (known.wrong or driver.get("waits_for"), name, colour),
                 (driver.get("changed"), name, "yellow")]  # fmt: skip
    put(shown, console)
    for what, name, style in said:
        if what:
            line = f"{name}: {what}"
            console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def _show_disk(home: Path, console: Console) -> None:
    place = next(folder for folder in (home, *home.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    console.print(
        f"disk      {free / 1e9:.1f} GB free at {escape(str(home))}",
        highlight=False,
        soft_wrap=True,
    )


def _since(instant: str, clock: Clock) -> str:
    if not instant:
        return ""
    lived = clock.now() - datetime.fromisoformat(instant)
    return str(timedelta(seconds=int(lived.total_seconds())))


def _coloured(state: str) -> str:
    colour = _COLOURS.get(state.split(" ", 1)[0])
    return f"[{colour}]{state}[/]" if colour else state
