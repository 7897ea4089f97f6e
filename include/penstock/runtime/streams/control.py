"""Start, watch and stop supervised streams; called from Airflow, the command line and ``down``."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.config.settings import child_environment
from penstock.core.clock import Clock, SystemClock
from penstock.core.crash import reached
from penstock.core.errors import TransientError
from penstock.runtime.streams.paths import (
    StreamPaths,
    is_held,
    read_json,
    take_lock,
    write_json,
)
from penstock.runtime.streams.processes import MARK, kill_marked
from penstock.runtime.streams.spec import StreamSpec
from penstock.runtime.streams.wish import RUNNER_LOCK, Wish, read_wish, write_wish

ENDED = ("stopped", "finished", "gave_up")
TROUBLED = ("wanted", "waiting", "dead", "gave_up", "silent", "failing")
NO_RUNNER = (
    "no stream runner lives, so nobody starts it. Start the service: docker compose up -d"
    " stream-runner"
)
SILENT = 60.0
"""Seconds without a word from a supervisor that speaks twice a second, on a machine at load 30."""


class SupervisorStartError(TransientError):
    """The supervisor of a stream did not come up."""

    def __init__(self, name: str, said: str) -> None:
        self.name, self.said = name, said
        super().__init__(f"the supervisor of stream {name} did not start: {said}")


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """What is known of one stream.

    Attributes:
        state: absent, wanted (a stream runner is to start it), starting (until something is
            sealed or nothing waits to be), running,
            waiting (for its next restart), stopping, stopped, finished (a bounded source's end),
            gave_up, silent (the supervisor lives and says nothing), failing (it has taken nothing
            for long, because of the same error again and again), or dead (it was killed).
        alive: a supervisor holds the lock.
        identity: of the spec it runs.
        reason: of the last stop.
        error: of the last failure.
        said: all that the supervisor wrote: pid, driver_pid, incarnation, restarts, since ...
        driver: all that the driver wrote: state, beat, its figures, and ``steps``; empty until
            the present incarnation beats.
    """

    state: str
    alive: bool
    identity: str | None = None
    reason: str | None = None
    error: str | None = None
    said: dict[str, Any] = field(default_factory=dict)
    driver: dict[str, Any] = field(default_factory=dict)

    @property
    def troubled(self) -> bool:
        """Whether its error is of now; in other states the last one is history.

        While a stream that failed is starting again, nothing has shown yet that it will do better.
        """
        again = self.state == "starting" and self.said.get("restarts_in_a_row", 0) > 0
        return again or self.state in TROUBLED

    @property
    def wrong(self) -> str | None:
        """What is wrong now: with the stream, or with a step that the others go on without."""
        if self.troubled:
            return self.error
        said = self.driver.get("error") or self.driver.get("stands_still")
        return str(said) if said and self.alive else None


def status(paths: StreamPaths, clock: Clock | None = None) -> StreamStatus:
    """What is known of a stream; never waits.

    Args:
        paths: files of the stream.
        clock: tells the age of what the supervisor said last.
    """
    alive = is_held(paths.supervisor_lock)  # asked first: if nobody holds it, the file is final
    said = read_json(paths.supervisor)
    driver = read_json(paths.driver)
    if driver.get("incarnation") not in (said.get("incarnation"), 0):
        driver = {}  # a former incarnation's last words
    state = said.get("state", "absent")
    if not alive and state not in (*ENDED, "absent"):
        state = "dead"
    error, identity = said.get("error"), said.get("identity")
    wish = read_wish(paths)  # after what was said: an end that is older than it is not its end
    if wish is not None and not wish.is_spent(said) and (not alive or state in ENDED):
        state, identity = "wanted", wish.spec.identity
        error = None if is_held(paths.folder / RUNNER_LOCK) else NO_RUNNER
    if alive and state == "running" and driver.get("state", "starting") == "starting":
        state = "starting"
    if alive and state == "running" and driver.get("fails"):
        state, error = "failing", str(driver["fails"])
    if alive and (age := _age(said, clock or SystemClock())) > SILENT:
        state, error = "silent", _silence(said, age)
    return StreamStatus(
        state=state,
        alive=alive,
        identity=identity,
        reason=said.get("reason"),
        error=error,
        said=said,
        driver=driver,
    )


def _age(said: dict[str, Any], clock: Clock) -> float:
    """Seconds since the supervisor spoke; 0: it has not, or a clock was set back."""
    if "at" not in said:
        return 0.0
    return max(0.0, (clock.now() - datetime.fromisoformat(said["at"])).total_seconds())


def _silence(said: dict[str, Any], age: float) -> str:
    pid = said.get("pid")
    return (
        f"its supervisor (process {pid}) lives and has said nothing for {age:.0f} s:"
        f" it was stopped, or cannot write. Continue it (kill -CONT {pid}), or end it"
        f" (kill -9 {pid}): the stream's DAG starts another, and nothing is lost"
    )


def names(folder: Path) -> list[str]:
    """Streams that were ever started, or asked for, below a folder."""
    suffixes = (".supervisor.lock", ".wish.json")
    return sorted({f.name.removesuffix(s) for s in suffixes for f in folder.glob(f"*{s}")})


def ask_runner(
    paths: StreamPaths, spec: StreamSpec, wanted: Callable[[], bool] = lambda: True
) -> bool:
    """Ask the stream runner to keep a stream; False: that is asked already, or not any more.

    Args:
        paths: files of the stream.
        spec: what is to run; it replaces another one that does not run yet.
        wanted: as in ``ensure_supervisor``.
    """
    paths.folder.mkdir(parents=True, exist_ok=True)
    alive, said, wish = (
        is_held(paths.supervisor_lock),
        read_json(paths.supervisor),
        read_wish(paths),
    )
    if (
        wish is not None
        and not wish.is_spent(said)
        and (alive or wish.spec.identity == spec.identity)
    ):
        return False
    write_wish(paths, Wish.of(spec))
    if wanted():
        return True
    request_stop(paths, "unwanted")  # the runner may have been quicker
    return False


def ensure_supervisor(
    paths: StreamPaths,
    spec: StreamSpec,
    wanted: Callable[[], bool] = lambda: True,
    wish: str | None = None,
) -> bool:
    """See that a supervisor runs; False: one does already, and it is left as it is.

    Args:
        paths: files of the stream.
        spec: what a new supervisor runs.
        wanted: asked at the last moment, after an old stop request was removed. Whoever withdraws
            the wish first makes this false and then requests a stop: no order of events leaves a
            stream that nobody wants.
        wish: number of the one that a stream runner fulfils by this.

    Raises:
        SupervisorStartError: it did not come up.
    """
    paths.folder.mkdir(parents=True, exist_ok=True)
    lock = take_lock(paths.supervisor_lock)
    if lock is None:
        return False
    try:
        paths.stop.unlink(missing_ok=True)
        if not wanted():
            return False
        _launch(paths, spec, lock, wish)
    finally:
        os.close(lock)  # the supervisor has its own copy by now: the lock itself lives on
    return True


def _launch(paths: StreamPaths, spec: StreamSpec, lock: int, wish: str | None) -> None:
    write_json(paths.spec, spec.to_json())
    # Nobody must take the former supervisor's end for the new one's.
    former = read_json(paths.supervisor)
    write_json(
        paths.supervisor,
        {
            "incarnation": former.get("incarnation", 0),
            "state": "starting",
            "identity": spec.identity,
            "wish": wish,
        },
    )
    module = "penstock.runtime.streams.supervisor"
    started = subprocess.run(  # returns at once: the supervisor detaches itself
        [sys.executable, "-S", "-m", module, str(paths.folder), paths.name, str(lock)],
        env=child_environment(**spec.environment, PYTHONUNBUFFERED="1", **{MARK: paths.mark}),
        pass_fds=[lock],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    reached("supervisor launched")
    if started.returncode:
        raise SupervisorStartError(paths.name, f"exit code {started.returncode}")


def request_stop(paths: StreamPaths, reason: str) -> None:
    """Ask for a graceful stop, and wish for the stream no more; returns at once."""
    paths.folder.mkdir(parents=True, exist_ok=True)
    paths.wish.unlink(missing_ok=True)
    ask_to_stop(paths, reason)


def ask_to_stop(paths: StreamPaths, reason: str) -> None:
    """Ask the supervisor alone: what is wished for is started again by the next runner."""
    write_json(paths.stop, {"reason": reason})


def wait_until_ended(paths: StreamPaths, timeout: float) -> bool:
    """Wait until no supervisor is alive; False: it still is after ``timeout`` seconds."""
    until = time.monotonic() + timeout
    while is_held(paths.supervisor_lock):
        if time.monotonic() >= until:
            return False
        time.sleep(0.1)
    return True


def stop_all(folder: Path, timeout: float) -> list[str]:
    """Stop every stream below a folder gracefully; what is left after ``timeout`` s is killed.

    Returns:
        Names of the streams that had to be killed. Nothing is lost by that: they go on from
        their last sealed position at the next start.
    """
    alive = [p for n in names(folder) if is_held((p := StreamPaths(folder, n)).supervisor_lock)]
    for paths in alive:
        ask_to_stop(paths, "down")
    until = time.monotonic() + timeout
    killed = []
    for paths in alive:
        if not wait_until_ended(paths, max(0.0, until - time.monotonic())):
            kill_marked(paths.mark, set())
            killed.append(paths.name)
    return killed
