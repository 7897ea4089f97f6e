"""Start, watch and stop supervised streams; called from Airflow, the command line and ``down``."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.config.settings import child_environment
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

ENDED = ("stopped", "finished", "gave_up")


class SupervisorStartError(TransientError):
    """The supervisor of a stream did not come up."""

    def __init__(self, name: str, said: str) -> None:
        self.name, self.said = name, said
        super().__init__(f"the supervisor of stream {name} did not start: {said}")


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """What is known of one stream.

    Attributes:
        state: absent, starting, running, waiting (for its next restart), stopping, stopped,
            finished (a bounded source's end), gave_up, or dead (the supervisor was killed).
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
        """Whether its error is of now; in other states the last one is history."""
        return self.state in {"waiting", "dead", "gave_up"}


def status(paths: StreamPaths) -> StreamStatus:
    """What is known of a stream; never waits."""
    alive = is_held(paths.supervisor_lock)  # asked first: if nobody holds it, the file is final
    said = read_json(paths.supervisor)
    driver = read_json(paths.driver)
    if driver.get("incarnation") not in (said.get("incarnation"), 0):
        driver = {}  # a former incarnation's last words
    state = said.get("state", "absent")
    if not alive and state not in (*ENDED, "absent"):
        state = "dead"
    return StreamStatus(
        state=state,
        alive=alive,
        identity=said.get("identity"),
        reason=said.get("reason"),
        error=said.get("error"),
        said=said,
        driver=driver,
    )


def names(folder: Path) -> list[str]:
    """Streams that were ever started below a folder."""
    suffix = ".supervisor.lock"
    return sorted(lock.name.removesuffix(suffix) for lock in folder.glob(f"*{suffix}"))


def ensure_supervisor(
    paths: StreamPaths, spec: StreamSpec, wanted: Callable[[], bool] = lambda: True
) -> bool:
    """See that a supervisor runs; False: one does already, and it is left as it is.

    Args:
        paths: files of the stream.
        spec: what a new supervisor runs.
        wanted: asked at the last moment, after an old stop request was removed. Whoever withdraws
            the wish first makes this false and then requests a stop: no order of events leaves a
            stream that nobody wants.

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
        _launch(paths, spec, lock)
    finally:
        os.close(lock)  # the supervisor has its own copy by now: the lock itself lives on
    return True


def _launch(paths: StreamPaths, spec: StreamSpec, lock: int) -> None:
    write_json(paths.spec, spec.to_json())
    # Nobody must take the former supervisor's end for the new one's.
    former = read_json(paths.supervisor)
    write_json(
        paths.supervisor,
        {
            "incarnation": former.get("incarnation", 0),
            "state": "starting",
            "identity": spec.identity,
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
    """Ask for a graceful stop; one small write, returns at once."""
    paths.folder.mkdir(parents=True, exist_ok=True)
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
        request_stop(paths, "down")
    until = time.monotonic() + timeout
    killed = []
    for paths in alive:
        if not wait_until_ended(paths, max(0.0, until - time.monotonic())):
            kill_marked(paths.mark, set())
            killed.append(paths.name)
    return killed
