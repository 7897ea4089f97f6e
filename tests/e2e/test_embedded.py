"""Embedded mode with its real processes: PostgreSQL and Airflow's four."""

import os
import signal
import socket
from datetime import datetime
from pathlib import Path

import pytest

from penstock.runtime.containers import health
from penstock.runtime.embedded import probe
from penstock.runtime.embedded.leftovers import left_over
from penstock.runtime.embedded.postgres import Postgres
from penstock.runtime.embedded.processes import is_alive
from tests.e2e.running import Embedded, eventually

pytestmark = pytest.mark.e2e
PROCESSES = ["postgres", "api-server", "scheduler", "dag-processor", "triggerer"]


def is_open(file: Path) -> bool:
    """Whether others have any right to it; a file may be gone by now."""
    try:
        return bool(file.lstat().st_mode & 0o077) and not file.is_symlink()
    except FileNotFoundError:
        return False


def test_up_ends_when_all_is_healthy_and_private(embedded: Embedded) -> None:
    assert list(embedded.processes()) == PROCESSES
    assert embedded.is_healthy(datetime.fromisoformat(embedded.state.since))
    known = embedded.password
    assert probe.token(embedded.state.url, "admin", known["admin"])
    assert probe.token(embedded.state.url, "viewer", known["viewer"])
    assert probe.token(embedded.state.url, "admin", "wrong") is None
    home = embedded.settings.home
    assert home.stat().st_mode & 0o067 == 0, "the group's x may be the mask of an access list"
    given = home / "rides"  # the source's files are their writer's
    made = [file for file in home.rglob("*") if given not in (file, *file.parents)]
    assert home / "lake" in made
    assert [file for file in made if is_open(file)] == []


def test_the_dags_of_the_project_are_parsed(embedded: Embedded) -> None:
    since = datetime.fromisoformat(embedded.state.since)
    bearer = probe.token(embedded.state.url, "admin", embedded.password["admin"])
    parsed = probe.parsed(embedded.state.url, bearer or "", since)
    assert "stream__flights" in parsed.dags
    assert parsed.errors == ()


def test_what_containers_ask_for_their_health_is_answered(
    embedded: Embedded, capsys: pytest.CaptureFixture[str]
) -> None:
    sockets = str(Postgres(embedded.settings.postgres).socket_folder)
    host = socket.gethostname()
    assert health.main("database", sockets) == 0
    assert health.main("page", f"{embedded.state.url}/api/v2/monitor/health") == 0
    for job in ("SchedulerJob", "DagProcessorJob", "TriggererJob"):
        assert health.main("heartbeat", sockets, job, host) == 0
    assert health.main("heartbeat", sockets, "SchedulerJob", "another") == 1
    assert health.main("page", f"{embedded.state.url}/api/v2/nowhere") == 1
    assert health.main("database", "/nowhere") == 1
    assert "has not begun" in capsys.readouterr().out


def test_a_second_up_joins_the_first(embedded: Embedded) -> None:
    before = embedded.processes()
    done = embedded.call("up")
    assert done.returncode == 0
    assert "running already" in done.stdout
    assert embedded.state.url in done.stdout
    assert embedded.processes() == before


def test_status_shows_every_process(embedded: Embedded) -> None:
    done = embedded.call("status")
    assert done.returncode == 0
    for name in ["supervisor", *PROCESSES]:
        assert name in done.stdout


@pytest.mark.parametrize("name", ["scheduler", "postgres"])
def test_a_killed_process_is_restarted(embedded: Embedded, name: str) -> None:
    killed = embedded.processes()[name]
    os.kill(killed.pid, signal.SIGKILL)
    assert eventually(lambda: embedded.processes().get(name, killed) != killed)
    after = next(p.since for p in embedded.state.processes if p.name == name)
    assert eventually(lambda: embedded.is_healthy(datetime.fromisoformat(after)))


@pytest.mark.all
def test_a_process_that_hangs_is_restarted(embedded: Embedded) -> None:
    hangs = embedded.processes()["scheduler"]
    os.kill(hangs.pid, signal.SIGSTOP)
    assert eventually(lambda: embedded.processes().get("scheduler", hangs) != hangs)
    assert not is_alive(hangs)
    after = next(p.since for p in embedded.state.processes if p.name == "scheduler")
    assert eventually(lambda: embedded.is_healthy(datetime.fromisoformat(after)))
    assert "hangs, killed name=scheduler" in (
        embedded.settings.logs / "supervisor.log"
    ).read_text()  # fmt: skip


def test_all_logs_are_in_one_place(embedded: Embedded) -> None:
    logs = {path.name for path in embedded.settings.logs.glob("*.log")}
    assert {f"{name}.log" for name in ["supervisor", *PROCESSES]} <= logs


@pytest.mark.all
def test_the_next_up_clears_away_what_a_killed_supervisor_left(embedded: Embedded) -> None:
    before = embedded.processes()
    os.kill(embedded.state.supervisor.pid, signal.SIGKILL)
    assert eventually(lambda: set(left_over(embedded.instance)) == set(PROCESSES))
    assert "was killed" in embedded.call("status").stdout
    done = embedded.call("up")
    assert done.returncode == 0, done.stderr
    assert not any(is_alive(process) for process in before.values())
    assert list(embedded.processes()) == PROCESSES


def test_down_leaves_nothing_and_can_be_repeated(embedded: Embedded) -> None:
    before = embedded.processes()
    done = embedded.call("down")
    assert done.returncode == 0, done.stderr
    assert "Stopped" in done.stdout
    assert not any(is_alive(process) for process in before.values())
    assert not (Path(embedded.settings.postgres) / "postmaster.pid").exists()
    assert "Nothing runs" in embedded.call("down").stdout
    assert embedded.call("status").returncode == 1
