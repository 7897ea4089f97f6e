"""Power losses: whatever of what was not synced is lost or cut short, the log and its answers hold.

What a loss is: ``tests/disk.py``. With real processes: ``tests/crash/matrix.py``.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.core.place import path_of
from penstock.core.window import micros
from penstock.lake.history import maintain as maintain_module
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.ingest import door as door_module
from penstock.lake.log.blocks import HISTORY
from penstock.lake.log.proposed import propose
from penstock.lake.proof.audits import record_audit
from penstock.lake.proof.covered import Recorder
from penstock.lake.storage import commit as commit_module
from penstock.lake.storage import durable
from penstock.lake.storage.commit import Table
from penstock.spark import results
from penstock.spark.correct import start_epochs
from tests.disk import Disk
from tests.doubles import Killed, lose_memory
from tests.lakes import ROWS, Lake, arrive, fed
from tests.rarely import rare
from tests.steps import case_of
from tests.streams import write_jsonl
from tests.worlds import World

pytestmark = pytest.mark.law


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk(tmp_path)
    found.settled()
    monkeypatch.setattr(durable, "synced", lambda: True)
    monkeypatch.setattr(durable, "sync", found.sync)
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(commit_module, "CHECKPOINT_EVERY", 4)
    monkeypatch.setattr(results, "LARGE", 300)
    return found


def journey(home: Path) -> Iterator[Callable[[], Any]]:
    """Every job of a small lake, one after the other."""
    lake = fed(home)
    for _ in range(3):
        arrive(lake, 2)
        yield lake.ingest
        yield lambda: lake.query(blocks=2).run()
    yield lake.correct
    yield lambda: maintain_pipeline(lake.tables, lake.pipeline)


def test_whatever_a_commit_depends_on_lasts_before_it_is_made(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintain_module, "FEW_FILES", 2)
    home = tmp_path / "home"
    swap, commits = Table.swap, list[str]()

    def watched(self: Table, *arguments: Any) -> None:
        tables = [p for p in disk.fragile() if (home / "lake") in p.parents]
        assert not tables, f"before a commit of {self.spec.name}"
        commits.append(self.spec.name)
        swap(self, *arguments)

    monkeypatch.setattr(Table, "swap", watched)
    for job in journey(home):
        job()
        assert [p for p in disk.fragile() if (home / "lake") in p.parents] == []
    assert set(commits) >= {"plans", "quarantine", "events", "blocks", "late", "answers",
                            "control", "corrections", "registry", "decisions"}  # fmt: skip


@pytest.mark.parametrize("seed", [*range(4), *(rare(n) for n in range(4, 40))])
def test_after_any_power_loss_the_laws_hold(disk: Disk, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311
    for name in ("live", "history"):
        (tmp_path / "home" / name).mkdir(parents=True)
    world = World(tmp_path / "home", case_of(seed), seed)
    lost = kills = 0
    disk.dies_at = disk.needed + draw.randint(1, 30)
    for _ in range(60):
        world.step()
        if world.counts["kills"] > kills:
            kills, disk.dies_at = world.counts["kills"], -1
            for path in tmp_path.rglob("live/*"):
                disk.sync(path)
                disk.sync(path.parent)
            lost += disk.lose(draw)
            disk.dies_at = disk.needed + draw.randint(1, 30)
    disk.dies_at = -1
    world.finish()
    world.lake.check()
    assert lost


def test_the_setting_switches_it_off(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "synced", lambda: False)
    before = disk.syncs
    for job in journey(tmp_path / "home"):
        job()
    assert disk.syncs == before


def test_a_sync_reaches_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "synced", lambda: True)
    fsync, seen = os.fsync, set[str]()

    def counted(at: int) -> None:
        seen.add(str(Path(f"/proc/self/fd/{at}").readlink()))
        fsync(at)

    monkeypatch.setattr(os, "fsync", counted)
    lake = fed(tmp_path)
    arrive(lake)
    lake.ingest()
    folder = tmp_path / "lake" / "p"
    for table in ("plans", "events", "blocks"):
        files = {str(p) for p in (folder / table).rglob("*.parquet")}
        assert files
        assert files <= seen
        assert str(folder / table / "_delta_log" / f"{1:020d}.json") in seen
        assert {str(folder), str(folder / table), str(folder / table / "_delta_log")} <= seen


LOG = {"plans", "quarantine", "events", "blocks"}
START = {"registry", "decisions"}
DEPENDS = {
    "ingest plans": LOG,
    "ingest quarantine": {"plans", "quarantine"},
    "ingest events": {"plans", "quarantine", "events"},
    "ingest blocks": LOG,
    "plan decisions": {*LOG, "decisions"},
    "slack decisions": {"decisions", "blocks"},
    "registry registry": {*START, "blocks", "control"},
    "speed late": {*START, "late"},
    "speed answers": {*START, "answers"},
    "speed control": {*START, "blocks", "late", "answers", "control"},
    "plan corrections": {"corrections", "registry", "control"},
    "correct answers": {"answers", "corrections", "control"},
    "done corrections": {"corrections", "answers"},
    "coverage coverage": {"coverage", "control", "corrections", "answers"},
    "proposal decisions": {"decisions", "coverage"},
    "audit audits": {"audits", "blocks", "control", "corrections"},
}
"""What of the lake a commit speaks for, or was decided from."""


def test_what_a_killed_process_had_not_synced_lasts_before_another_depends_on_it(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the first commits of each kind, before their syncs; the jobs run again."""
    home = tmp_path / "home"
    folder = home / "lake" / "p"
    killed = Counter[str]()

    def point(side: str, *kind: str) -> None:
        name = " ".join(kind)
        if side == "before" and name in DEPENDS:
            fragile = disk.fragile()
            assert not {folder, folder.parent} & {*fragile}
            inside = [p.relative_to(folder) for p in fragile if folder in p.parents]
            early = [p for p in inside if p.parts[0] in DEPENDS[name]]
            assert not early, f"{name} was committed before what it depends on lasted"
        if side == "within" and name in DEPENDS and not killed[name]:
            killed[name] += 1
            raise Killed

    lake = fed(home)
    monkeypatch.setattr(maintain_module, "FEW_FILES", 2)
    monkeypatch.setattr(commit_module, "reached", point)
    coverage = Recorder(lake.tables, lake.pipeline, lake.step, lake.clock)
    proposed = [lake.tables, lake.step, lake.step.slack, "measured", lake.clock]
    for job in (coverage.record, lambda: propose(*proposed), lambda: edit(lake)):
        arrive(lake, 2)
        jobs = [lake.ingest, lambda: lake.query(blocks=2).run(), lake.correct, job]
        while [each for each in jobs if dies(each)]:  # the others go on first
            pass
    rows = [{"step": lake.name, "through_seq": 1, "answers_compared": 1}]
    audited = [lake.tables, [lake.step], "r", lake.clock.now(), rows, True, []]
    while dies(lambda: record_audit(*audited)):
        pass
    maintain_pipeline(lake.tables, lake.pipeline)
    assert killed.keys() == DEPENDS.keys()


@pytest.mark.parametrize("killed", ["speed control", "registry registry"])
def test_a_plan_of_a_correction_comes_after_what_it_speaks_for_lasts(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    """A micro-batch, or a start after a history, is committed and not synced."""
    lake, planned = fed(tmp_path / "home"), list[list[Path]]()
    table = lake.tables.control(lake.step) if "speed" in killed else lake.tables.registry()
    if "speed" in killed:
        arrive(lake, 4)
        lake.ingest()
    else:
        write_jsonl(lake.home / "history" / "0.jsonl", ROWS[:15])
        lake.ingest(HISTORY)

    def point(side: str, *kind: str) -> None:
        if (side, " ".join(kind)) == ("within", killed):
            raise Killed
        if (side, kind) == ("before", ("plan", "corrections")):
            planned.append([p for p in disk.fragile() if path_of(table.uri) in p.parents])

    monkeypatch.setattr(commit_module, "reached", point)
    if "speed" in killed:
        assert dies(lambda: lake.query().run())
    else:
        assert dies(lambda: start_epochs(lake.tables, lake.pipeline, lake.clock))
    lake.correct()
    assert planned == [[]]


def dies(job: Callable[[], Any]) -> bool:
    """Run a job; whether it was killed."""
    try:
        job()
    except Killed:
        return True
    return False


def edit(lake: Lake) -> None:
    """Another slack and a lost checkpoint: the next generation is registered."""
    if lake.step.slack.span != micros(timedelta(minutes=1)):
        lake.edit(slack={"fixed": "PT1M"})
        lose_memory(lake.checkpoint, "all")
    lake.query()
