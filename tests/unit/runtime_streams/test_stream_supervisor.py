"""The supervisor of stream hosts: real processes, a driver that only beats."""

import dataclasses
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from rich.console import Console

from penstock.runtime.embedded.report import _show_streams
from penstock.runtime.streams import control
from penstock.runtime.streams.paths import StreamPaths, is_held, read_json
from penstock.runtime.streams.processes import kill_marked, marked
from penstock.runtime.streams.rolling import RollingFile
from penstock.runtime.streams.spec import Limits, StreamSpec
from tests.doubles import FixedClock

ROOT = Path(__file__).resolve().parents[3]
DRIVER = Path(__file__).with_name("host_driver.py")
QUICK = Limits(
    tick=0.05, start=20.0, stale=1.0, stop=5.0, healthy=60.0, backoff=0.05, backoff_most=0.2,
    restarts=3,
)  # fmt: skip
T = TypeVar("T")


def eventually(ask: Callable[[], T], seconds: float = 20.0) -> T:
    until = time.monotonic() + seconds
    while not (answer := ask()) and time.monotonic() < until:
        time.sleep(0.02)
    return answer


class Host:
    """One stream in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = StreamPaths(folder, "s")

    def spec(self, *argv: str, **limits: float) -> StreamSpec:
        return StreamSpec(
            argv=argv,
            folder=str(self.folder),
            log=str(self.folder / "s.log"),
            environment={"PYTHONPATH": str(ROOT / "include")},
            limits=dataclasses.replace(QUICK, **limits),
        )

    def start(self, mode: str, **limits: float) -> bool:
        argv = (sys.executable, str(DRIVER), str(self.folder), mode)
        return control.ensure_supervisor(self.paths, self.spec(*argv, **limits))

    def becomes(self, *states: str) -> control.StreamStatus:
        eventually(lambda: self.status.state in states)
        assert self.status.state in states, (self.status, self.log)
        return self.status

    def beats(self, start: int = 1) -> control.StreamStatus:
        """Wait until the n-th start of the driver is at work."""
        eventually(lambda: len(self.starts) >= start and self.status.driver.get("pid") == self.pid
                   and self.status.driver.get("state") == "running")  # fmt: skip
        assert self.status.driver.get("state") == "running", (self.status, self.log)
        return self.status

    @property
    def status(self) -> control.StreamStatus:
        return control.status(self.paths)

    @property
    def starts(self) -> list[str]:
        file = self.folder / "starts"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def pid(self) -> int:
        return int(self.starts[-1])

    @property
    def log(self) -> str:
        file = self.folder / "s.log"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    kill_marked(host.paths.mark, set())


def test_a_driver_that_dies_is_started_again_until_it_lives(host: Host) -> None:
    assert host.start("dies-twice")
    status = host.beats(start=3)
    assert (status.said["restarts"], status.said["incarnation"]) == (2, 3)
    assert status.driver["steps"] == {"per_site": {"block": 2}}


def test_a_driver_that_always_dies_is_given_up_with_its_last_words(host: Host) -> None:
    host.start("dies")
    status = host.becomes("gave_up")
    assert len(host.starts) == 1 + QUICK.restarts
    assert "exit code 3" in str(status.error)
    assert "no such table" in str(status.error)


def test_lives_that_last_and_seal_nothing_are_given_up(host: Host) -> None:
    host.start("starts-and-dies", healthy=0.01, restarts=2)
    assert host.becomes("gave_up").error == "ValueError: no worker came"
    assert len(host.starts) == 3


@pytest.mark.parametrize("mode", ["seals-and-dies", "idles-and-dies"])
def test_a_life_that_sealed_or_lasted_with_nothing_to_seal_begins_the_count_anew(
    host: Host, mode: str
) -> None:
    host.start(mode, restarts=2, healthy=0.1 if mode == "idles-and-dies" else 60.0)
    assert eventually(lambda: len(host.starts) > 4)
    assert host.status.state != "gave_up"


def test_a_life_that_ended_soon_with_nothing_to_seal_counts(host: Host) -> None:
    host.start("idles-and-dies", restarts=2)
    host.becomes("gave_up")


def test_a_driver_that_hangs_on_its_way_out_leaves_its_last_words(host: Host) -> None:
    host.start("hangs-on-its-way-out", restarts=0)
    assert host.becomes("gave_up").error == "StreamFailedError: the real cause"


def test_until_something_is_sealed_a_stream_is_starting(host: Host) -> None:
    host.start("starts")
    assert eventually(lambda: host.status.driver.get("received") == 7), host.log
    assert host.status.state == "starting"
    assert not host.status.troubled


def test_a_stream_that_starts_again_shows_why(host: Host) -> None:
    host.start("starts-and-dies")
    eventually(lambda: len(host.starts) > 1 and host.status.state == "starting")
    assert (host.status.troubled, host.status.error) == (True, "ValueError: no worker came")


def test_a_stream_that_goes_on_without_a_step_says_so(host: Host) -> None:
    host.start("goes-on-without-one")
    assert eventually(lambda: host.status.wrong) == "per_site stands still: a sum"
    assert (host.becomes("running").troubled, host.status.error) == (False, None)
    shown = io.StringIO()
    now = FixedClock(datetime.now(UTC))
    _show_streams(host.paths.folder, now, Console(width=200, file=shown))
    assert "per_site stands still: a sum" in shown.getvalue()


def test_a_supervisor_that_stands_still_is_seen_by_the_age_of_its_last_word(host: Host) -> None:
    host.start("runs")
    supervisor = host.beats().said["pid"]
    later = FixedClock(datetime.now(UTC) + timedelta(seconds=control.SILENT + 10))
    os.kill(supervisor, signal.SIGSTOP)
    silent = control.status(host.paths, later)
    assert (silent.state, silent.alive, silent.troubled) == ("silent", True, True)
    assert f"kill -CONT {supervisor}" in str(silent.error)
    said = host.status.said["at"]
    os.kill(supervisor, signal.SIGCONT)
    assert eventually(lambda: host.status.said["at"] > said)
    assert host.becomes("running").alive


def test_bin_false_is_given_up_and_a_missing_program_too(host: Host) -> None:
    control.ensure_supervisor(host.paths, host.spec("/bin/false"))
    assert "exit code 1" in str(host.becomes("gave_up").error)
    eventually(lambda: not host.status.alive)
    control.ensure_supervisor(host.paths, host.spec("/no/such/program"))
    eventually(lambda: "/no/such/program" in str(host.status.error))
    assert "/no/such/program" in str(host.becomes("gave_up").error)


def test_an_error_that_no_retry_helps_is_given_up_at_once(host: Host) -> None:
    host.start("terminal")
    assert host.becomes("gave_up").error == "the pipeline has no columns"
    assert len(host.starts) == 1


def test_an_exception_leaves_its_text_and_frees_the_lock(host: Host) -> None:
    host.start("raises", restarts=0)
    assert host.becomes("gave_up").error == "ValueError: bad block"
    assert not is_held(host.paths.driver_lock)


def test_a_bounded_source_that_ended_is_finished_and_can_be_started_again(host: Host) -> None:
    host.start("ends")
    host.becomes("finished")
    assert eventually(lambda: not host.status.alive)
    assert host.start("ends")
    assert host.becomes("finished").said["incarnation"] == 2


def test_a_second_start_attaches(host: Host) -> None:
    assert host.start("runs")
    host.beats()
    assert not host.start("runs")
    assert len(host.starts) == 1


def test_many_starts_at_once_give_one_driver(host: Host) -> None:
    started: list[bool] = []
    threads = [
        threading.Thread(target=lambda: started.append(host.start("runs"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    host.beats()
    assert sorted(started) == [False] * 7 + [True]
    assert len(host.starts) == 1


def test_a_stop_request_ends_the_driver_gracefully(host: Host) -> None:
    host.start("runs")
    host.beats()
    control.request_stop(host.paths, "user")
    status = host.becomes("stopped")
    assert (status.reason, status.driver["state"]) == ("user", "ended")
    assert (host.folder / "graceful").read_text() == "user"


def test_a_driver_that_does_not_stop_is_killed(host: Host) -> None:
    host.start("stubborn", stop=0.5, stale=60.0)
    eventually(lambda: host.status.driver.get("state") == "running")
    control.request_stop(host.paths, "user")
    host.becomes("stopped")
    assert not is_held(host.paths.driver_lock)


def test_a_stop_request_ends_the_wait_for_the_next_start(host: Host) -> None:
    host.start("dies", backoff=60.0, backoff_most=60.0)
    host.becomes("waiting")
    control.request_stop(host.paths, "user")
    host.becomes("stopped")


def test_a_killed_driver_is_started_again_and_what_it_left_is_killed(host: Host) -> None:
    host.start("grandchild")
    host.beats()
    child = host.folder / "grandchild"
    left = int(eventually(lambda: child.exists() and child.read_text()))
    os.kill(host.pid, signal.SIGKILL)
    host.beats(start=2)
    assert left not in marked(host.paths.mark)


def test_a_hung_driver_is_killed_and_started_again(host: Host) -> None:
    host.start("runs")
    host.beats()
    os.kill(host.pid, signal.SIGSTOP)
    status = host.beats(start=2)
    assert status.error == "no heartbeat: killed"


def test_a_driver_that_never_beats_is_killed(host: Host) -> None:
    host.start("silent", start=2.0, restarts=1)
    assert host.becomes("gave_up").error == "no heartbeat: killed"
    assert len(host.starts) == 2


def test_stopped_and_continued_together_nothing_is_killed(host: Host) -> None:
    host.start("runs", stale=2.0)
    host.beats()
    everybody = marked(host.paths.mark)
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    threading.Event().wait(3.0)  # the case is a silence longer than ``stale``
    for pid in everybody:
        os.kill(pid, signal.SIGCONT)
    beat = host.status.driver["beat"]
    assert eventually(lambda: host.status.driver["beat"] > beat + 10)
    assert len(host.starts) == 1


def test_a_driver_whose_supervisor_was_killed_stops_and_the_next_one_starts(host: Host) -> None:
    host.start("runs")
    status = host.beats()
    os.kill(status.said["pid"], signal.SIGKILL)
    host.becomes("dead")
    assert host.start("runs")  # at once, while the former driver is still there
    host.beats(start=2)
    assert (host.folder / "graceful").read_text() == "orphan"
    assert "killed 1" not in host.log


def test_a_driver_that_outlives_its_supervisor_and_hangs_is_killed_before_a_start(
    host: Host,
) -> None:
    host.start("runs", stop=0.5)
    status = host.beats()
    os.kill(host.pid, signal.SIGSTOP)
    os.kill(status.said["pid"], signal.SIGKILL)
    eventually(lambda: not host.status.alive)
    host.start("runs", stop=0.5)
    host.beats(start=2)
    assert "killed 1 processes left by the former incarnation" in host.log


def test_a_wish_withdrawn_while_starting_starts_nothing(host: Host) -> None:
    def withdrawn() -> bool:
        control.request_stop(host.paths, "on_kill")
        return False

    assert not control.ensure_supervisor(host.paths, host.spec("sleep", "60"), withdrawn)
    assert host.status.state == "absent"


def test_an_old_stop_request_does_not_stop_a_new_start(host: Host) -> None:
    control.request_stop(host.paths, "user")
    host.start("runs")
    host.beats()


def test_stop_all_stops_what_can_stop_and_kills_the_rest(host: Host) -> None:
    host.start("runs")
    host.beats()
    stubborn = StreamPaths(host.folder, "t")
    control.ensure_supervisor(
        stubborn, host.spec("bash", "-c", "trap '' TERM; while true; do sleep 1; done", stop=60.0)
    )
    eventually(lambda: len(marked(stubborn.mark)) > 1)
    assert control.names(host.folder) == ["s", "t"]
    threading.Event().wait(0.3)  # bash has set its trap
    assert control.stop_all(host.folder, timeout=3.0) == ["t"]
    assert host.status.state == "stopped"
    assert host.status.reason == "down"
    assert not marked(stubborn.mark)
    assert control.status(stubborn).state == "dead"


def test_a_changed_definition_has_another_identity(host: Host) -> None:
    assert host.spec("a").identity != host.spec("b").identity
    assert host.spec("a", stop=1.0).identity == host.spec("a", stop=2.0).identity
    assert StreamSpec.from_json(host.spec("a").to_json()) == host.spec("a")


def test_airflows_secrets_never_reach_a_driver(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "secret")
    host.start("runs")
    host.beats()
    assert b"AIRFLOW" not in Path(f"/proc/{host.pid}/environ").read_bytes()


def test_the_log_starts_new_files_and_forgets_the_oldest(tmp_path: Path) -> None:
    log = RollingFile(tmp_path / "x.log", file_bytes=100, files=3)
    for n in range(60):
        log.write(f"{n:08d}\n".encode())
    assert sorted(f.name for f in tmp_path.iterdir()) == ["x.log", "x.log.1", "x.log.2"]
    kept = "".join((tmp_path / name).read_text() for name in ("x.log.2", "x.log.1", "x.log"))
    assert kept.splitlines() == [f"{n:08d}" for n in range(24, 60)]


def test_a_second_driver_is_refused(tmp_path: Path) -> None:
    from penstock.runtime.streams.heart import DriverBusyError, Heart

    paths = StreamPaths(tmp_path, "s")
    with Heart(paths), pytest.raises(DriverBusyError, match=str(os.getpid())):
        Heart(paths, patience=0.1).__enter__()
    assert read_json(paths.driver)["state"] == "ended"
    with Heart(paths) as heart:
        assert not heart.should_stop()
        control.request_stop(paths, "user")
        assert heart.wait(5)
        assert heart.stop_reason == "user"
