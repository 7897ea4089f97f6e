"""Embedded mode: ``up`` starts or joins the one instance of a home, ``down`` ends it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import httpx
from rich.console import Console
from rich.markup import escape

from penstock.config.settings import Settings
from penstock.core.clock import SystemClock
from penstock.core.errors import ConfigError, TransientError
from penstock.runtime.embedded import privacy, probe
from penstock.runtime.embedded.airflow_environment import passwords_file, project_environment
from penstock.runtime.embedded.checks import check_home, check_start
from penstock.runtime.embedded.instance import Instance, InstanceState
from penstock.runtime.embedded.leftovers import end_left_overs
from penstock.runtime.embedded.logfiles import tail
from penstock.runtime.embedded.processes import identify, send, wait_until_gone

START_LIMIT = timedelta(seconds=300)
_STOP_LIMIT = timedelta(seconds=90)
_STREAM_SECONDS = 60.0  # a running micro-batch may end
_LOCK_SECONDS = 100.0  # a stop that is under way ends within it
_POLL_SECONDS = 0.25
_QUIET_SECONDS = 3.0  # no new DAG for so long: all files are parsed
_SETTLED = timedelta(minutes=2)  # joined so long after its start: every file was parsed
_HOPELESS_FAILURES = 3  # in a row
_TOKEN_TRIES = 20  # a busy server may not answer in time
_launched: list["subprocess.Popen[bytes]"] = []  # kept: the supervisor outlives its Popen object


def up(settings: Settings, console: Console, *, limit: timedelta = START_LIMIT) -> InstanceState:
    """Start embedded mode and wait until it is healthy; join it when it runs already.

    Args:
        settings: Where and on which port.
        console: For the progress.
        limit: How long to wait for health.

    Returns:
        The state of the healthy instance.

    Raises:
        ConfigError: The machine does not allow a start; nothing was started.
        TransientError: It did not become healthy; nothing is left running.
    """
    refuse_elsewhere(settings)
    settings = anchored(settings)
    os.umask(privacy.OWNER_ONLY)  # and of all that this starts
    instance = Instance(settings.home)
    started = False
    with console.status("looking for a running instance") as spinner:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            state = instance.read()
            if state is not None and state.lives and state.phase in {"starting", "running"}:
                break
            if started := _launch_if_free(settings, instance, console):
                break
            if time.monotonic() > deadline:
                raise TransientError("another start or stop goes on for long. See: penstock status")
            time.sleep(_POLL_SECONDS)
        try:
            state = _wait_healthy(settings, instance, console, limit)
        except TransientError:
            if started:
                spinner.update("the start failed: stopping what was started")
                _stop_supervisor(instance)
            raise
    console.print(
        "[green]Penstock is up.[/]" if started else "[green]Penstock is running already.[/]"
    )
    return state


def down(settings: Settings, console: Console) -> list[str]:
    """Stop everything in order: Airflow, PostgreSQL, stream hosts; safe at any moment.

    Returns:
        What was stopped; empty when nothing ran.

    Raises:
        ConfigError: Airflow is not run by embedded mode.
        TransientError: Another start or stop is under way and does not end.
    """
    refuse_elsewhere(settings)
    settings = anchored(settings)
    instance = Instance(settings.home)
    if not instance.folder.exists():
        return []
    stopped: list[str] = []
    with console.status("stopping Airflow and PostgreSQL") as spinner:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            if _stop_supervisor(instance):
                stopped = ["Airflow", "PostgreSQL"]
            with instance.locked() as lock:
                if lock is not None:
                    left = end_left_overs(settings, instance)
                    if left:
                        stopped.append(f"left-over processes ({', '.join(left)})")
                    spinner.update("stopping stream hosts")
                    stopped += _stop_streams(settings.streams, console)
                    return stopped
            if time.monotonic() > deadline:
                raise TransientError("another start or stop goes on for long. Try again later.")
            time.sleep(_POLL_SECONDS)


def refuse_elsewhere(settings: Settings) -> None:
    """Embedded mode starts and stops no Airflow but its own.

    Raises:
        ConfigError: the settings name another one.
    """
    if settings.airflow_url:
        raise ConfigError(
            f"Airflow runs at {settings.airflow_url}, not in embedded mode: start and stop it where"
            " it runs (docker compose up -d, docker compose down), or unset PENSTOCK_AIRFLOW_URL"
        )


def passwords(settings: Settings) -> dict[str, str]:
    """Password of each user; empty before the first start."""
    try:
        found: dict[str, str] = json.loads(passwords_file(anchored(settings)).read_text())
    except FileNotFoundError:
        return {}
    return found


def password(settings: Settings, user: str) -> str:
    """Password of one user.

    Raises:
        ConfigError: it stands nowhere here.
    """
    found = passwords(settings).get(user)
    if found is None:
        file = passwords_file(anchored(settings))
        raise ConfigError(f"{file} holds no password of {user}. The first start writes it")
    return found


def anchored(settings: Settings) -> Settings:
    """The settings with absolute paths: child processes work in other folders."""
    paths = {name: value for name, value in settings if isinstance(value, Path)}
    return settings.model_copy(
        update={name: path.expanduser().resolve() for name, path in paths.items()}
    )


def _launch_if_free(settings: Settings, instance: Instance, console: Console) -> bool:
    """Clear up, check and launch the supervisor, all under one lock; False: another has it."""
    check_home(settings.home)
    with instance.locked() as lock:
        if lock is None:
            return False
        left = end_left_overs(settings, instance)
        if left:
            console.print(f"ended what a killed supervisor had left: {', '.join(left)}")
        check_start(settings)
        settings.logs.mkdir(parents=True, exist_ok=True)
        with (settings.logs / "supervisor.out").open("wb") as output:
            process = subprocess.Popen(
                (sys.executable, "-m", "penstock.runtime.embedded.supervisor", str(lock)),
                env=project_environment(settings),
                cwd=settings.home,
                pass_fds=(lock,),  # the lock goes over to it without a gap
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _launched.append(process)
        _wait_for_first_state(settings, instance, process)
        return True


def _wait_for_first_state(
    settings: Settings, instance: Instance, process: "subprocess.Popen[bytes]"
) -> None:
    while True:
        state = instance.read()
        if state is not None and state.supervisor == identify(process.pid):
            return
        if process.poll() is not None and (state is None or state.supervisor.pid != process.pid):
            said = tail(settings.logs / "supervisor.out", 15)
            raise TransientError(f"the supervisor ended at once:\n{said}")
        if process.poll() is not None:
            return  # it has told why: _wait_healthy reports it
        time.sleep(0.05)


def _wait_healthy(
    settings: Settings, instance: Instance, console: Console, limit: timedelta
) -> InstanceState:
    begun = time.monotonic()
    for milestone in _milestones(settings, instance, console):
        if milestone:
            console.print(f"  [green]✓[/] {milestone} [dim]{time.monotonic() - begun:.0f} s[/]")
        if time.monotonic() - begun > limit.total_seconds():
            raise TransientError(
                f"Airflow was not healthy within {limit.total_seconds():.0f} s."
                f" Its logs are in {settings.logs}"
            )
        time.sleep(_POLL_SECONDS)
    return _living(settings, instance)


def _milestones(settings: Settings, instance: Instance, console: Console) -> Iterator[str]:
    """What has been reached since the last call, or an empty string; ends when all is healthy."""
    while (state := _living(settings, instance)).detail == "starting PostgreSQL":
        yield ""
    yield "PostgreSQL"
    while (state := _living(settings, instance)).phase == "starting":
        yield ""
    yield "Airflow's database"
    since = datetime.fromisoformat(state.since)
    healthy: set[str] = set()
    while len(healthy) < len(probe.COMPONENTS):
        _living(settings, instance)
        answer = probe.health(state.url, since)
        if answer and "metadatabase" not in healthy:
            yield "user interface"
        fresh = {name for name, good in answer.items() if good} - healthy
        healthy |= fresh
        for name in sorted(fresh - {"metadatabase"}):
            yield name.replace("_", " ")
        if not fresh:
            yield ""
    yield from _parsing(settings, state.url, since, console)


def _parsing(settings: Settings, url: str, since: datetime, console: Console) -> Iterator[str]:
    files = {path.name for path in (settings.root / "dags").glob("*.py")}
    if not files:
        return
    bearer = yield from _token(settings, url)
    seen = probe.Parsed(frozenset(), frozenset(), ())
    changed = time.monotonic()
    long_up = SystemClock().now() - since > _SETTLED
    while True:
        try:
            now = probe.parsed(url, bearer, since)
        except httpx.HTTPError:  # busy for a moment; else the start's limit ends this
            _living(settings, Instance(settings.home))
            yield ""
            continue
        if (now.dags, now.files) != (seen.dags, seen.files):
            seen, changed = now, time.monotonic()
        quiet = long_up or time.monotonic() - changed > _QUIET_SECONDS
        if files <= {Path(name).name for name in seen.files} or (quiet and seen.files):
            break
        yield ""
    for file, said in seen.errors:
        console.print(f"  [red]✗[/] {file}: {escape(said)}", highlight=False)
    yield f"{len(seen.dags)} DAGs parsed"


def _token(settings: Settings, url: str) -> Generator[str, None, str]:
    password = passwords(settings).get("admin", "")
    for _ in range(_TOKEN_TRIES):
        if bearer := probe.token(url, "admin", password):
            return bearer
        yield ""
    raise TransientError(
        f"the user interface does not take admin's password in {passwords_file(settings)}."
        " Was the file edited? Then: make down, make up"
    )


def _living(settings: Settings, instance: Instance) -> InstanceState:
    """The state of a start that may still succeed.

    Raises:
        TransientError: It failed.
    """
    state = instance.read()
    if state is not None and state.phase == "failed":
        raise TransientError(f"the start failed: {state.detail}")
    if state is None or not state.lives or state.phase in {"stopping", "stopped"}:
        raise TransientError(
            f"the supervisor has ended; by make down? See {settings.logs / 'supervisor.log'}"
        )
    for process in state.processes:
        if process.status == "waiting" and process.failures >= _HOPELESS_FAILURES:
            raise TransientError(
                f"{process.name} dies again and again (last exit code {process.exit_code});"
                f" its last lines:\n{tail(Path(process.log), 15)}\nAll of it: {process.log}"
            )
    return state


def _stop_supervisor(instance: Instance) -> bool:
    """Ask the supervisor to stop all and wait; True when there was one."""
    state = instance.read()
    if state is None or not state.lives:
        return False
    send(state.supervisor.pid, signal.SIGTERM)
    if not wait_until_gone(state.supervisor, _STOP_LIMIT):
        send(state.supervisor.pid, signal.SIGKILL)  # its children are left-overs now
        wait_until_gone(state.supervisor, _STOP_LIMIT)
    return True


def _stop_streams(folder: Path, console: Console) -> list[str]:
    from penstock.runtime.streams import control
    from penstock.runtime.streams.paths import StreamPaths

    names = control.names(folder)
    alive = [name for name in names if control.status(StreamPaths(folder, name)).alive]
    for name in control.stop_all(folder, _STREAM_SECONDS) if alive else []:
        console.print(f"stream {name} had to be killed; it goes on from its last sealed position")
    return [f"stream {name}" for name in alive]
