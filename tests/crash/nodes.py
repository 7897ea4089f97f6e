"""Rows of the matrix on a cluster: a task reaches a point, and its node is lost, or its driver is.

Executors alone are armed. Where the driver is lost, the node stands still at the point: so its
tasks outlive the driver, and wake beside whoever goes on, or after.
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from penstock.control.nodes import DEFAULTS
from penstock.lake.history.correction import pending_count
from penstock.lake.history.generation import generations
from penstock.runtime.cluster import control
from penstock.runtime.streams.processes import kill_marked, marked
from tests.clusters import TestCluster
from tests.crash.life import DEADLINE, mark_of
from tests.crash.losing import AFTER as LOST_AFTER
from tests.crash.matrix import Row, recovering
from tests.crash.points import read_trace
from tests.crash.rows import AFTER, BESIDE, NODE, OF_AN_AUDIT, OF_TASKS, Result, named
from tests.processes import killed_at_end, signal_all
from tests.spark.conftest import Scene
from tests.spark.test_law0_on_spark import eventually

NODES = 2
EXECUTOR, PYTHON = "CoarseGrainedExecutor", "penstock/spark/worker.py"
OF_SOURCE = {"speed begin", "speed offset", "speed cut"}
"""Its workers on the driver's host are given the environment of executors, too."""
QUIET = 0.2
"""Seconds without processor time after which a process is taken to wait."""


@dataclass
class OnNodes(Row):
    """One point of a task, in a job on a cluster, and who is lost there."""

    cluster: TestCluster
    lost: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self.job = "audit" if self.point in OF_AN_AUDIT else OF_TASKS[self.point]
        self.trace = self.home / "tasks.trace"

    @property
    def program(self) -> str:
        """An audit is robbed of a node from within: it has no points."""
        return "robbed" if self.point in OF_AN_AUDIT else self.job

    def _times(self, point: str) -> int:
        """At which of its reachings: any of the first two thirds."""
        if point in OF_AN_AUDIT:
            return OF_AN_AUDIT[point]
        return self.draw.randint(1, max(1, self.life.counts[OF_TASKS[point]][point] * 2 // 3))

    def live(self) -> Result:
        """Lose it, go on, audit, compare."""
        began, restarts = time.monotonic(), self._restarts()
        scene = self._begun()
        try:
            (self._lose_node if self.lost == NODE else self._lose_driver)(scene)
        finally:
            self._wake()
            kill_marked(mark_of(scene), set())
        self.life.check(scene)
        for lake in scene.lakes.values():
            assert pending_count(lake.tables, lake.step) == 0
            assert len(generations(lake.tables, lake.step)) == 1, "it cost a checkpoint"
        assert self._restarts() == restarts + (self.lost == NODE), "a worker was lost, once"
        shutil.rmtree(self.home)
        seconds = round(time.monotonic() - began, 1)
        name = named(self.point, self.lost)
        return Result(name, self.life.seed, self.job, self.times, seconds, self.starts)

    def _lose_node(self, scene: Scene) -> None:
        """The job ends well by itself, and what comes after it is run."""
        with self._running(scene) as process:
            assert process.wait(DEADLINE) == 0, self._log(scene)
        if self.point in OF_TASKS:
            found = {each.point for each in read_trace(self.trace)}
            assert found - OF_SOURCE == {p for p, job in OF_TASKS.items() if job == self.job}
        with recovering(self.spark):
            self._go_on(scene, AFTER[self.job][1:])

    def _lose_driver(self, scene: Scene) -> None:
        """It dies while the node stands still, and the job is run again elsewhere."""
        with self._running(scene, PENSTOCK_CRASH_SIGNAL="SIGSTOP") as process:
            eventually(lambda: process.poll() is not None or self._stands_still(), DEADLINE)
            assert process.poll() is None, self._log(scene)
        kill_marked(mark_of(scene), set())
        assert self._stands_still(), "its tasks outlive the driver"
        again, *more = AFTER[self.job]
        with recovering(self.spark):
            if self.lost == BESIDE:
                self._wake()
            self.audit(scene)
            self.recover(again, scene)
            self._wake(slowly=True)
            eventually(lambda: not self._processes(EXECUTOR, PYTHON), DEADLINE)
            self._go_on(scene, more)

    def _begun(self) -> Scene:
        """A scene as the job finds it; all nodes are there."""
        scene = self.life.at(self.job, self.home)
        (scene.home / "cluster").symlink_to(self.cluster.files.folder)
        return scene

    @contextmanager
    def _running(self, scene: Scene, **more: str) -> Iterator["subprocess.Popen[bytes]"]:
        """The job on the cluster; killed at the end, if it still runs."""
        armed = {"PENSTOCK_CRASH_TRACE": str(self.trace), **more,
                 "PENSTOCK_CRASH_AT": f"{self.point}:{self.times}"}  # fmt: skip
        own = {"SPARK_CONF_DIR": str(self._conf(armed))}
        if self.point in OF_AN_AUDIT:
            own[LOST_AFTER] = str(self.times)
        with killed_at_end(self._start(scene, **(self.cluster.environment | own))) as process:
            yield process

    def _conf(self, armed: dict[str, str]) -> Path:
        """The cluster's configuration, with the environment of executors."""
        folder = self.home / "conf"
        folder.mkdir()
        lines = [f"spark.executorEnv.{name} {value}\n" for name, value in armed.items()]
        text = (self.cluster.files.conf / DEFAULTS).read_text()
        file = folder / DEFAULTS
        file.touch(mode=0o600)
        file.write_text("".join([text, *lines, "spark.ui.liveUpdate.period 0\n"]))
        return folder

    def _go_on(self, scene: Scene, jobs: Sequence[str]) -> None:
        """Run what comes after the job, and audit."""
        for name in jobs:
            self.recover(name, scene)
        assert self.audit(scene) == [*scene.lakes]

    def _restarts(self) -> int:
        """Of workers, once all nodes are there."""
        return sum(node.restarts for node in self.cluster.want(NODES).nodes)

    def _stands_still(self) -> bool:
        """Whether the task's node does: executor, and Python workers."""
        reached = sum(each.point == self.point for each in read_trace(self.trace))
        return reached >= self.times and all(map(self._stopped, (EXECUTOR, PYTHON)))

    def _stopped(self, word: str) -> list[psutil.Process]:
        return [p for p in self._processes(word) if _is_stopped(p)]

    def _wake(self, *, slowly: bool = False) -> None:
        """Let what stands still go on; slowly: executors once their Python workers wait."""
        python = self._stopped(PYTHON)
        signal_all([*python, *([] if slowly else self._processes())], signal.SIGCONT)
        if slowly:
            eventually(lambda: all(map(_waits, python)), DEADLINE)
            self._wake()

    def _processes(self, *words: str) -> list[psutil.Process]:
        """Processes of the cluster with one of some words in their command; none given: all."""
        mine = marked(control.mark_of(self.cluster.settings))
        return [p for p in psutil.process_iter() if p.pid in mine and _says(p, words)]


def _says(process: psutil.Process, words: tuple[str, ...]) -> bool:
    with suppress(psutil.Error):
        command = " ".join(process.cmdline())
        return not words or any(word in command for word in words)
    return False


def _is_stopped(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.status() == psutil.STATUS_STOPPED)
    return False


def _waits(process: psutil.Process) -> bool:
    """Whether it has ended, or takes no processor time for a while."""
    with suppress(psutil.Error):
        return process.cpu_percent(QUIET) == 0.0 and process.status() == psutil.STATUS_SLEEPING
    return True
