"""Two processes at once: whatever the interleaving, there is one truth in the end.

Nothing waits here: the other process does all of its work at a chosen commit of the first one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import TransientError
from penstock.lake import maintain as maintain_module
from penstock.lake.commit import Table
from penstock.lake.generation import generations
from penstock.lake.ingest import door as door_module
from penstock.lake.ingest.door import HISTORY, LIVE, Door, run_through
from penstock.lake.maintain import maintain_pipeline
from penstock.spark import correct as correct_module
from penstock.spark.sink import FencedError
from tests import reference as ref
from tests.doubles import assert_same, blocks_of, lose_memory
from tests.lakes import Lake, make_lake, some_rows
from tests.steps import CASES
from tests.streams import BEGIN, write_jsonl

pytestmark = pytest.mark.law
Other = Callable[[], Any]


@contextmanager
def meanwhile(table: str, other: Other, *, after: bool = False) -> Iterator[list[str]]:
    """At the first commit to a table, another process does its work before or after it."""
    swap, seen = Table.swap, list[str]()

    def wrapped(self: Table, *arguments: Any) -> None:
        mine = f"/{table}" in self.spec.uri and not seen
        if mine:
            seen.append(self.spec.uri)
        if mine and not after:
            other()
        swap(self, *arguments)
        if mine and after:
            other()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "swap", wrapped)
        yield seen
    assert seen, f"nothing was committed to {table}"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(correct_module, "PAIRS_A_CHUNK", 16)
    monkeypatch.setattr(maintain_module, "FEW_FILES", 2)


def bounded(home: Path, *, files: int = 6, name: str = "sites") -> Lake:
    """A lake whose source is complete; nothing is taken yet."""
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "bounded"}
    history = {"files": str(home / "history"), "format": "jsonl"}
    lake = make_lake(home, CASES[name], source=source, history=history)
    rows = some_rows(15 * files, seed=5)
    for i in range(files):
        write_jsonl(home / "live" / f"{i}.jsonl", rows[15 * i : 15 * (i + 1)])
    lake.query()
    return lake


def answered(home: Path) -> Lake:
    lake = bounded(home)
    lake.ingest()
    lake.query(blocks=3).run()
    return lake


def assert_one_truth(lake: Lake, received: int = 90) -> None:
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


SIDES = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])


@SIDES
@pytest.mark.parametrize("table", ["plans", "quarantine", "events", "blocks"])
def test_a_stale_second_ingest_gives_no_number_twice(
    tmp_path: Path, table: str, after: bool
) -> None:
    lake = bounded(tmp_path)
    first, second = lake.door(), lake.door()
    first.work()
    write_jsonl(tmp_path / "live" / "9.jsonl", some_rows(15, seed=6))
    second.work()  # both have a snapshot; the first one's is old by now
    write_jsonl(tmp_path / "live" / "99.jsonl", [*some_rows(15, seed=7), "no record"])

    def take(door: Door) -> None:
        run_through(door, LIVE, None, None)

    late = lake.door()
    with meanwhile(table, lambda: take(late), after=after):
        take(first)
    take(second)
    assert_one_truth(lake, 90 + 15 + 16)


@SIDES
@pytest.mark.parametrize("table", ["plans", "events", "blocks", "late", "answers", "control"])
def test_a_preload_while_the_stream_runs_is_in_every_answer(
    tmp_path: Path, table: str, after: bool
) -> None:
    lake = bounded(tmp_path)
    write_jsonl(tmp_path / "history" / "0.jsonl", some_rows(30, seed=8))

    def stream() -> None:
        for _ in range(3):
            lake.door().work()
        lake.query(blocks=2).run()
        with suppress(TransientError):
            run_through(lake.door(), LIVE, None, None)
        lake.query(blocks=2).run()

    with meanwhile(table, lambda: lake.ingest(HISTORY), after=after):
        stream()
    assert_one_truth(lake, 90 + 30)


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
    lake = bounded(tmp_path)
    door, query = lake.door(), lake.query(blocks=1)
    for _ in range(3):
        door.work()
    for _ in range(4):
        query.work()
    with meanwhile(table, lambda: maintain(lake), after=after):
        run_through(door, LIVE, None, None)
        query.run()
    assert_one_truth(lake)


@pytest.mark.parametrize("table", ["events", "blocks", "answers", "late", "control"])
def test_an_append_in_the_middle_of_a_compaction(
    tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = bounded(tmp_path)
    door, query = lake.door(), lake.query(blocks=1)
    for _ in range(4):
        door.work()
        query.work()
    refresh, seen = Table.refresh, list[str]()

    def wrapped(self: Table) -> Any:
        delta = refresh(self)
        if f"/{table}" in self.spec.uri and not seen:
            seen.append(self.spec.uri)
            door.work()
            query.work()
        return delta

    monkeypatch.setattr(Table, "refresh", wrapped)
    maintain_pipeline(lake.tables, lake.pipeline)
    assert seen
    monkeypatch.undo()
    monkeypatch.setattr(door_module, "BLOCK", 5)
    assert_one_truth(lake)


def second_host(lake: Lake) -> None:
    """Another host, that finds no checkpoint: a new generation, run to the end."""
    newest = generations(lake.tables, lake.step)[-1].number
    lose_memory(Path(lake.tables.checkpoint(lake.step, newest)), "all")
    lake.query(blocks=2).run()
    assert generations(lake.tables, lake.step)[-1].number == newest + 1


def test_a_replaced_host_is_fenced_loudly(tmp_path: Path) -> None:
    lake = bounded(tmp_path)
    lake.ingest()
    stale = lake.query(blocks=1)
    for _ in range(4):
        stale.work()
    kept = {name: (stale.folder / name).exists() for name in ("offsets", "state")}
    lake_query = lake.query  # the registry alone says that there is another one
    second_host_registers(lake)
    assert all(kept.values())
    with pytest.raises(FencedError, match="generation 0 was replaced by 1"):
        stale.run()
    lake_query(blocks=2).run()
    assert_one_truth(lake)


def second_host_registers(lake: Lake) -> None:
    import shutil

    newest = generations(lake.tables, lake.step)[-1].number
    folder = Path(lake.tables.checkpoint(lake.step, newest))
    away = folder.with_name("away")
    folder.rename(away)
    lake.query()
    shutil.copytree(away, folder, dirs_exist_ok=True)  # the stale host still has its own


@pytest.mark.parametrize("table", ["late", "answers", "control"])
def test_what_a_replaced_host_commits_after_its_last_look_does_not_count(
    tmp_path: Path, table: str
) -> None:
    lake = bounded(tmp_path)
    lake.ingest()
    stale = lake.query(blocks=1)
    for _ in range(6):
        stale.work()

    def other() -> None:
        second_host_registers(lake)
        lake.query(blocks=2).run()

    with meanwhile(table, other), pytest.raises(FencedError, match="was replaced by 1"):
        stale.run()
    lake.check()
    assert_one_truth(lake)


def test_two_hosts_that_begin_at_the_same_moment_share_one_generation(tmp_path: Path) -> None:
    lake = bounded(tmp_path)
    lake.ingest()
    lake.query(blocks=1).work()
    with meanwhile("registry", lambda: second_host(lake)), suppress(TransientError):
        lose_memory(Path(lake.tables.checkpoint(lake.step, 0)), "all")
        lake.query(blocks=3).run()
    lake.check()
    assert_one_truth(lake)
