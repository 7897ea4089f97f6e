"""The jobs of a life, as a process to be killed and for the one that recovers.

``python tests/crash/jobs.py BLOCKS JOB...`` runs the real jobs one after the other in one process:
``preload``, ``stream``, ``correct``, ``audit``, ``maintain``; ``ingest``, the door alone;
``launch``, a supervisor whose driver is ``ingest``; ``judge``, an audit of comparisons that were
made before, so that no JVM is needed; ``robbed``, an audit that loses a node;
``failure``, the note of a failed query;
``limit``, side data that is unfit, then another one; ``propose``, another threshold of coverage,
and what two steps are to shed;
``decide``, a person's decision on a file; ``backup`` of the lake, and ``restore`` of it, in its
place; ``keep:NAME``, a copy of the lake.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from rich.console import Console

from penstock.config.catalog import Catalog
from penstock.config.kept import approve, build, catalog_to_run, keep, take_back
from penstock.config.pipeline import TOGETHER, Pipeline
from penstock.config.settings import Settings
from penstock.config.shares import shares_of
from penstock.core import crash
from penstock.core.batch_size import Bounds
from penstock.core.clock import Clock, SystemClock
from penstock.core.request import Job, JobRequest
from penstock.core.rescaling import Prediction
from penstock.core.step import StepSpec
from penstock.lake.history import maintain
from penstock.lake.history.checkpoint import note_failure
from penstock.lake.history.registry import Registry
from penstock.lake.ingest import door, pieces, side_files, source
from penstock.lake.ingest.side_files import SideFiles
from penstock.lake.ingest.through import run_through
from penstock.lake.log import files
from penstock.lake.log.blocks import LIVE
from penstock.lake.log.proposed import propose, shed
from penstock.lake.log.rescalings import rescalings
from penstock.lake.log.sheds import owner
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables
from penstock.runtime.embedded.backup import back_up, restore
from penstock.runtime.streams import control, links
from penstock.runtime.streams.heart import Heart
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.spec import Limits, StreamSpec
from penstock.spark import results, stream_host
from penstock.spark.rescaler import Rescaler
from penstock.spark.shed import ShedWatch
from penstock.spark.stream_host import StreamHost

NAME = "p"
BACKUPS = "backups"
COMPARISONS = "comparisons.json"
SHARED = """source: {files: live, format: jsonl}
columns: {site: string}
event_time: at
steps:
  s: {keys: [site], window: {size: PT1M}, measures: {n: count(*)}, slack: {fixed: PT1S}}
"""
LIMITS, NEXT = "limits.csv", "next.csv"
"""Side data, and what comes in its place."""
UNFIT = "a,b,seconds\n1,2,5\n1,2,6\n"
QUICK = Limits(tick=0.05, backoff=0.05, backoff_most=0.2)
PATIENCE = 60.0
THRESHOLD = 0.85
RESCALED = 3
WAYS = {"hourly": Prediction(0.0, 1.0), "moved": Prediction(0.0, 1.0), "own": Prediction(0.0, 1.0),
        "since": Prediction(None, 1.0)}  # fmt: skip
"""Steps that are cut into so many tasks while the stream runs; the last one is rebuilt for it."""
Asked: TypeAlias = Mapping[str, tuple[str, StepSpec]]
SHED = {"pairs": 30, "last": 20}
"""Per cent of the records, by step."""


@contextmanager
def small(blocks: int) -> Iterator[pytest.MonkeyPatch]:
    """Much happens to few records: small blocks, plans and micro-batches, early compaction."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "BLOCK", 128)
        patch.setattr(source, "FILES_PER_PLAN", 4)
        patch.setattr(pieces, "LARGE_ROWS", 0.5)
        patch.setattr(pieces, "EACH", 0.5)  # whoever plans it, a plan holds as much
        patch.setattr(maintain, "FEW_FILES", 3)
        patch.setattr(side_files, "SETTLED", timedelta())
        patch.setattr(results, "LARGE", 2_000)  # some of a life's results
        patch.setattr(ShedWatch, "look", lambda *_: None)  # how far it is behind is the machine's
        patch.setattr(StreamHost, "_asked", rescaled(StreamHost._asked))
        patch.setattr(Rescaler, "_predicted", lambda _, each, __: (WAYS[each.step.id], 0))
        patch.setattr(stream_host, "FOLLOW_SECONDS", 0.0)
        patch.setattr(StreamHost.run, "__defaults__", (Bounds.fixed((blocks - 1) * 128 + 1),))
        yield patch


def rescaled(asked: Callable[[StreamHost], Asked]) -> Callable[[StreamHost], Asked]:
    """What a host is asked for; once some steps have sealed something, in other tasks than so far.

    Whoever comes after one who was killed asks for them from the start.
    """
    begun = set[str]()

    def other(self: StreamHost) -> Asked:
        found = dict(asked(self))
        if not self.hosted.steps:
            begun.update(each.run for each in rescalings(self.tables))
        for name in found.keys() & WAYS.keys():
            known = self.hosted.steps.get(name)
            if name in begun or (known is not None and known.micro_batches):
                begun.add(name)
                query, step = found[name]
                found[name] = query, replace(step, parallelism=RESCALED)
        return found

    return other


def run(name: str, settings: Settings, run_id: str, blocks: int) -> None:
    """Run one job in this process."""
    if name in OWN:
        OWN[name](settings, blocks)
        return
    request = JobRequest(Job(name), run_id, NAME)
    getattr(import_module(f"spark_jobs.{name}"), name)(request, settings)


def _ingest(settings: Settings, _blocks: int) -> None:
    pipeline = Catalog.read(settings.pipelines).pipeline(NAME)
    tables, clock = Tables(settings.lake_uri, NAME), SystemClock()
    with Heart(StreamPaths(settings.streams, NAME)):
        Registry(tables, clock, pipeline).start_all()
        run_through(door.Door(tables, pipeline, settings.home, clock), LIVE, None, None)


def _launch(settings: Settings, blocks: int) -> None:
    paths = StreamPaths(settings.streams, NAME)
    spec = StreamSpec.of(settings, NAME, None)
    spec = replace(spec, argv=(sys.executable, __file__, str(blocks), "ingest"), limits=QUICK)
    _share(settings)
    assert links.link(paths, NAME)
    control.ensure_supervisor(paths, spec)
    assert control.wait_until_ended(paths, PATIENCE), control.status(paths)
    assert control.status(paths).state == "finished", control.status(paths)
    links.unlink(settings.streams, NAME, "ended")


def _share(settings: Settings) -> None:
    """As whoever runs steps that two pipelines on one log have; they are beside the others."""
    beside = settings.home / "beside"
    settings = settings.model_copy(update={"home": beside, "pipelines": beside})
    beside.mkdir(exist_ok=True)
    (beside / "a.yaml").write_text(SHARED)
    (beside / "b.yaml").write_text("source: {pipeline: a}\n" + SHARED[SHARED.index("steps") :])
    known = catalog_to_run(settings)
    assert [step.id for each in known.pipelines for step in each.specs] == ["s", "s"]
    assert len(shares_of(settings).runs) >= len(known.every)
    _edit(settings.model_copy(update={"approve": True}), beside / "b.yaml")


def _edit(settings: Settings, file: Path) -> None:
    """As whoever has an edit built beside what is in force, switches to it, and takes it back."""
    keep(settings, catalog_to_run(settings))
    file.write_text(file.read_text().replace("PT1M", "PT2M"))
    digest = Catalog.read(settings.pipelines).pipeline("b").digest
    build(settings, "b", digest)
    approve(settings, "b", digest)
    take_back(settings, "b")
    found = {each.name: each.specs[0].id for each in catalog_to_run(settings).every}
    assert found == {"a": "s", "b": "s", "b@next": "b.s"}


def _propose(settings: Settings, _blocks: int) -> None:
    """As a correction does that has measured a threshold, and a host that is behind."""
    pipeline = Catalog.read(settings.pipelines).pipeline(NAME)
    propose_other(Tables(settings.lake_uri, NAME), pipeline.spec("hourly"), SystemClock())


def propose_other(tables: Tables, step: StepSpec, clock: Clock) -> None:
    """Another threshold of coverage than the pipeline file's; and of other steps some is shed."""
    for name, ratio in SHED.items():
        shed(tables, owner(name), ratio, "behind", clock)
    assert step.slack.tuning is not None
    spec = replace(step.slack, tuning=replace(step.slack.tuning, threshold=THRESHOLD))
    propose(tables, step, spec, "measured", clock)


def _limit(settings: Settings, _blocks: int) -> None:
    """As a stream does that looks twice while somebody changes the limits."""
    pipeline = Catalog.read(settings.pipelines).pipeline(NAME)
    change_limits(Tables(settings.lake_uri, NAME), pipeline, settings.home, SystemClock())


def change_limits(tables: Tables, pipeline: Pipeline, home: Path, clock: Clock) -> None:
    """Content that cannot be used, then the next one that can."""
    there, looking = home / LIMITS, SideFiles(tables, [pipeline], home, clock)
    there.write_text(UNFIT)
    looking.look()
    shutil.copy(home / NEXT, there)
    looking.look()


def _decide(settings: Settings, _blocks: int) -> None:
    """As a person does who accepts an unreadable file."""
    accept_one(Tables(settings.lake_uri, NAME), SystemClock())


def accept_one(tables: Tables, clock: Clock) -> None:
    """A decision that changes nothing of what is read."""
    table = Table(tables.decisions())
    files.decide(table, files.ACCEPTED, [], "seen", clock.now(), block=0, numbers=[0])


def _backup(settings: Settings, _blocks: int) -> None:
    back_up(settings, settings.home / BACKUPS, SystemClock(), Console(stderr=True))


def _restore(settings: Settings, _blocks: int) -> None:
    folder, out = settings.home / BACKUPS, Console(stderr=True)
    restore(settings, folder, SystemClock(), out, replace=True)


def _failure(settings: Settings, _blocks: int) -> None:
    note_failure(Tables(settings.lake_uri, NAME), TOGETHER)


def _judge(settings: Settings, _blocks: int) -> None:
    from spark_jobs import audit

    rows = json.loads((settings.home / COMPARISONS).read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "open_session", lambda *_: nullcontext())
        patch.setattr(audit.Audit, "comparisons", lambda *_: rows)
        audit.audit(JobRequest(Job.AUDIT, "judge", NAME), settings)


def _robbed(settings: Settings, _blocks: int) -> None:
    """With a task of it, once so many are done."""
    from spark_jobs import audit
    from tests.crash.losing import AFTER, losing

    comparisons, done = audit.Audit.comparisons, int(os.environ[AFTER])

    def robbed(self: audit.Audit, interval: timedelta) -> list[dict[str, Any]]:
        with losing(self.spark, settings, done):
            return comparisons(self, interval)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit.Audit, "comparisons", robbed)
        audit.audit(JobRequest(Job.AUDIT, "robbed", NAME), settings)


OWN = {"ingest": _ingest, "launch": _launch, "judge": _judge, "robbed": _robbed,
       "failure": _failure, "limit": _limit, "propose": _propose,
       "decide": _decide, "backup": _backup, "restore": _restore}  # fmt: skip

if __name__ == "__main__":
    blocks, settings = int(sys.argv[1]), Settings()
    with small(blocks):
        for number, job in enumerate(sys.argv[2:]):
            kind, _, name = job.partition(":")
            if kind == "keep":
                shutil.copytree(settings.home / "lake", settings.home / name)
                continue
            crash.reached("#", job)
            run(job, settings, f"life-{number}", blocks)
