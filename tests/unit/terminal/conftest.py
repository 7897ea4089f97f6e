"""A small pipeline with a real log; its answers are written by hand, so that none needs a JVM.

Six records at two doors. A's window of 10:00 was answered with one record, a second one came
late; B's window of 10:01 had only a late record; B's window of 10:02 was right at once.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.__main__ import main
from penstock.config.catalog import Catalog
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.core.step import StepSpec
from penstock.core.window import FOREVER, micros
from penstock.lake.history.registry import Registry
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import LIVE
from penstock.lake.storage.commit import Table
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables
from penstock.runtime.streams.paths import StreamPaths, take_lock

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
TEN = datetime(2024, 5, 1, 10, tzinfo=UTC)
FILE = """\
description: People at doors
source: {files: doors, format: jsonl, mode: bounded}
columns: {door: string, seconds: double}
event_time: at
steps:
  per_door:
    keys: [door]
    window: {size: PT1M}
    measures: {people: count(*), mean_seconds: avg(seconds)}
    slack: {fixed: PT10S}
  passing:
    where: seconds < 5
    window: {size: PT10M, slide: PT5M}
    measures: {people: count(*)}
    slack: {max_delay: {bound: PT1H}}
"""


@dataclass
class FixedClock:
    at: datetime = NOON

    def now(self) -> datetime:
        return self.at


@dataclass
class World:
    """A home folder with the pipeline ``doors``."""

    settings: Settings

    @property
    def pipeline(self) -> Pipeline:
        return Catalog.read(self.settings.pipelines).pipeline("doors")

    @property
    def tables(self) -> Tables:
        return Tables(self.settings.lake_uri, "doors")

    @property
    def step(self) -> StepSpec:
        return self.pipeline.spec("per_door")

    @contextmanager
    def stream_holds(self, which: str) -> Iterator[str]:
        """One of the locks of the pipeline's stream is held; what a command says of that."""
        paths = StreamPaths(self.settings.streams, "doors")
        paths.folder.mkdir(parents=True, exist_ok=True)
        paths.supervisor_lock.touch()
        lock = take_lock(getattr(paths, which))
        assert lock is not None
        yield "stream doors runs"
        os.close(lock)

    def receive(self) -> None:
        """Six records come in by the door, one of them without a key."""
        folder = self.settings.home / "doors"
        folder.mkdir(parents=True)
        records: list[dict[str, Any]] = [
            {"at": "2024-05-01T10:00:05", "door": "A", "seconds": 2.0},
            {"at": "2024-05-01T10:02:40", "door": "B", "seconds": 8.0},
            {"at": "2024-05-01T10:02:50", "door": None, "seconds": 1.0},
            {"at": "2024-05-01T10:02:55", "door": "B", "seconds": 4.0},
            {"at": "2024-05-01T10:00:50", "door": "A", "seconds": 4.0},
            {"at": "2024-05-01T10:01:10", "door": "B", "seconds": 7.0},
        ]
        (folder / "one.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
        door = Door(self.tables, self.pipeline, self.settings.home, FixedClock())
        run_through(door, LIVE, None, None)

    def register(self) -> None:
        """The step starts before any record."""
        Registry(self.tables, FixedClock(), self.pipeline).start_all()

    def answer(self) -> None:
        """What the speed layer said, sealed; and an answer that it has not sealed yet."""
        self._put(self.tables.answers(self.step), [
            _answer("A", 0, 1, 2.0, 0, "speed", 3),
            _answer("B", 2, 2, 6.0, 0, "speed", 5),
            _answer("B", 3, 9, 9.0, 0, "speed", 9) | {"micro_batch": 1},
        ])  # fmt: skip
        self._put(self.tables.late(self.step, []), [
            _late("A", 0, 4), _late("B", 1, 5),
        ])  # fmt: skip
        self._put(self.tables.control(self.step), [{
            "generation": 0, "micro_batch": 0, "block": 2, "through_seq": 5,
            "watermark_us": FOREVER, "t_max_us": micros(TEN + timedelta(seconds=175)),
            "k_us": 0, "slack_us": 10_000_000, "records": 5, "pairs_late": 2,
            "pairs_answered": 3, "late_total": 2, "answered_total": 3, "pairs_open": 0,
            "answers": 2, "published_at": NOON,
        }])  # fmt: skip

    def correct(self) -> None:
        """A correction repaired both windows that late records touched."""
        self._put(self.tables.answers(self.step), [
            _answer("A", 0, 2, 3.0, 1, "late", 5) | PLANNED,
            _answer("B", 1, 1, 7.0, 1, "late", 5) | PLANNED,
        ])  # fmt: skip
        plan = {
            "step": "per_door", "fingerprint": self.step.fingerprint, "epoch": 0, "plan": 1,
            "reason": "late", "after_seq": -1, "through_seq": 5, "watermark_us": FOREVER,
            "recheck": False, "run_id": "manual__one", "recorded_at": NOON,
        }  # fmt: skip
        done = {"state": "done", "answers": 2, "changed": 2}
        self._put(self.tables.corrections(), [plan | {"state": "planned"}, plan | done])

    def _put(self, spec: TableSpec, rows: list[dict[str, Any]]) -> None:
        table = Table(spec)
        content = pa.Table.from_pylist(rows, schema=spec.schema)
        table.append(content, f"test{table.delta.version()}", 0)


PLANNED = {"generation": None, "micro_batch": None, "plan": 1}
"""Of an answer: a correction's."""


def _answer(
    door: str, minute: int, people: int, mean: float, revision: int, reason: str, through: int
) -> dict[str, Any]:
    start = TEN + timedelta(minutes=minute)
    return {
        "door": door, "window_start": start, "window_end": start + timedelta(minutes=1),
        "people": people, "mean_seconds": mean, "n_records": people, "revision": revision,
        "reason": reason, "epoch": 0, "generation": 0, "micro_batch": 0, "plan": None,
        "through_seq": through, "published_at": NOON,
    }  # fmt: skip


def _late(door: str, minute: int, seq: int) -> dict[str, Any]:
    start = TEN + timedelta(minutes=minute)
    return {
        "door": door, "window_start": start, "window_end": start + timedelta(minutes=1),
        "n_records": 1, "last_seq": seq, "reason": "late", "generation": 0, "micro_batch": 0,
        "published_at": NOON,
    }  # fmt: skip


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The pipeline, of which nothing has run."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "doors.yaml").write_text(FILE)
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PENSTOCK_PIPELINES", str(tmp_path / "pipelines"))
    monkeypatch.delenv("PENSTOCK_LAKE", raising=False)
    return World(Settings())


@pytest.fixture
def corrected(world: World) -> World:
    """The pipeline after its stream and one correction."""
    world.register()
    world.receive()
    world.answer()
    world.correct()
    return world


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command; gives exit status, what it said and what it complained of."""

    def call(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(argv)
        said = capsys.readouterr()
        return status, said.out, said.err

    return call
