"""The stream runner: a process beside, streams that only beat, kills with -9."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.runtime.streams import control, runner
from penstock.runtime.streams.paths import is_held, read_json, write_json
from penstock.runtime.streams.processes import kill_marked, marked
from penstock.runtime.streams.wish import RUNNER_LOCK, RUNNER_WORD, Wish, read_wish, runner_is_well
from tests.doubles import FixedClock
from tests.unit.runtime_streams.test_stream_supervisor import DRIVER, ROOT, Host, eventually

Start = Callable[[], subprocess.Popen[bytes]]


class Asked(Host):
    """A stream of which others only say that it is wanted."""

    def start(self, mode: str, **limits: float) -> bool:
        argv = (sys.executable, str(DRIVER), str(self.folder), mode)
        return control.ask_runner(self.paths, self.spec(*argv, **limits))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Asked]:
    host = Asked(tmp_path / "streams")
    host.folder.mkdir()
    yield host
    kill_marked(host.paths.mark, set())


@pytest.fixture
def start(host: Asked) -> Iterator[Start]:
    """Starts a runner; those that still live are killed at the end."""
    running = []
    environment = {"PYTHONPATH": str(ROOT / "include"), "PENSTOCK_HOME": str(host.folder.parent)}

    def begin() -> subprocess.Popen[bytes]:
        with (host.folder.parent / "runner.log").open("ab") as output:
            running.append(
                subprocess.Popen(
                    [sys.executable, "-m", runner.__name__],
                    env=os.environ | environment,
                    stdout=output,
                    stderr=output,
                )
            )
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.wait()


def keeper(host: Asked) -> int | None:
    """The process that keeps the streams, as the runner says."""
    held = is_held(host.folder / RUNNER_LOCK)
    return read_json(host.folder / RUNNER_WORD).get("pid") if held else None


def end_with_all_it_started(process: subprocess.Popen[bytes], host: Asked) -> None:
    """What happens to a container's processes when it is killed."""
    process.kill()
    process.wait()
    for pid in marked(host.paths.mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not marked(host.paths.mark))


def test_what_is_wanted_without_a_runner_waits_and_says_so(host: Asked) -> None:
    assert host.start("runs")
    assert not host.start("runs"), "asked already"
    known = host.status
    assert (known.state, known.alive, host.starts) == ("wanted", False, [])
    assert "docker compose up -d stream-runner" in str(known.wrong)
    assert control.names(host.folder) == ["s"]


def test_a_runner_starts_what_is_wanted_and_a_stop_ends_it(host: Asked, start: Start) -> None:
    host.start("runs")
    start()
    host.beats()
    assert host.status.wrong is None
    control.request_stop(host.paths, "marked")
    assert host.becomes("stopped").reason == "marked"
    looked = read_json(host.folder / RUNNER_WORD)["at"]
    eventually(lambda: read_json(host.folder / RUNNER_WORD)["at"] > looked)
    assert (host.status.state, len(host.starts)) == ("stopped", 1), "not wanted any more"


def test_a_stream_comes_back_after_a_kill_of_the_runner_and_all_it_started(
    host: Asked, start: Start
) -> None:
    host.start("runs")
    first = start()
    host.beats()
    end_with_all_it_started(first, host)
    host.becomes("wanted")
    start()
    assert host.beats(start=2).said["incarnation"] == 2


def test_a_killed_runners_streams_are_kept_by_the_next_one(host: Asked, start: Start) -> None:
    host.start("runs")
    first = start()
    before = host.beats().said["pid"]
    first.kill()
    first.wait()
    second = start()
    eventually(lambda: keeper(host) == second.pid)
    os.kill(before, signal.SIGKILL)
    assert host.beats(start=2).said["pid"] != before


def test_of_two_runners_one_keeps_the_streams_and_the_other_follows_it(
    host: Asked, start: Start
) -> None:
    host.start("runs")
    both = {process.pid: process for process in (start(), start())}
    host.beats()
    first = both.pop(eventually(lambda: keeper(host) or 0))
    (other,) = both.values()
    assert other.poll() is None
    first.kill()
    assert eventually(lambda: keeper(host) == other.pid)
    assert host.status.state == "running"
    assert len(host.starts) == 1


def test_sigterm_stops_the_streams_gracefully_and_they_stay_wanted(
    host: Asked, start: Start
) -> None:
    host.start("runs")
    first = start()
    host.beats()
    first.terminate()
    assert first.wait(timeout=20) == 0
    assert (host.folder / "graceful").read_text() in {"down", "sigterm"}
    assert host.status.state == "wanted"
    start()
    host.beats(start=2)


def test_a_stream_that_ended_by_itself_is_not_started_again(host: Asked, start: Start) -> None:
    host.start("terminal")
    start()
    assert host.becomes("gave_up").error == "the pipeline has no columns"
    looked = read_json(host.folder / RUNNER_WORD)["at"]
    eventually(lambda: read_json(host.folder / RUNNER_WORD)["at"] > looked)
    assert len(host.starts) == 1
    assert host.start("terminal"), "but may be asked for again"
    assert eventually(lambda: len(host.starts) == 2)


def test_the_end_before_is_not_taken_for_the_end_of_what_is_asked_for(
    host: Asked, start: Start
) -> None:
    host.start("terminal")
    start()
    host.becomes("gave_up")
    host.start("runs")
    assert host.status.state in {"wanted", "starting", "running"}
    host.beats(start=2)


def test_another_definition_replaces_what_does_not_run_yet(host: Asked) -> None:
    host.start("runs")
    before = host.status.identity
    assert host.start("ends")
    assert host.status.identity not in {before, None}


def test_a_wish_that_is_withdrawn_while_it_is_written_does_not_stand(host: Asked) -> None:
    assert not control.ask_runner(host.paths, host.spec("true"), lambda: False)
    assert read_wish(host.paths) is None
    assert host.paths.stop.exists()


def test_a_stream_that_nobody_wants_is_stopped(host: Asked, start: Start) -> None:
    host.start("runs")
    start()
    host.beats()
    host.paths.wish.unlink()
    assert host.becomes("stopped").reason == "unwanted"


def test_a_wish_of_another_version_is_asked_for_again(host: Asked) -> None:
    write_json(host.paths.wish, {"number": "1", "spec": {"no": "longer"}})
    assert read_wish(host.paths) is None
    assert host.start("runs")


@pytest.mark.parametrize("state", ["finished", "gave_up"])
def test_an_end_spends_the_wish_it_was_started_for_and_no_other(host: Asked, state: str) -> None:
    wish = Wish.of(host.spec("true"))
    assert wish.is_spent({"wish": wish.number, "state": state})
    assert not wish.is_spent({"wish": Wish.of(host.spec("true")).number, "state": state})
    assert not wish.is_spent({"wish": wish.number, "state": "stopped"})


def test_a_runner_that_has_not_looked_lately_is_not_well(host: Asked, start: Start) -> None:
    assert not runner_is_well(host.folder, SystemClock())
    process = start()
    assert eventually(lambda: runner_is_well(host.folder, SystemClock()))
    later = FixedClock(SystemClock().now() + timedelta(minutes=2))
    assert not runner_is_well(host.folder, later)
    process.kill()
    process.wait()
    assert not runner_is_well(host.folder, SystemClock())
