"""What Airflow does for the stream and the jobs, without Airflow."""

import contextlib
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil

from penstock.config.settings import child_environment
from penstock.core.errors import PenstockError
from penstock.core.request import Job, JobRequest
from penstock.lake.history.reads import READ, note
from penstock.runtime.streams import control
from penstock.runtime.streams.processes import MARK, kill_marked, marked
from penstock.runtime.streams.spec import StreamSpec, environment_of
from tests.soak.scene import NAME, Scene, slowness

TRIES = 6
JOBS_AT_ONCE = 2
READ_SECONDS = 3_600.0
MOST_HITS = 2
PAUSES = {Job.CORRECT: (60.0, 120.0), Job.AUDIT: (90.0, 180.0), Job.MAINTAIN: (90.0, 180.0)}
"""Seconds between two runs, at least and at most."""


class Keeper(threading.Thread):
    """Sees that the stream runs as the pipeline file says, as the trigger does."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(name="keeper", daemon=True)
        self.scene = scene
        self.errors: Counter[str] = Counter()
        self.failed: BaseException | None = None
        self._mine = threading.RLock()
        self._ending = threading.Event()
        self._told: object = None

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """While open nobody starts the stream again."""
        with self._mine:
            yield

    def run(self) -> None:
        try:
            while not self._ending.wait(1.0):
                with self._mine:
                    self._look()
        except BaseException as failed:  # noqa: BLE001  the main thread ends the run with it
            self.failed = failed

    def leave(self) -> None:
        """Do nothing more."""
        self._ending.set()
        if self.ident is not None:
            self.join()

    def end(self) -> bool:
        """Stop the stream gracefully; whether it did in time."""
        self.leave()
        control.request_stop(self.scene.paths, "user")
        return control.wait_until_ended(self.scene.paths, slowness() * 100.0)

    def _look(self) -> None:
        now = control.status(self.scene.paths)
        said = (now.said.get("incarnation"), now.error)
        if now.error and said != self._told:
            self.errors[_gist(now.error)] += 1
        self._told = said
        meant = StreamSpec.of(self.scene.settings, NAME, self.scene.pipeline.log_digest)
        if now.state in {"absent", "dead", *control.ENDED}:
            if now.state == "gave_up":
                self.errors["the supervisor gave up"] += 1
            with contextlib.suppress(PenstockError):
                control.ensure_supervisor(self.scene.paths, meant)
        elif now.state != "stopping" and now.identity != meant.identity:
            control.request_stop(self.scene.paths, "respec")


@dataclass
class Jobs:
    """Runs jobs of ``spark_jobs/`` as processes, and tries again what was killed.

    Attributes:
        pace: less than 1 shortens the pauses between two runs.
        done: job -> runs that ended well.
        wrong: what must not be: a red audit, a run that never ends well, ...
    """

    scene: Scene
    seed: int
    pace: float
    done: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._slots = threading.BoundedSemaphore(JOBS_AT_ONCE)
        self._ending = threading.Event()
        self._hit: set[int] = set()
        self._hits: Counter[str] = Counter()
        self._marks: set[str] = set()
        self._tries = TRIES
        self._threads = [
            threading.Thread(target=self._repeat, args=(job, *pauses), daemon=True)
            for job, pauses in PAUSES.items()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """No new ones; wait for those that run."""
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def abandon(self) -> None:
        """Kill what runs; nothing is tried again."""
        self._ending.set()
        self._tries = 0
        for process in list(self.running.values()):
            process.kill()
        for mark in list(self._marks):
            kill_marked(mark, set())

    def kill(self, draw: random.Random) -> str | None:
        """kill -9 one process of a running job; which, if there was one.

        A run is hit at most twice: on a busy machine none would end otherwise.
        """
        spared = {job for job, hits in self._hits.items() if hits >= MOST_HITS}
        running = sorted((job, p) for job, p in self.running.items() if job not in spared)
        if not running:
            return None
        name, process = draw.choice(running)
        victims = [process.pid]
        with contextlib.suppress(psutil.Error):
            victims += [p.pid for p in psutil.Process(process.pid).children(recursive=True)]
        self._hit.add(process.pid)
        self._hits[name] += 1
        victim = draw.choice(victims)
        with contextlib.suppress(psutil.Error):
            psutil.Process(victim).send_signal(signal.SIGKILL)
        return f"kill {name}"

    def run(self, job: Job) -> bool:
        """One run with its tries; whether it ended well."""
        run_id = f"{job.value}-{self.done[job.value] + len(self.wrong):04}-{time.monotonic_ns()}"
        if job is Job.MAINTAIN:
            self._read()
        attempt, code = 0, 0
        self._hits[job.value] = 0
        while attempt < self._tries:
            with self._slots:
                code, hit = self._try(job, run_id, attempt)
            if code == 0:
                self.done[job.value] += 1
                return True
            attempt += 1
            if not hit and (code in {10, 20} or code < 0):
                break
            self.again[job.value] += 1
            time.sleep(2.0)  # Airflow's pause between two tries
        self.wrong.append(f"{run_id} ended with {code}: {self._log(run_id, attempt - 1)}")
        return False

    def _repeat(self, job: Job, least: float, most: float) -> None:
        draw = random.Random(f"{job} {self.seed}")  # noqa: S311
        while not self._ending.wait(self.pace * draw.uniform(least, most)):
            self.run(job)

    def _read(self) -> None:
        """Somebody reads all answers, often enough that merging them pays."""
        tables = self.scene.tables
        for step in self.scene.pipeline.specs:
            note(tables.merges(), step, READ, 1, READ_SECONDS)

    def _log(self, run_id: str, attempt: int) -> str:
        return str(self.scene.settings.logs / "jobs" / f"{run_id}.{attempt}.log")

    def _try(self, job: Job, run_id: str, attempt: int) -> tuple[int, bool]:
        settings = self.scene.settings
        pipeline = None if job is Job.MAINTAIN else NAME
        request = JobRequest(job=job, run_id=run_id, pipeline=pipeline)
        script = settings.root / "spark_jobs" / f"{job.value}.py"
        mark = f"{settings.home}/{job.value}/{run_id}"
        kill_marked(mark, set())
        self._marks.add(mark)
        (settings.logs / "jobs").mkdir(parents=True, exist_ok=True)
        with open(self._log(run_id, attempt), "wb") as log:  # noqa: PTH123
            process = subprocess.Popen(
                [sys.executable, str(script), *request.to_argv()],
                env=child_environment(**environment_of(settings), **{MARK: mark}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            self.running[job.value] = process
            code = process.wait()
            del self.running[job.value]
        kill_marked(mark, set())
        self._marks.discard(mark)
        return code, process.pid in self._hit


def _gist(error: str) -> str:
    """How a driver ended: by a signal, or with which exception."""
    lines = error.strip().splitlines()
    return (lines[0] if "by signal" in lines[0] else lines[-1])[:160]


def tree(scene: Scene) -> list[psutil.Process]:
    """All processes of the stream: supervisor, driver, JVM, Spark's Python workers."""
    found = []
    for pid in marked(scene.paths.mark):
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(pid))
    return found
