"""The matrix: every point, in which job it kills, by which seed; and one row's course."""

import json
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
from typing import Any

from pyspark.sql import SparkSession

from penstock.config.settings import Settings
from penstock.core.clock import SystemClock
from penstock.lake.correction import pending_count
from penstock.lake.generation import generations
from penstock.lake.log import HISTORY
from penstock.lake.tables import local
from penstock.lake.view import position
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.processes import kill_marked
from penstock.spark.audit import Audit, correction_interval
from penstock.spark.correct import start_epochs
from penstock.spark.stream_host import StreamFailedError
from tests.crash.jobs import NAME, propose_other, run, small
from tests.crash.life import DEADLINE, Life, environment, mark_of, settings_of
from tests.crash.points import read_trace
from tests.lakes import Lake
from tests.spark.conftest import Scene
from tests.spark.test_correct_and_audit import found

SEEDS = (0, 1, 2)
SIDES = ("before", "after")
DOOR = ("ingest", "stream", "preload")
COMMITS = {
    "ingest plans": DOOR, "ingest quarantine": DOOR, "ingest events": DOOR, "ingest blocks": DOOR,
    "registry registry": ("preload",), "slack decisions": ("preload",),
    "speed late": ("stream",), "speed answers": ("stream",), "speed control": ("stream",),
    "proposal decisions": ("propose",), "plan decisions": ("ingest", "stream"),
    "coverage coverage": ("correct",),
    "plan corrections": ("correct", "preload"), "correct answers": ("correct", "preload"),
    "done corrections": ("correct", "preload"),
    "audit audits": ("audit",), "report": ("audit",), "create": ("preload", "stream"),
    "status p.spec.json": ("launch",), "status p.supervisor.json": ("launch",),
    "status p.start.json": ("launch",), "status p.driver.json": ("launch",),
}  # fmt: skip
POINTS: dict[str, tuple[str, ...]] = {
    f"{side} {commit}": jobs for commit, jobs in COMMITS.items() for side in SIDES
}
POINTS |= dict.fromkeys(
    ["speed start", "speed begin", "speed offset", "speed cut", "speed read", "before state",
     "inside state", "after state", "speed sink"], ("stream",),
)  # fmt: skip
POINTS |= dict.fromkeys(["suite begun", "suite cleared", "suite judged"], ("audit",))
POINTS |= dict.fromkeys(
    ["before compact", "before vacuum", "before checkpoint", "before cleanup", "after cleanup"],
    ("maintain",),
)
POINTS |= dict.fromkeys(
    ["supervisor launched", "supervisor detached", "supervisor driving"], ("launch",)
)
FAILURE = ("before failure", "after failure")
POINTS |= dict.fromkeys(FAILURE, ("stream",))

SNAPSHOTS = {"inside a snapshot": ".*.zip*.tmp", "after a snapshot": "*.zip"}
"""Not points of ours: Spark's maintenance uploads them, and the harness watches the folder."""
DAMAGES: dict[str, tuple[str, ...]] = {
    "lost commit": ("commits/*",),
    "lost commit and offset": ("commits/*", "offsets/*"),
    "emptied commit": ("commits/*",),
    "emptied offset": ("offsets/*",),
    "emptied offset and commit": ("commits/*", "offsets/*"),
    "lost state changes": ("state/*/*/*.changelog",),
    "emptied state changes": ("state/*/*/*.changelog",),
    "lost state": ("state",),
    "lost checkpoint": (".",),
}
"""What a disk may have lost after the kill: the newest of these files, or a folder."""
ROWS = (*POINTS, *SNAPSHOTS, *DAMAGES)
AFTER: dict[str, tuple[str, ...]] = {
    "preload": ("preload", "propose", "stream", "correct"),
    "propose": ("propose", "stream", "correct"), "ingest": ("stream", "correct"),
    "launch": ("launch", "stream", "correct"), "stream": ("stream", "correct"),
    "correct": ("correct",), "audit": ("audit",), "maintain": ("maintain", "correct"),
}  # fmt: skip
"""What is run again after a kill; an audit comes last always."""
ON_SPARK = ("stream", "correct")
"""Killed in one of these, a life goes on under Spark, else by the same code without a JVM."""
ATTEMPTS = 5
OTHER_CUT = 7
"""Most blocks a micro-batch takes once it goes on: law 0 does not care."""


@dataclass
class Result:
    """One row's outcome."""

    point: str
    seed: int
    job: str
    times: int
    seconds: float
    starts: int = 1
    """How often the stream had to be started until it went on."""


@contextmanager
def recovering(spark: SparkSession) -> Iterator[None]:
    """The real jobs in this process, over one Spark."""
    with small(OTHER_CUT) as patch:
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
        if self.job != "preload" and self.point in POINTS and self.starts <= 1:
            for lake in scene.lakes.values():  # a kill alone never costs a checkpoint
                assert len(generations(lake.tables, lake.step)) == 1
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
        else:
            self.kill(scene, self.point, self.times)
        return scene

    def kill(self, scene: Scene, point: str, times: int) -> None:
        """Run the job until it dies at the point."""
        trace = scene.home / f"{time.monotonic_ns()}.trace"
        process = self._start(scene, PENSTOCK_CRASH_TRACE=str(trace),
                              PENSTOCK_CRASH_AT=f"{point}:{times}")  # fmt: skip
        code = process.wait(DEADLINE)
        reached = sum(each.point == point for each in read_trace(trace))
        assert reached >= times, f"{point} was reached {reached} times\n{self._log(scene)}"
        if self.job != "launch":  # there a supervisor or its driver dies, not what was started
            assert code == -signal.SIGKILL, f"exit code {code}\n{self._log(scene)}"
            kill_marked(mark_of(scene), set())

    def _start(self, scene: Scene, **more: str) -> "subprocess.Popen[bytes]":
        job = "judge" if self.job == "audit" else self.job
        with (scene.home / "job.log").open("ab") as output:
            return subprocess.Popen(
                self.life.command(job), cwd=Settings().root, stdout=output, stderr=output,
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
                seen |= {str(p) for p in folder.glob(f"*/*/*/state/*/*/**/{pattern}")}
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
        shutil.copytree(crashed / "lake", scene.home / "lake")
        moved(scene.home / "lake", crashing / "lake")
        damage = "lost state changes" if self.point in FAILURE else self.point
        for lake in scene.lakes.values():
            number = generations(lake.tables, lake.step)[-1].number
            lose(local(lake.tables.checkpoint(lake.step, number)), damage)
        return scene

    def audit(self, scene: Scene) -> list[str]:
        """Whatever happened, an audit is not red; the steps it compared."""
        lake = scene.lake("hourly")
        if not any(position(each.tables, each.step) for each in scene.lakes.values()):
            return []
        interval = correction_interval(lake.pipeline)
        rows = Audit(self.spark, lake.tables, lake.pipeline, SystemClock()).comparisons(interval)
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


def _preload(lakes: list[Lake]) -> None:
    lakes[0].ingest(HISTORY)
    start_epochs(lakes[0].tables, lakes[0].pipeline, lakes[0].clock)
    _correct(lakes)


def _propose(lakes: list[Lake]) -> None:
    hourly = next(lake for lake in lakes if lake.name == "hourly")
    propose_other(hourly.tables, hourly.step, hourly.clock)


def _stream(lakes: list[Lake]) -> None:
    queries = [lake.query(blocks=OTHER_CUT) for lake in lakes]
    lakes[0].ingest()
    for query in queries:
        query.run()


def _correct(lakes: list[Lake]) -> None:
    for lake in lakes:
        lake.correct()


WITHOUT_JVM: dict[str, Callable[[list[Lake]], None]] = {
    "preload": _preload, "propose": _propose, "stream": _stream, "correct": _correct,
}  # fmt: skip


def moved(lake: Path, former: Path) -> None:
    """Let Spark's checkpoints know that the lake was copied: they name a file by its whole path."""
    for path in lake.glob("*/checkpoints/*/*/*/state/*/_metadata/v2/[0-9]*"):
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


class Kept:
    """Results of passed rows, kept for the same code: an interrupted matrix goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[tuple[str, int], dict[str, Any]] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            row = json.loads(line)
            self.rows[row["point"], row["seed"]] = row

    def or_else(self, point: str, seed: int, live: Callable[[], Result]) -> dict[str, Any]:
        """A row's kept result, or a new one."""
        if (point, seed) not in self.rows:
            row = vars(live())
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            self.rows[point, seed] = row
        return self.rows[point, seed]

    def table(self) -> list[str]:
        """Point by seed, for people."""
        out = [f"{'point':<32} {'seeds':<40} seconds, at most"]
        for point in ROWS:
            mine = [self.rows.get((point, seed)) for seed in SEEDS]
            said = [f"{r['job']}:{r['times']}" if r else "not run" for r in mine]
            most = max((r["seconds"] for r in mine if r), default=0)
            out.append(f"{point:<32} {'  '.join(f'{x:<12}' for x in said):<40} {most:7.1f}")
        done = sum((p, s) in self.rows for p in ROWS for s in SEEDS)
        out.append(f"{done} of {len(ROWS)} x {len(SEEDS)} = {len(ROWS) * len(SEEDS)} rows passed")
        return out
