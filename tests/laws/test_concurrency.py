"""Two processes at once: whatever the interleaving, there is one truth in the end.

Nothing waits here: the other process does all of its work at a chosen commit of the first one.
"""

import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import TransientError
from penstock.lake.history import maintain as maintain_module
from penstock.lake.history.generation import generations
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.ingest import door as door_module
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import HISTORY, LIVE
from penstock.lake.storage.commit import Table
from penstock.spark import chunks
from penstock.spark.sink import FencedError
from tests import reference as ref
from tests.answers import assert_same, blocks_of
from tests.doubles import lose_memory
from tests.lakes import EACH, ROWS, Lake, arrive, fed, meanwhile, some_rows
from tests.local import LocalQuery
from tests.streams import BEGIN, write_jsonl

pytestmark = pytest.mark.law


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(chunks, "PAIRS_A_CHUNK", 16)
    monkeypatch.setattr(maintain_module, "FEW_FILES", 2)


def answered(home: Path) -> Lake:
    lake = fed(home)
    arrive(lake, 6)
    lake.ingest()
    lake.query(blocks=3).run()
    return lake


def in_pieces(home: Path) -> tuple[Lake, Door, LocalQuery]:
    """Taken in and answered in four small pieces, so that there is something to compact."""
    lake = fed(home)
    door, query = lake.door(), lake.query(blocks=1)
    for _ in range(4):
        arrive(lake)
        door.work()
        query.run()
    return lake, door, query


def assert_one_truth(lake: Lake, received: int = len(ROWS)) -> None:
    """After everybody has gone on: conservation, law 0, and every answer exact."""
    lake.ingest(HISTORY)
    lake.ingest()
    lake.query().run()
    lake.correct()
    lake.check()
    blocks = blocks_of(lake.tables, lake.pipeline)
    assert sum(len(block.records) for block in blocks) == received
    expected = ref.run(lake.epoch_oracle(), blocks).corrected
    assert_same(expected, lake.in_force(), position=False)


SIDES = pytest.mark.parametrize(
    "after",
    [pytest.param(False, id="before"), pytest.param(True, id="after", marks=pytest.mark.all)],
)
"""Of a commit; after it only in ``make test-all``."""


@SIDES
@pytest.mark.parametrize("table", ["plans", "quarantine", "events", "blocks"])
@pytest.mark.parametrize("old", [0, 3], ids=["empty", "begun"])
def test_a_stale_second_ingest_gives_no_number_twice(
    tmp_path: Path, table: str, after: bool, old: int
) -> None:
    lake = fed(tmp_path)
    first, second = lake.door(), lake.door()
    for door, files in ((first, old), (second, old)):
        arrive(lake, files)
        door.work()  # both have a snapshot; the first one's is old by now
    write_jsonl(tmp_path / "live" / "9.jsonl", [*some_rows(15, seed=7), "no record"])

    def take(door: Door) -> None:
        run_through(door, LIVE, None, None)

    late = lake.door()
    with meanwhile(table, lambda: take(late), after=after):
        take(first)
    take(second)
    assert_one_truth(lake, 2 * old * EACH + 16)


@SIDES
@pytest.mark.parametrize("table", ["plans", "events", "blocks", "late", "answers", "control"])
def test_a_preload_while_the_stream_runs_is_in_every_answer(
    tmp_path: Path, table: str, after: bool
) -> None:
    lake = fed(tmp_path)
    write_jsonl(tmp_path / "history" / "0.jsonl", some_rows(30, seed=8))
    with meanwhile(table, lambda: lake.ingest(HISTORY), after=after):
        for _ in range(3):
            arrive(lake, 2)
            lake.ingest()
            lake.query(blocks=2).run()
    assert_one_truth(lake, len(ROWS) + 30)


@SIDES
@pytest.mark.parametrize("table", ["corrections", "answers"])
@pytest.mark.parametrize("recheck", [False, True], ids=["touched", "recheck"])
def test_two_corrections_of_overlapping_ranges_end_in_one_truth(
    tmp_path: Path, table: str, after: bool, recheck: bool
) -> None:
    lake = answered(tmp_path)
    middle, end = BEGIN + timedelta(seconds=120), BEGIN + timedelta(seconds=400)

    def other() -> None:
        lake.correct(middle, end, recheck=recheck)

    with meanwhile(table, other, after=after), suppress(TransientError):
        lake.correct(None, end, recheck=recheck)
    lake.check()
    assert_one_truth(lake)


@SIDES
@pytest.mark.parametrize("table", ["corrections", "answers"])
def test_two_runs_of_the_same_plans_append_nothing_twice(
    tmp_path: Path, table: str, after: bool
) -> None:
    lake = answered(tmp_path)
    planner, twin = lake.planner("a"), lake.planner("b")
    planned = planner.due()
    assert twin.due() == planned

    def run(which: Any) -> None:
        for plan in planned:
            lake.corrector().run(which, plan)

    with meanwhile(table, lambda: run(twin), after=after):
        run(planner)
    assert lake.correct() == 0
    assert_one_truth(lake)


def maintain(lake: Lake) -> None:
    assert maintain_pipeline(lake.tables, lake.pipeline), "something was compacted"


@SIDES
@pytest.mark.parametrize("table", ["corrections", "answers"])
def test_compaction_in_the_middle_of_a_correction(tmp_path: Path, table: str, after: bool) -> None:
    lake = answered(tmp_path)
    with meanwhile(table, lambda: maintain(lake), after=after):
        assert lake.correct() > 0
    assert_one_truth(lake)


@SIDES
@pytest.mark.parametrize(
    "table", ["plans", "quarantine", "events", "blocks", "late", "answers", "control"]
)
def test_compaction_while_the_stream_appends(tmp_path: Path, table: str, after: bool) -> None:
    lake, door, query = in_pieces(tmp_path)
    arrive(lake, 2)
    write_jsonl(tmp_path / "live" / "9.jsonl", ["no record"])
    with meanwhile(table, lambda: maintain(lake), after=after):
        run_through(door, LIVE, None, None)
        query.run()
    assert_one_truth(lake, len(ROWS) + 1)


@pytest.mark.parametrize("table", ["events", "blocks", "answers", "late", "control"])
def test_an_append_in_the_middle_of_a_compaction(
    tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, door, query = in_pieces(tmp_path)
    refresh, seen = Table.refresh, list[str]()

    def wrapped(self: Table) -> Any:
        delta = refresh(self)
        if f"/{table}" in self.spec.uri and not seen:
            seen.append(self.spec.uri)
            arrive(lake, 2)
            door.work()
            query.run()
        return delta

    with monkeypatch.context() as patch:
        patch.setattr(Table, "refresh", wrapped)
        maintain_pipeline(lake.tables, lake.pipeline)
    assert seen
    assert_one_truth(lake)


def second_host_registers(lake: Lake) -> None:
    """Another host finds no checkpoint and begins a generation; the first one keeps its own."""
    newest = generations(lake.tables, lake.step)[-1].number
    folder = lake.checkpoint
    away = folder.rename(folder.with_name("away"))
    lake.query()
    assert generations(lake.tables, lake.step)[-1].number == newest + 1
    shutil.copytree(away, folder, dirs_exist_ok=True)


def half_answered(home: Path) -> tuple[Lake, LocalQuery]:
    """A lake and its host, which has some micro-batches behind it and some before it."""
    lake = fed(home)
    arrive(lake, 6)
    lake.ingest()
    host = lake.query(blocks=1)
    for _ in range(8):
        host.work()
    return lake, host


def test_a_replaced_host_is_fenced_loudly(tmp_path: Path) -> None:
    lake, stale = half_answered(tmp_path)
    second_host_registers(lake)
    with pytest.raises(FencedError, match="generation 0 was replaced by 1"):
        stale.run()
    assert_one_truth(lake)


@pytest.mark.parametrize("table", ["late", "answers", "control"])
def test_what_a_replaced_host_commits_after_its_last_look_does_not_count(
    tmp_path: Path, table: str
) -> None:
    lake, stale = half_answered(tmp_path)

    def other() -> None:
        second_host_registers(lake)
        lake.query(blocks=2).run()

    with meanwhile(table, other), pytest.raises(FencedError, match="was replaced by 1"):
        stale.run()
    lake.check()
    assert_one_truth(lake)


def test_of_two_hosts_that_begin_at_the_same_moment_one_is_refused(tmp_path: Path) -> None:
    lake, _ = half_answered(tmp_path)
    lose_memory(lake.checkpoint, "all")
    with (
        meanwhile("registry", lambda: lake.query(blocks=2).run()),
        pytest.raises(TransientError, match="began generation 1 at the same moment"),
    ):
        lake.query(blocks=3)
    assert_one_truth(lake)
