"""Random faults, drawn from a seed: kills, stand-stills, stops, lost checkpoints, edits."""

import contextlib
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from penstock.core.place import path_of
from penstock.lake.history.checkpoint import newest_checkpoint
from penstock.runtime.streams import control
from penstock.runtime.streams.processes import kill_marked
from tests.doubles import lose_memory
from tests.soak.keeper import Jobs, Keeper, tree
from tests.soak.scene import SLACKS, Scene, slowness

KINDS = {
    "kill driver": 4,
    "kill JVM": 3,
    "kill Python worker": 4,
    "kill supervisor": 2,
    "kill everything": 2,
    "stand still": 4,
    "hang": 1,
    "stop and start": 3,
    "kill a job": 5,
    "lose newest commits": 3,
    "lose newest offsets": 1,
    "lose commits and state": 1,
    "lose checkpoint": 2,
    "change slack": 3,
}
"""Fault -> how often, relative to the others."""
LEAST_SECONDS, MOST_SECONDS = 10.0, 45.0
PATIENT = 0.75
"""Share of the faults that wait until the stream works again; others hit while it recovers."""
PATIENCE_SECONDS = 120.0
CALM = (0.4, 0.6)
"""Part of the run without faults of the stream, so that growth shows that restarts would hide."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One that happened: from when to when, seconds since the epoch."""

    name: str
    began: float
    ended: float
    stream: bool


class Faults(threading.Thread):
    """One fault after the other until it is told to stop."""

    def __init__(self, scene: Scene, keeper: Keeper, jobs: Jobs, seed: int, minutes: float) -> None:
        super().__init__(name="faults", daemon=True)
        self.scene, self.keeper, self.jobs = scene, keeper, jobs
        self.draw = random.Random(f"faults {seed}")  # noqa: S311
        self.minutes = minutes
        self.done: list[Fault] = []
        self.failed: BaseException | None = None
        self._ending = threading.Event()

    @property
    def counted(self) -> Counter[str]:
        return Counter(fault.name for fault in self.done)

    def run(self) -> None:
        began = time.monotonic()
        try:
            while not self._ending.wait(self.draw.uniform(LEAST_SECONDS, MOST_SECONDS)):
                part = (time.monotonic() - began) / (60 * self.minutes)
                calm = CALM[0] <= part < CALM[1]
                kind = self.draw.choices(list(KINDS), list(KINDS.values()))[0]
                if self.draw.random() < PATIENT:
                    self._await_work()
                if kind == "kill a job" or not calm:
                    self._do(kind)
        except BaseException as failed:  # noqa: BLE001  the main thread ends the run with it
            self.failed = failed

    def end(self) -> None:
        self._ending.set()
        self.join()

    def _await_work(self) -> None:
        """Until the newest incarnation has sealed something, or patience ends."""
        until = time.monotonic() + slowness() * PATIENCE_SECONDS
        while time.monotonic() < until and not self._ending.wait(0.5):
            now = control.status(self.scene.paths)
            if now.state == "running" and "block" in now.driver:
                return

    def _do(self, kind: str) -> None:
        began = time.time()
        if kind == "kill a job":
            said = self.jobs.kill(self.draw)
            if said:
                self.done.append(Fault(said, began, time.time(), stream=False))
        elif getattr(self, f"_{kind.replace(' ', '_').lower()}")():
            self.done.append(Fault(kind, began, time.time(), stream=True))

    # ---- kills ----------------------------------------------------------------------------------

    def _kill(self, which: str) -> bool:
        found = [p for p in tree(self.scene) if role_of(p) == which]
        if found:
            _send(signal.SIGKILL, [self.draw.choice(sorted(found, key=lambda p: p.pid))])
        return bool(found)

    def _kill_driver(self) -> bool:
        return self._kill("driver")

    def _kill_jvm(self) -> bool:
        return self._kill("JVM")

    def _kill_python_worker(self) -> bool:
        return self._kill("worker")

    def _kill_supervisor(self) -> bool:
        return self._kill("supervisor")

    def _kill_everything(self) -> bool:
        return kill_marked(self.scene.paths.mark, set()) > 0

    # ---- stand-stills, stops, edits -------------------------------------------------------------

    def _stand_still(self) -> bool:
        return self._freeze(tree(self.scene), self.draw.uniform(2, 9))

    def _hang(self) -> bool:
        """Longer than the supervisor's patience: it kills the driver and starts another."""
        return self._freeze([p for p in tree(self.scene) if role_of(p) == "driver"], 36.0)

    def _freeze(self, processes: list[psutil.Process], seconds: float) -> bool:
        _send(signal.SIGSTOP, processes)
        try:
            self._ending.wait(seconds)
        finally:
            _send(signal.SIGCONT, processes)
        return bool(processes)

    def _stop_and_start(self) -> bool:
        with self.keeper.away():
            control.request_stop(self.scene.paths, "user")
            if not control.wait_until_ended(self.scene.paths, slowness() * 120.0):
                raise RuntimeError("the stream did not stop in time after a request")
            self._ending.wait(self.draw.uniform(0, 10))
        return True

    def _change_slack(self) -> bool:
        step = self.draw.choice(sorted(SLACKS))
        others = [s for s in SLACKS[step] if s != self.scene.steps[step]["slack"]]
        self.scene.change_slack(step, self.draw.choice(others))
        return True

    # ---- losses of what the disk had not kept ---------------------------------------------------

    def _lose(self, how: str) -> bool:
        with self.keeper.away():
            kill_marked(self.scene.paths.mark, set())
            for query in self.scene.pipeline.queries:
                folder = path_of(newest_checkpoint(self.scene.tables, query).uri)
                if how != "newest commits":
                    lose_memory(folder, how)
                    continue
                done = (path for path in (folder / "commits").glob("*") if path.name.isdigit())
                newest = sorted(done, key=lambda path: int(path.name))
                for path in newest[-self.draw.randint(1, 3) :]:
                    path.unlink()
        return True

    def _lose_newest_commits(self) -> bool:
        return self._lose("newest commits")

    def _lose_newest_offsets(self) -> bool:
        return self._lose("newest")

    def _lose_commits_and_state(self) -> bool:
        return self._lose("commits")

    def _lose_checkpoint(self) -> bool:
        return self._lose("all")


def _send(number: signal.Signals, processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def role_of(process: psutil.Process) -> str:
    """What it is of a stream: supervisor, driver, JVM, worker, or gone."""
    try:
        if process.name() == "java":
            return "JVM"
        words = " ".join(process.cmdline())
    except psutil.Error:
        return "gone"
    if "penstock.runtime.streams.supervisor" in words:
        return "supervisor"
    return "driver" if "spark_jobs/stream.py" in words else "worker"
