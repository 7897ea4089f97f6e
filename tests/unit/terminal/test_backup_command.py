"""The commands backup and restore: what they say, and what they refuse."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.config.kept import catalog_in_force
from penstock.config.shares import Shares, changing, remember, shared, shares_of
from penstock.runtime.embedded.instance import Instance
from penstock.runtime.streams.paths import take_lock
from penstock.runtime.streams.processes import MARK

World = Any
Run = Callable[..., tuple[int, str, str]]


def test_a_lake_that_was_lost_comes_back(corrected: World, run: Run, tmp_path: Path) -> None:
    folder, lake = tmp_path / "backups", Path(corrected.settings.lake_uri)
    shown = run("show", "doors")
    status, said, _ = run("backup", str(folder))
    assert (status, "number 1" in said, "doors" in said) == (0, True, True)
    assert run("backup", str(folder))[1].count("0 files, 0 bytes copied") == 1
    shutil.rmtree(lake)

    status, said, wrong = run("restore", str(folder))

    assert (status, wrong) == (0, "")
    assert "every sum is right" in said
    assert "number 2" in said
    assert run("show", "doors") == shown
    assert lake.stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0


def test_a_lake_is_moved_away_only_by_order_and_a_changed_file_is_said(
    corrected: World, run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    run("backup", str(folder))
    status, _, wrong = run("restore", str(folder))
    assert (status, "--replace" in wrong) == (1, True)
    file = corrected.settings.pipelines / "doors.yaml"
    file.write_text(file.read_text().replace("PT10S", "PT20S"))

    status, said, _ = run("restore", str(folder), "--replace")

    assert status == 0
    assert "lake.replaced-" in said
    assert f"{file} is another one now" in said
    assert "PT10S" in (folder / "at-1" / "pipelines" / "doors.yaml").read_text()


def test_steps_have_the_runs_again_that_the_tables_know(
    corrected: World, run: Run, tmp_path: Path
) -> None:
    settings, folder = corrected.settings, tmp_path / "backups"
    known = shared(catalog_in_force(settings).pipelines, Shares())
    then = Shares((replace(known.runs[0], run="another"),))
    with changing(settings):
        remember(settings, then)
    run("backup", str(folder))
    with changing(settings):
        remember(settings, known)

    status, said, wrong = run("restore", str(folder), "--replace")

    assert (status, wrong, "shares.json" in said) == (0, "", False)
    assert shares_of(settings) == then


def stream_runs(world: World) -> AbstractContextManager[str]:
    held: AbstractContextManager[str] = world.stream_holds("supervisor_lock")
    return held


def driver_runs(world: World) -> AbstractContextManager[str]:
    held: AbstractContextManager[str] = world.stream_holds("driver_lock")
    return held


@contextmanager
def airflow_runs(world: World) -> Iterator[str]:
    with Instance(world.settings.home).locked() as lock:
        assert lock is not None
        yield "penstock down"


@contextmanager
def job_runs(world: World) -> Iterator[str]:
    mark = f"{world.settings.home}/correct__doors/correct/manual"
    job = subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=os.environ | {MARK: mark})
    yield "correct__doors/correct/manual runs"
    job.communicate()


@contextmanager
def backup_runs(world: World) -> Iterator[str]:
    lock = take_lock(world.settings.home / "backup.lock")
    assert lock is not None
    yield "another backup or restore"
    os.close(lock)


@pytest.mark.parametrize("running", [stream_runs, driver_runs, airflow_runs, job_runs, backup_runs])
def test_nothing_is_restored_while_something_runs(
    corrected: World, run: Run, tmp_path: Path, running: Callable[[World], Any]
) -> None:
    run("backup", str(tmp_path / "backups"))
    with running(corrected) as said:
        shown = run("show", "doors")
        status, _, wrong = run("restore", str(tmp_path / "backups"), "--replace")
        assert (status, said in wrong) == (1, True), wrong
        assert run("show", "doors") == shown
        if running is not backup_runs:
            assert run("backup", str(tmp_path / "backups"))[0] == 0
    assert run("restore", str(tmp_path / "backups"), "--replace")[0] == 0


def test_only_folders_of_this_machine_are_backed_up(
    corrected: World, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        run("backup", "s3://bucket/backups")
    monkeypatch.setenv("PENSTOCK_LAKE", "s3://bucket/lake")
    for command in ("backup", "restore"):
        status, _, wrong = run(command, str(tmp_path / "b"))
        assert (status, "no folder of this machine" in wrong) == (1, True)


def test_the_real_command_says_what_is_wrong_without_a_traceback(
    corrected: World, run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    run("backup", str(folder))
    file = next((folder / "data").rglob("*.parquet"))
    raw = bytearray(file.read_bytes())
    raw[9] ^= 1
    file.write_bytes(raw)
    command = [sys.executable, "-m", "penstock", "restore", str(folder), "--replace"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert file.name in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    file.unlink()
    for again in (["backup", str(folder)], command[3:]):
        done = subprocess.run([*command[:3], *again], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "every sum is right" in done.stdout
