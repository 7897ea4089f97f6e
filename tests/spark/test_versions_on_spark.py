"""An edit is built beside what is in force on real Spark: jobs, switch, way back and removal."""

import io
import json
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from penstock.config.catalog import Catalog
from penstock.config.kept import approve, build, catalog_in_force, catalog_to_run, keep, take_back
from penstock.config.settings import Settings
from penstock.control.job import runs_on
from penstock.core.batch_size import Bounds
from penstock.core.clock import SystemClock
from penstock.core.request import Job, JobRequest
from penstock.core.window import micros
from penstock.lake.history.generation import generations
from penstock.lake.history.standing import answers_in_force, ever_run, left_behind
from penstock.lake.storage.tables import Tables
from penstock.runtime.streams.linked import LinkedPipelines
from penstock.runtime.streams.outlook import owed_by
from penstock.runtime.terminal.removal import remove_pipeline
from penstock.spark.stream_host import StreamHost
from spark_jobs import audit, correct
from tests.doubles import RecordingPulse, by_script

pytestmark = pytest.mark.spark
FILE = """
source: {{files: "{home}/live", format: jsonl}}
columns: {{site: string}}
event_time: at
steps:
  busy: {{keys: [site], window: {{size: PT{size}M}}, {same}}}
  hour: {{keys: [site], window: {{size: PT1H}}, {same}}}
"""
SAME = "measures: {n: count(*)}, slack: {fixed: PT30S}"
EACH = 120
Counts = dict[tuple[int, str], int]


def record(number: int) -> dict[str, Any]:
    """Ten seconds apart; each seventh comes five minutes late."""
    at = 10 * number - (300 if number % 7 == 0 and number > 60 else 0)
    return {"at": f"2026-01-01T{at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d}Z",
            "site": "ab"[number % 2], "second": at}  # fmt: skip


def counted(records: int, minutes: int, ended: int) -> Counts:
    """Records by window and site, of windows that had ended by a second."""
    rows, size = map(record, range(records)), 60 * minutes
    found = Counter((row["second"] // size * size, row["site"]) for row in rows)
    return {key: count for key, count in found.items() if key[0] + size <= ended}


class Scene:
    """A home folder with a pipeline ``p``, whose edits wait, and its host."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark = spark
        self.settings = Settings(home=home, pipelines=home / "files", approve=True)
        self.tables, self.records = Tables(self.settings.lake_uri, "p"), 0
        for folder in (self.settings.pipelines, home / "live"):
            folder.mkdir()
        self.write(1)

    def write(self, size: int) -> None:
        text = FILE.format(size=size, same=SAME, home=self.settings.home)
        (self.settings.pipelines / "p.yaml").write_text(text)
        keep(self.settings, catalog_to_run(self.settings))

    @property
    def digest(self) -> str:
        return Catalog.read(self.settings.pipelines).pipeline("p").digest

    def arrives(self) -> None:
        first, self.records = self.records, self.records + EACH
        lines = (json.dumps(record(number)) for number in range(first, self.records))
        fresh = self.settings.home / f"{first}.jsonl"
        fresh.write_text("\n".join(lines) + "\n")
        fresh.rename(self.settings.home / "live" / fresh.name)

    def run(self, module: Any, job: Job, name: str) -> None:
        request = JobRequest(job, f"{job}-{self.records}", name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "open_session", lambda *_: nullcontext(self.spark))
            getattr(module, job.value)(request, self.settings)

    def owed(self) -> list[str]:
        return owed_by(self.settings, catalog_in_force(self.settings))["p@next"]

    def answers(self, name: str) -> Counts:
        """What readers see of the step ``busy``."""
        step = catalog_in_force(self.settings).pipeline(name).spec("busy")
        rows = answers_in_force(self.tables, step).to_pylist()
        first = micros(rows[0]["window_start"]) // 1_000_000 if rows else 0
        day = first - first % 86_400
        return {(micros(r["window_start"]) // 1_000_000 - day, r["site"]): r["n"] for r in rows}

    def right(self, **minutes: int) -> bool:
        """Whether every answer that the watermark has closed is there, and right, by version."""
        newest = max(record(number)["second"] for number in range(self.records))
        return all(
            self.answers(name.replace("_", "@")) == counted(self.records, size, newest - 30)
            for name, size in minutes.items()
        )


def test_built_beside_switched_taken_back_and_removed(quick: SparkSession, tmp_path: Path) -> None:
    scene = Scene(quick, tmp_path)
    settings, tables = scene.settings, scene.tables
    pipeline = catalog_to_run(settings).pipeline("p")
    pulse = RecordingPulse()
    host = StreamHost(quick, tables, pipeline, settings.home, SystemClock(), pulse,
                      linked=LinkedPipelines(settings, pipeline))  # fmt: skip

    def until(*steps: str) -> Iterator[bool]:
        scene.arrives()
        while any(pulse.steps.get(s, {}).get("through_seq", -1) + 1 < scene.records for s in steps):
            yield False

    def correct_and_audit(*names: str) -> None:
        for name in names:
            scene.run(correct, Job.CORRECT, name)
            scene.run(audit, Job.AUDIT, name)

    def scripted() -> Generator[bool]:
        yield from until("busy", "hour")
        correct_and_audit("p")
        scene.write(2)
        assert build(settings, "p", scene.digest) is not None
        assert scene.owed() == ["busy has not begun"]
        yield from until("busy", "hour", "busy.2")
        assert scene.owed() == ["busy has not answered its past yet"]
        scene.run(correct, Job.CORRECT, "p@next")
        assert scene.owed() == ["busy has not been audited yet"]
        correct_and_audit("p@next", "p")
        assert scene.owed() == []
        assert scene.right(p=1, p_next=2)
        approve(settings, "p", scene.digest)
        assert scene.right(p=2, p_former=1)
        steps = catalog_in_force(settings).pipeline("p").specs
        assert left_behind(tables, steps) == ["busy"]
        assert left_behind(tables, steps, runs_on(settings, "p")) == []
        yield from until("busy", "hour", "busy.2")
        correct_and_audit("p", "p@former")
        assert scene.right(p=2, p_former=1)
        take_back(settings, "p")
        assert scene.right(p=1, p_next=2)
        out = Console(file=io.StringIO())
        files = settings.home / "definitions"
        (files / "p@next.yaml").unlink()  # as its removal does first, which then waits for the host
        while "busy.2" in pulse.steps:
            yield False
        assert remove_pipeline(settings, "p@next", out, sure=True) == 0
        assert ever_run(tables) == ["busy", "hour"]
        yield from until("busy", "hour")
        correct_and_audit("p")
        assert scene.right(p=1)

    pulse.stop_when = by_script(scripted())
    host.run(Bounds.fixed(64))
    assert not pulse.figures.get("error")
    for step in pipeline.specs:
        assert [g.number for g in generations(tables, step)] == [0], "it went on and on"
