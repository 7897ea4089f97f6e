"""What is measured while the soak runs: progress, memory, files, state."""

import contextlib
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from deltalake import DeltaTable

from penstock.core.place import path_of
from penstock.lake.history.balance import balance
from penstock.lake.history.checkpoint import newest_checkpoint
from penstock.lake.history.position import position
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import data_files
from tests.soak.feeder import Feeder
from tests.soak.keeper import tree
from tests.soak.scene import Scene

EVERY_SECONDS = 10.0
MEBI = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """How things stood at one moment.

    Attributes:
        seconds: since the beginning.
        sealed: records that every step is sealed up to.
        kept: records that are there, neither refused nor frozen.
        late, state_pairs: pairs late so far, pairs open, over both steps.
        memory_mib: resident memory of the stream's processes, shared pages once.
        live_files: data files a reader of the tables opens.
        dead_files: data files replaced by compaction, which vacuum keeps a day.
        log_files: commits and checkpoints in the tables' logs.
        spark_files: of Spark's checkpoints.
        state_mib: size of Spark's checkpoints of the queries that run.
    """

    seconds: float
    sent: int
    sealed: int
    kept: int
    late: int
    quarantined: int
    state_pairs: int
    memory_mib: float
    live_files: int
    dead_files: int
    log_files: int
    spark_files: int
    state_mib: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)


class Gauges(threading.Thread):
    """Takes a sample every few seconds."""

    def __init__(self, scene: Scene, feeder: Feeder) -> None:
        super().__init__(name="gauges", daemon=True)
        self.scene, self.feeder = scene, feeder
        self.began = time.monotonic()
        self.samples: list[Sample] = []
        self.failed: BaseException | None = None
        self._ending = threading.Event()
        self._moved = time.time()

    @property
    def moved(self) -> float:
        """When the last sample was taken in which something new, or all, was sealed; epoch s."""
        return self._moved

    def run(self) -> None:
        try:
            while not self._ending.wait(EVERY_SECONDS):
                self.take()
        except BaseException as failed:  # noqa: BLE001  the main thread ends the run with it
            self.failed = failed

    def end(self) -> None:
        self._ending.set()
        self.join()

    def take(self) -> Sample:
        """One sample now."""
        scene, sent = self.scene, self.feeder.sent
        specs = scene.pipeline.specs
        at = [position(scene.tables, step) for step in specs]
        found = [each for step in specs if (each := balance(scene.tables, step)) is not None]
        sample = Sample(
            seconds=time.monotonic() - self.began,
            sent=sent,
            sealed=min(0 if a is None else a.sealed.seq + 1 for a in at),
            kept=self._kept(),
            late=sum(each.late for each in found),
            quarantined=max((each.quarantined for each in found), default=0),
            state_pairs=sum(0 if a is None else a.sealed.open_pairs for a in at),
            memory_mib=sum(_resident(p) for p in tree(scene)) / MEBI,
            **self._files(),
            state_mib=sum(map(self._state, scene.pipeline.queries)) / MEBI,
        )
        if not self.samples or sample.sealed > self.samples[-1].sealed or sample.sealed == sent:
            self._moved = time.time()
        self.samples.append(sample)
        return sample

    def _kept(self) -> int:
        delta = Table(self.scene.tables.events(self.scene.pipeline.types)).newest()
        return 0 if delta is None else sum(f.rows for f in data_files(delta, "arrival_seq"))

    def _state(self, query: str) -> int:
        folder = path_of(newest_checkpoint(self.scene.tables, query).uri)
        return sum(_size(path) for path in folder.rglob("*"))

    def _files(self) -> dict[str, int]:
        spark = self.scene.lake / "checkpoints"
        tables = [path.parent for path in self.scene.lake.rglob("_delta_log")]
        live = sum(len(DeltaTable(str(table)).file_uris()) for table in tables)
        data = sum(_count(table, "**/*.parquet") for table in tables)
        logs = [_count(table / "_delta_log", "*") for table in tables]
        parquet_logs = sum(_count(table / "_delta_log", "*.parquet") for table in tables)
        return {
            "live_files": live,
            "dead_files": max(0, data - parquet_logs - live),
            "log_files": sum(logs),
            "spark_files": _count(spark, "**/*"),
        }


def _count(folder: Path, pattern: str) -> int:
    return sum(1 for _ in folder.glob(pattern))


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def _resident(process: psutil.Process) -> int:
    """Bytes of memory; pages that processes share count once among them."""
    with contextlib.suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0
