"""One row of the matrix: killed, damaged, audited, run again, compared."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.config.settings import Settings
from penstock.lake.history.correction import pending_count
from penstock.lake.history.position import position
from penstock.lake.log.blocks import HISTORY
from penstock.lake.storage import durable
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.processes import kill_marked
from penstock.spark.audit import Audit, correction_interval
from penstock.spark.correct import start_epochs
from penstock.spark.rescaler import PARALLELISM
from penstock.spark.stream_host import StreamFailedError
from tests.crash.jobs import NAME, accept_one, change_limits, propose_other, run, small
from tests.crash.life import DEADLINE, Life, environment, mark_of, settings_of
from tests.crash.points import read_trace
from tests.crash.rows import AFTER, DAMAGES, FAILURE, LOSSES, POINTS, SNAPSHOTS, Result
from tests.disk import Disk
from tests.doubles import FixedClock
from tests.lakes import Lake
from tests.spark.conftest import Scene
from tests.spark.test_correct_and_audit import found

SYNCS = "syncs.jsonl"
ON_SPARK = ("stream", "correct")
"""Killed in one of these, a life goes on under Spark, else by the same code without a JVM."""
REBUILDING = ("preload", "backup", "restore")
"""After these a step may begin a new generation: a restored lake has no checkpoints."""
ATTEMPTS = 5
OTHER_CUT = 7
"""Most blocks a micro-batch takes once it goes on: law 0 does not care."""


@contextmanager
def recovering(spark: SparkSession) -> Iterator[None]:
    """The real jobs in this process, over one Spark."""
    with small(OTHER_CUT) as patch:
        patch.setattr(durable, "synced", lambda: True)
        for name in ("preload", "stream", "correct", "audit"):
            module = import_module(f"spark_jobs.{name}")
            patch.setattr(module, "open_session", lambda *_: nullcontext(spark))
        before = signal.getsignal(signal.SIGTERM)  # a heart takes it
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)


@dataclass
class Row:
    """One point of one seed."""

    life: Life
    point: str
    home: Path
    spark: SparkSession

    def __post_init__(self) -> None:
        seed = self.life.seed
        self.draw = random.Random(f"{self.point} {seed}")  # noqa: S311
        jobs = POINTS.get(self.point, ("stream",))
        self.job = jobs[seed % len(jobs)]
        self.times, self.starts = self._times(self.point), 0

    def _times(self, point: str) -> int:
        """At which of its reachings the point kills: the first for the first seed."""
        count = self.life.counts[self.job][point]
        return 1 if self.life.seed == 0 else self.draw.randint(1, max(1, count * 2 // 3))

    def live(self) -> Result:
        """Kill, damage, audit, run again, audit, compare."""
        began = time.monotonic()
        scene = self.crashed()
        scene.write_yaml()
        try:
            with recovering(self.spark):
                self.audit(scene)
                for name in AFTER[self.job]:
                    if name in WITHOUT_JVM and self.job not in ON_SPARK:
                        WITHOUT_JVM[name](list(scene.lakes.values()))
                    else:
                        self.recover(name, scene)
                assert self.audit(scene) == [*scene.lakes]
        finally:
            kill_marked(mark_of(scene), set())
            kill_marked(StreamPaths(scene.home / "streams", NAME).mark, set())
        self.life.check(scene)
        for lake in scene.lakes.values():
            assert pending_count(lake.tables, lake.step) == 0
        if self.job not in REBUILDING and self.point in POINTS and self.starts <= 1:
            for lake in scene.lakes.values():  # a kill alone never costs a checkpoint
                assert len(begun(lake)) == 1
        shutil.rmtree(scene.home)
        seconds = round(time.monotonic() - began, 1)
        return Result(self.point, self.life.seed, self.job, self.times, seconds, self.starts)

    def crashed(self) -> Scene:
        """A scene after its kill."""
        if self.point in DAMAGES or self.point in FAILURE:
            scene = self._damaged()
            if self.point in FAILURE:
                self.kill(scene, self.point, 1)
            return scene
        scene = self.life.at(self.job, self.home)
        if self.point in SNAPSHOTS:
            self._kill_when_seen(scene, SNAPSHOTS[self.point])
        elif self.point in LOSSES:
            disk = Disk(scene.home / "lake")
            disk.settled()
            self.kill(scene, self.point, self.times)
            disk.replay(scene.home / SYNCS)
            assert disk.lose(self.draw)
        else:
            self.kill(scene, self.point, self.times)
        return scene

    def kill(self, scene: Scene, point: str, times: int) -> None:
        """Run the job until it dies at the point."""
        trace = scene.home / f"{time.monotonic_ns()}.trace"
        process = self._start(scene, PENSTOCK_CRASH_TRACE=str(trace),
                              PENSTOCK_CRASH_AT=f"{point}:{times}",
                              PENSTOCK_CRASH_SYNCS=str(scene.home / SYNCS))  # fmt: skip
        code = process.wait(DEADLINE)
        reached = sum(each.point == point for each in read_trace(trace))
        assert reached >= times, f"{point} was reached {reached} times\n{self._log(scene)}"
        if self.job != "launch":  # there a supervisor or its driver dies, not what was started
            assert code == -signal.SIGKILL, f"exit code {code}\n{self._log(scene)}"
            kill_marked(mark_of(scene), set())

    @property
    def program(self) -> str:
        """What ``tests/crash/jobs.py`` runs for the job."""
        return "judge" if self.job == "audit" else self.job

    def _start(self, scene: Scene, **more: str) -> "subprocess.Popen[bytes]":
        with (scene.home / "job.log").open("ab") as output:
            return subprocess.Popen(
                self.life.command(self.program), cwd=Settings().root, stdout=output, stderr=output,
                env=environment(scene, **more),
                start_new_session=True,
            )  # fmt: skip

    @staticmethod
    def _log(scene: Scene) -> str:
        return (scene.home / "job.log").read_text(errors="replace")[-3_000:]

    def _kill_when_seen(self, scene: Scene, pattern: str) -> None:
        """Kill once Spark has begun, or ended, to write a state snapshot."""
        conf = scene.home / "conf"
        conf.mkdir()
        state = "spark.sql.streaming.stateStore"
        (conf / "spark-defaults.conf").write_text(
            f"{state}.maintenanceInterval 50ms\n{state}.minDeltasForSnapshot 1\n"
        )
        process = self._start(scene, SPARK_CONF_DIR=str(conf))
        tables = scene.lake("hourly").tables
        wanted = self.times = self.draw.randint(1, 4)
        seen: set[str] = set()
        until = time.monotonic() + DEADLINE
        while len(seen) < wanted:
            assert process.poll() is None, f"no snapshot\n{self._log(scene)}"
            assert time.monotonic() < until
            with suppress(OSError):
                folder = Path(tables.uri("checkpoints"))
                seen |= {str(p) for p in folder.glob(f"*/*/state/*/*/**/{pattern}")}
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        kill_marked(mark_of(scene), set())

    def _damaged(self) -> Scene:
        """A stream killed between sink and Spark's commit, and what the disk then lost.

        The kill is shared by all damages of a seed.
        """
        crashed, crashing = self.life.folder / "crashed", self.life.folder / "crashing"
        if not crashed.exists():
            shutil.rmtree(crashing, ignore_errors=True)
            draft = self.life.at("stream", crashing)
            self.times = max(3, self.life.counts["stream"]["after speed control"] // 2)
            self.kill(draft, "after speed control", self.times)
            draft.home.rename(crashed)
        scene = self.life.at("preload", self.home)  # nothing yet
        self.life.limits(scene.home, changed=True)
        shutil.copytree(crashed / "lake", scene.home / "lake")
        moved(scene.home / "lake", crashing / "lake")
        damage = "lost state changes" if self.point in FAILURE else self.point
        lose(next(iter(scene.lakes.values())).checkpoint, damage)
        return scene

    def audit(self, scene: Scene) -> list[str]:
        """Whatever happened, an audit is not red; the steps it compared."""
        lake = scene.lake("hourly")
        if not any(position(each.tables, each.step) for each in scene.lakes.values()):
            return []
        interval = correction_interval(lake.pipeline)
        clock = FixedClock(self.life.ended)  # a kept life is old: what waits in it is not overdue
        rows = Audit(self.spark, lake.tables, lake.pipeline, clock).comparisons(interval)
        assert not [(row["step"], found(row), row["examples"]) for row in rows if found(row)]
        return [row["step"] for row in rows]

    def recover(self, name: str, scene: Scene) -> None:
        """Run a job again, a stream as often as its supervisor would."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                run(name, settings_of(scene), "again", OTHER_CUT)
            except StreamFailedError:
                if attempt == ATTEMPTS:
                    raise
                continue
            self.starts = max(self.starts, attempt) if name == "stream" else self.starts
            return


def begun(lake: Lake) -> list[str]:
    """Why generations of its step began, but for another number of tasks."""
    rows = read_table(Table(lake.tables.registry()), ["step", "reason"]).to_pylist()
    mine = [row["reason"] for row in rows if row["step"] == lake.step.id]
    return [reason for reason in mine if reason != PARALLELISM]


def _preload(lakes: list[Lake]) -> None:
    lakes[0].ingest(HISTORY)
    start_epochs(lakes[0].tables, lakes[0].pipeline, lakes[0].clock)
    _correct(lakes)


def _propose(lakes: list[Lake]) -> None:
    hourly = next(lake for lake in lakes if lake.name == "hourly")
    propose_other(hourly.tables, hourly.step, hourly.clock)


def _limit(lakes: list[Lake]) -> None:
    change_limits(lakes[0].tables, lakes[0].pipeline, lakes[0].home, lakes[0].clock)


def _decide(lakes: list[Lake]) -> None:
    accept_one(lakes[0].tables, lakes[0].clock)


def _stream(lakes: list[Lake]) -> None:
    query = lakes[0].query(blocks=OTHER_CUT)
    lakes[0].ingest()
    query.run()


def _correct(lakes: list[Lake]) -> None:
    for lake in lakes:
        lake.correct()


WITHOUT_JVM: dict[str, Callable[[list[Lake]], None]] = {
    "preload": _preload, "limit": _limit, "propose": _propose, "decide": _decide, "stream": _stream,
    "correct": _correct,
}  # fmt: skip


def moved(lake: Path, former: Path) -> None:
    """Let Spark's checkpoints know that the lake was copied: they name a file by its whole path."""
    for path in lake.glob("*/checkpoints/*/*/state/*/_metadata/v2/[0-9]*"):
        path.write_text(path.read_text().replace(str(former), str(lake)))
        path.with_name(f".{path.name}.crc").unlink()


def lose(checkpoint: Path, damage: str) -> None:
    """Remove or empty the newest files of a checkpoint, or a whole folder of it.

    Of state changes the newest two: the very newest are of the micro-batch that is repeated.
    """
    lost = []
    for pattern in DAMAGES[damage]:
        if "*" not in pattern:
            shutil.rmtree(checkpoint / pattern)
            lost.append(checkpoint / pattern)
            continue
        by_folder: dict[Path, list[Path]] = {}
        for path in checkpoint.glob(pattern):
            if path.stem.split("_")[0].isdigit():
                by_folder.setdefault(path.parent, []).append(path)
        for paths in by_folder.values():
            newest = sorted(paths, key=_number)[-2 if "state" in damage else -1 :]
            lost.extend(newest)
            for path in newest:
                path.write_bytes(b"") if damage.startswith("emptied") else path.unlink()
    assert lost, f"{damage}: nothing was there to lose"


def _number(path: Path) -> int:
    return int(path.stem.split("_")[0])
