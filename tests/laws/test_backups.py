"""A backup is one instant of a running lake, and from a restored one a life goes on to the truth.

Between every two commits a backup is taken; each is restored to a place of its own, and what is
still in the source is taken, answered and corrected: every record once, every answer exact.
"""

import random
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import TransientError
from penstock.lake.backup import pin as pin_module
from penstock.lake.backup.manifest import read_manifest
from penstock.lake.backup.pin import pin
from penstock.lake.backup.restore import restore_backup
from penstock.lake.backup.save import take_backup
from penstock.lake.history import maintain
from penstock.lake.history.generation import generations
from penstock.lake.history.maintain import maintain_pipeline, specs_of
from penstock.lake.ingest import door as door_module
from penstock.lake.ingest import source as source_module
from penstock.lake.log.blocks import HISTORY
from penstock.lake.log.register import SPECS
from penstock.lake.log.rescalings import rescalings_spec
from penstock.lake.storage.commit import Table
from penstock.spark import chunks
from penstock.spark.correct import start_epochs
from tests import reference as ref
from tests.answers import assert_same, blocks_of
from tests.doubles import RisingClock
from tests.lakes import EACH, ROWS, Lake, arrive, fed
from tests.streams import write_jsonl

pytestmark = pytest.mark.law
FILES = 6


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 8)
    monkeypatch.setattr(source_module, "FILES_PER_PLAN", 2)
    monkeypatch.setattr(chunks, "PAIRS_A_CHUNK", 64)


def back_up(lake: Lake, folder: Path) -> Any:
    pipelines = lake.home / "pipelines"
    pipelines.mkdir(exist_ok=True)
    return take_backup(lake.home / "lake", folder, pipelines, RisingClock())


def restored(lake: Lake, folder: Path, home: Path) -> Lake:
    """The lake of a backup under another home; its source is where it was."""
    restore_backup(folder, home / "lake", RisingClock())
    return replace(lake, home=home, clock=RisingClock())


@contextmanager
def after_every_commit(act: Callable[[], Any]) -> Iterator[None]:
    swap = Table.swap

    def wrapped(self: Table, *arguments: Any) -> None:
        swap(self, *arguments)
        act()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "swap", wrapped)
        yield


def with_history(home: Path) -> Lake:
    """History is there, one step is to be registered, six files will come."""
    lake = fed(home)
    shutil.rmtree(lake.home / "lake")
    write_jsonl(home / "history" / "0.jsonl", ROWS[:EACH])
    return lake


def live_on(lake: Lake, rounds: int = 3) -> None:
    """History, then files come, are taken, answered and corrected, in several micro-batches."""
    lake.ingest(HISTORY)
    start_epochs(lake.tables, lake.pipeline, lake.clock)
    lake.correct()
    for number in range(rounds):
        arrive(lake, 2)
        lake.ingest()
        lake.query(blocks=2).run()
        lake.correct()
        if number == 1:
            maintain_pipeline(lake.tables, lake.pipeline)


def finish(lake: Lake) -> None:
    lake.ingest(HISTORY)
    start_epochs(lake.tables, lake.pipeline, lake.clock)
    lake.ingest()
    lake.query().run()
    lake.correct()


def check_ended(lake: Lake) -> None:
    """Every record of the source stands once, and every answer is the reference's."""
    lake.check()
    blocks = blocks_of(lake.tables, lake.pipeline)
    assert sum(len(block.records) for block in blocks) == EACH + FILES * EACH
    start = generations(lake.tables, lake.step)[0].block
    expected = ref.run(lake.epoch_oracle(), blocks, start)
    assert expected.preloaded
    assert_same(expected.corrected, lake.in_force(), position=False)


def lives_on_from_each(tmp_path: Path, every: int) -> None:
    lake = with_history(tmp_path / "home")
    taken: list[Path] = []
    commits = count()

    def keep() -> None:
        if next(commits) % every == every // 2:
            taken.append(tmp_path / f"backup-{len(taken)}")
            back_up(lake, taken[-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maintain, "FEW_FILES", 3)
        with after_every_commit(keep):
            live_on(lake)
    check_ended(lake)
    assert next(commits) > 30
    back_up(lake, tmp_path / "last")
    whole = {spec.name for spec in specs_of(lake.tables, lake.pipeline).values()}
    kept = {table.path.split("/")[1] for table in read_manifest(tmp_path / "last").tables}
    nothing = {"audits", "coverage", "excluded", "executors", "freezes", "load", "merged", "merges"}
    nothing |= {spec(lake.tables).name for spec in (*SPECS, rescalings_spec)}  # no host has run
    assert whole - kept <= nothing, "those have no rows here"
    for number, folder in enumerate(taken):
        again = restored(lake, folder, tmp_path / f"home-{number}")
        finish(again)
        check_ended(again)
        shutil.rmtree(again.home)


def test_from_a_backup_between_some_commits_a_life_goes_on_to_the_truth(tmp_path: Path) -> None:
    lives_on_from_each(tmp_path, 13)


@pytest.mark.all
def test_from_a_backup_between_any_two_commits_a_life_goes_on_to_the_truth(tmp_path: Path) -> None:
    lives_on_from_each(tmp_path, 1)


@pytest.mark.parametrize("each", [1, 2, 3, 5, 7])
def test_what_is_pinned_was_so_at_one_instant_whatever_is_committed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each: int
) -> None:
    """Another process commits within looks, now to a table already seen, now to one not yet."""
    draw, calls, exists = random.Random(each), count(1), Path.exists  # noqa: S311
    names = ["p/blocks", "p/control/s/1", "p/decisions", "p/events", "p/plans", "q/events"]
    now = dict.fromkeys(names[:4], -1)
    instants: list[dict[str, int]] = []

    def commit(name: str) -> None:
        now[name] = now.get(name, -1) + 1
        entry = tmp_path / name / "_delta_log" / f"{now[name]:020d}.json"
        entry.parent.mkdir(parents=True, exist_ok=True)
        entry.write_text('{"commitInfo":{}}')
        instants.append(dict(now))

    def busy(path: Path) -> bool:
        mine = tmp_path in path.parents and len(instants) < 60
        if mine and next(calls) % each == 0:
            commit(draw.choice(names))
        return exists(path)

    for name in [*now]:
        commit(name)
    monkeypatch.setattr(Path, "exists", busy)
    for _ in range(8):
        before = len(instants)
        found = pin(tmp_path)
        assert found in instants[before - 1 :]
        commit(draw.choice(names))
    assert len(instants) > 40


def test_where_commits_leave_no_instant_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = count()
    monkeypatch.setattr(pin_module, "look", lambda *_: {"p/events": next(versions)})
    with pytest.raises(TransientError, match="no instant between two commits"):
        pin(tmp_path, patience=0.0)


@pytest.mark.all
def test_taken_from_a_lake_that_runs_it_is_a_world_of_its_own(tmp_path: Path) -> None:
    lake = with_history(tmp_path / "home")
    lake.ingest(HISTORY)
    failed: list[Exception] = []

    def life() -> None:
        try:
            live_on(lake)
        except Exception as wrong:  # noqa: BLE001  shown by the test
            failed.append(wrong)

    thread = threading.Thread(target=life)
    thread.start()
    folders: list[Path] = []
    while thread.is_alive() or not folders:
        folders.append(tmp_path / f"backup-{len(folders)}")
        back_up(lake, folders[-1])
    thread.join()
    assert not failed
    assert len(folders) > 2
    for number, folder in enumerate(folders[:: max(1, len(folders) // 3)]):
        again = restored(lake, folder, tmp_path / f"home-{number}")
        again.check()
        finish(again)
        check_ended(again)
