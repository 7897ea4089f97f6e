"""Keeps one stream's driver running; a detached process of its own, about 15 MB.

Airflow only declares that the stream should run and watches this process, so the stream outlives
every Airflow process. ``python -S -m penstock.runtime.streams.supervisor FOLDER NAME LOCK_FD``
detaches and supervises; the starter has taken the lock and hands it over open, so there is no
instant at which nobody or two hold it. Standard library only.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from penstock.core.clock import Clock, SystemClock
from penstock.core.crash import reached
from penstock.runtime.streams.paths import StreamPaths, is_held, read_json, write_json
from penstock.runtime.streams.processes import kill_marked, marked
from penstock.runtime.streams.rolling import RollingFile
from penstock.runtime.streams.spec import StreamSpec

TERMINAL = 20  # exit code of a job that a retry cannot help
LEAVING = 1.0  # seconds for what a driver leaves behind when its work is done


@dataclass(frozen=True, slots=True)
class Life:
    """How one life of the driver ended.

    Attributes:
        code: exit code.
        error: why, for people.
        good: it sealed something, or had nothing to seal for a while.
    """

    code: int
    error: str
    good: bool


class Supervisor:
    """Starts the driver, restarts it with growing pauses, kills it when it hangs, stops it."""

    def __init__(
        self, paths: StreamPaths, spec: StreamSpec, clock: Clock, spared: set[int]
    ) -> None:
        self._paths, self._spec, self._limits, self._clock = paths, spec, spec.limits, clock
        self._spared = spared
        self._log = RollingFile(Path(spec.log))
        self._terminated = False
        former = read_json(paths.supervisor)
        self._said: dict[str, Any] = {
            "pid": os.getpid(),
            "identity": spec.identity,
            "wish": former.get("wish"),
            "incarnation": int(former.get("incarnation", 0)),
            "restarts": 0,
            "restarts_in_a_row": 0,
            "started": clock.now().isoformat(),
        }

    def run(self) -> None:
        """Supervise until a stop request, the source's end, or too many failures in a row."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        self._say("starting")
        self._outlive_former_driver()
        in_a_row = 0
        while not self._stop_reason():
            life = self._drive()
            code, error = life.code, life.error
            if self._stop_reason():
                break
            if code == 0:
                return self._say("finished", exit_code=0, error=None)
            in_a_row = 1 if life.good else in_a_row + 1
            if code == TERMINAL or in_a_row > self._limits.restarts:
                return self._say("gave_up", exit_code=code, error=error)
            pause = min(self._limits.backoff * 2 ** (in_a_row - 1), self._limits.backoff_most)
            self._said["restarts"] += 1
            self._say(
                "waiting", exit_code=code, error=error, restarts_in_a_row=in_a_row, pause=pause
            )
            self._wait(pause)
        return self._say("stopped", reason=self._stop_reason())

    def _drive(self) -> Life:
        """One life of the driver."""
        killed = kill_marked(self._paths.mark, self._spared)
        if killed:
            self._note(f"killed {killed} processes left by the former incarnation")
        self._said["incarnation"] += 1
        write_json(
            self._paths.start,
            {"incarnation": self._said["incarnation"], "supervisor": os.getpid()},
        )
        born = time.monotonic()
        try:
            driver = self._start()
        except OSError as wrong:
            self._note(f"cannot start the driver: {wrong}")
            return Life(TERMINAL, self._error(TERMINAL), good=False)
        reached("supervisor driving")
        self._say("running", driver_pid=driver.pid, exit_code=None, pause=None)
        pump = threading.Thread(target=self._pump, args=(driver.stdout,), daemon=True)
        pump.start()
        hung = self._watch(driver)
        kill_marked(self._paths.mark, self._spared)
        code = driver.wait()
        pump.join(timeout=5)
        lived = time.monotonic() - born
        self._note(f"driver {driver.pid} ended with {code} after {lived:.0f} s")
        heard = self._heard()
        # A life that only lasted is not good: for half an hour each start may take minutes to fail.
        works = "sealed" in heard and (heard["sealed"] > 0 or lived >= self._limits.healthy)
        return Life(code, self._error(code, hung=hung), good=works)

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # the command line comes from our own settings
            self._spec.argv,
            cwd=self._spec.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _watch(self, driver: "subprocess.Popen[bytes]") -> bool:
        """Until the driver has ended or must be killed; True: it gave no sign of life."""
        beat: object = None
        asked: float | None = None
        seen = looked = time.monotonic()
        while driver.poll() is None:
            time.sleep(self._limits.tick)
            now = time.monotonic()
            if now - looked > 4 * self._limits.tick + 2:
                # We were stopped ourselves, perhaps all of us: silence in that time says nothing.
                seen += now - looked
                asked = asked and asked + now - looked
            looked = now
            heard = self._heard()
            if heard and heard["beat"] != beat:
                beat, seen = heard["beat"], now
            if asked is None and self._stop_reason():
                asked = now
                self._say("stopping", reason=self._stop_reason())
                driver.terminate()
            if asked is not None and now - asked > self._limits.stop:
                self._note(f"no end {self._limits.stop:.0f} s after the stop request: killing")
                return False
            if now - seen > (self._limits.start if beat is None else self._limits.stale):
                return True
            self._say(self._said["state"])
        return False

    def _outlive_former_driver(self) -> None:
        """A driver whose supervisor died stops by itself: give it, and its processes, the time."""
        until = time.monotonic() + self._limits.stop
        while (held := is_held(self._paths.driver_lock)) or marked(self._paths.mark) - self._spared:
            if not held:
                until = min(until, time.monotonic() + LEAVING)
            if self._stop_reason() or time.monotonic() >= until:
                return
            self._wait(self._limits.tick)

    def _stop_reason(self) -> str | None:
        if self._terminated:
            return "sigterm"
        if not self._paths.stop.exists():
            return None
        return str(read_json(self._paths.stop).get("reason", "unknown"))

    def _heard(self) -> dict[str, Any]:
        """What the driver of this incarnation wrote; empty: nothing yet."""
        heard = read_json(self._paths.driver)
        return heard if heard.get("incarnation") == self._said["incarnation"] else {}

    def _error(self, code: int, *, hung: bool = False) -> str:
        """Why the driver ended: in its own words, else from the end of its log."""
        if error := self._heard().get("error"):
            return str(error)
        if hung:
            return "no heartbeat: killed"
        ended = f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        own = " supervisor: "
        tail = [x for x in self._log.tail if own not in x or f"{own}cannot" in x][-8:]
        return "\n".join([f"the driver {ended}; its last words:", *tail])

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stop_reason() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, self._limits.tick))
            self._say(self._said["state"])

    def _pump(self, output: IO[bytes]) -> None:
        for line in output:
            self._log.write(line)

    def _note(self, text: str) -> None:
        self._log.write(f"{self._clock.now().isoformat()} supervisor: {text}\n".encode())

    def _say(self, state: str, **said: object) -> None:
        if self._said.get("state") != state:
            self._said["since"] = self._clock.now().isoformat()
            self._note(" ".join([state, *(f"{k}={v}" for k, v in said.items() if v is not None)]))
        self._said |= {"state": state, "at": self._clock.now().isoformat(), **said}
        try:
            write_json(self._paths.supervisor, self._said)
        except OSError as full:
            self._note(f"cannot write the status: {full}")

    def _on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        self._terminated = True


def main(folder: str, name: str, lock: str) -> None:
    """Detach from the starter, then supervise; the inherited lock lives as long as this process."""
    starter = os.getpid()
    if os.fork():
        os._exit(0)
    os.setsid()
    os.set_inheritable(int(lock), False)
    reached("supervisor detached")
    paths = StreamPaths(Path(folder), name)
    spec = StreamSpec.from_json(read_json(paths.spec))
    Supervisor(paths, spec, SystemClock(), {starter, os.getpid()}).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
