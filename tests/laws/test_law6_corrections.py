"""Law 6: correcting twice is correcting once; in halves it is at once; nothing is ever hidden."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.lake.history.correction import pending_count
from penstock.lake.history.plans import CorrectionPlan, plans
from penstock.lake.history.position import BACKFILL, LATE, position
from penstock.lake.history.registry import Registry
from penstock.lake.history.standing import answers_in_force
from penstock.lake.ingest import door as door_module
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.spark import chunks
from tests import reference as ref
from tests.answers import assert_same, blocks_of, rows_by_pair
from tests.doubles import Killed, deadly_commits
from tests.lakes import Lake, make_lake, some_rows
from tests.steps import CASES
from tests.streams import BEGIN, write_jsonl

pytestmark = pytest.mark.law
few = settings(max_examples=2)
seeds = st.integers(0, 10_000)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(chunks, "PAIRS_A_CHUNK", 16)


@pytest.fixture
def answered(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Lake]:
    """A lake whose step has answered all of a stream, with late rows left to repair."""

    def make(seed: int, name: str = "both", count: int = 60, **overrides: Any) -> Lake:
        home = tmp_path_factory.mktemp("lake")
        lake = make_lake(home, CASES[name], **overrides)
        lake.query()
        write_jsonl(home / "live" / "0.jsonl", some_rows(count, seed))
        lake.ingest()
        lake.query(blocks=3).run()
        return lake

    return make


def answers(lake: Lake) -> int:
    return answers_in_force(lake.tables, lake.step).num_rows


@few
@given(seed=seeds)
def test_correcting_twice_is_correcting_once(answered, seed: int) -> None:
    lake = answered(seed)
    lake.correct()
    once = lake.in_force()
    assert pending_count(lake.tables, lake.step) == 0
    assert lake.correct() == 0
    assert lake.correct(recheck=True) == 0
    assert lake.in_force() == once
    blocks = blocks_of(lake.tables, lake.pipeline)
    expected = ref.run(lake.oracle, blocks).corrected
    assert_same(expected, lake.in_force(), position=False)


@few
@given(seed=seeds, cut=st.integers(0, 400))
def test_in_two_halves_is_at_once(answered, seed: int, cut: int) -> None:
    at_once, halves = answered(seed), answered(seed)
    at_once.correct()
    middle = BEGIN + timedelta(seconds=cut)
    halves.correct(None, middle)
    halves.correct(middle, None)
    assert halves.in_force() == at_once.in_force()
    halves.correct()  # sees every late row once more, and changes nothing
    assert halves.in_force() == at_once.in_force()
    assert pending_count(halves.tables, halves.step) == 0


@few
@given(seed=seeds, ranges=st.permutations([(0, 150), (100, 300), (250, 600), (-200, 50)]))
def test_backfills_of_ranges_in_any_order_converge(answered, seed: int, ranges: list) -> None:
    lake = answered(seed)
    for low, high in ranges:
        lake.correct(BEGIN + timedelta(seconds=low), BEGIN + timedelta(seconds=high), recheck=True)
    expected = ref.run(lake.oracle, blocks_of(lake.tables, lake.pipeline)).corrected
    inside = {
        pair: answer
        for pair, answer in expected.items()
        if any(low <= pair[0] / 1e6 - BEGIN.timestamp() < high for low, high in ranges)
    }
    found = lake.in_force()
    assert_same(inside, {pair: found[pair] for pair in inside}, position=False)


@few
@given(seed=seeds)
def test_a_correction_never_hides_a_record_that_came_after_its_plan(answered, seed: int) -> None:
    live = {"source": {"files": "live", "format": "jsonl"}}
    lake = answered(seed, "sites", count=80, **live)
    planner = lake.planner()
    frozen = planner.due()
    write_jsonl(lake.home / "live" / "1.jsonl", some_rows(80, seed + 1))  # all of them late
    lake.ingest()
    lake.query().run()
    waiting = pending_count(lake.tables, lake.step)
    for plan in frozen:
        lake.corrector().run(planner, plan)
    assert pending_count(lake.tables, lake.step) > 0
    assert waiting > 0
    lake.check()
    lake.correct()
    lake.check()
    assert pending_count(lake.tables, lake.step) == 0


@few
@given(seed=seeds, kills=st.lists(st.integers(0, 6), min_size=1, max_size=3))
def test_killed_anywhere_and_run_again_it_appends_nothing_twice(
    answered, seed: int, kills: list[int]
) -> None:
    lake = answered(seed, "sites")
    planned = lake.planner().due()
    left = kills[:]
    countdown = [left.pop()]

    def death() -> None:
        countdown[0] -= 1
        if countdown[0] < 0 and left:
            countdown[0] = left.pop()
            raise Killed

    with deadly_commits(death):
        for _ in range(len(kills) + 1):
            try:
                lake.correct()
                break
            except Killed:
                continue
    lake.correct()
    rows = answers_in_force(lake.tables, lake.step)
    rows_by_pair(lake.step, rows, "through_seq")
    expected = ref.run(lake.oracle, blocks_of(lake.tables, lake.pipeline)).corrected
    assert_same(expected, lake.in_force(), position=False)
    every, done = plans(lake.tables, lake.step)
    assert [p.number for p in every] == [p.number for p in planned]
    assert done == {p.number for p in planned}


def half_done(lake: Lake, patch: pytest.MonkeyPatch, commits: int) -> None:
    """A correction that was killed after it committed some small chunks."""
    left = [commits]

    def death(self: Any, rows: Any, application: str, number: int) -> None:
        if application.startswith("correct:"):
            left[0] -= 1
        if left[0] < 0:
            raise Killed
        swap(self, rows, application, number)

    swap = Table.swap
    patch.setattr(chunks, "PAIRS_A_CHUNK", 8)
    patch.setattr(Table, "swap", death)
    with pytest.raises(Killed):
        lake.correct()


def as_before(self: CorrectionPlan, cut: list[tuple[int, int]]) -> str:
    """How a plan's commits were numbered before their cut belonged to their name."""
    return f"correct:{self.epoch}:{self.number}"


@pytest.mark.parametrize("former", [False, True])
@pytest.mark.parametrize("reason", [LATE, BACKFILL])
def test_a_plan_half_done_under_another_cut_leaves_nothing_out_and_nothing_twice(
    answered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, former: bool
) -> None:
    lake = answered(3, "sites")
    expected = ref.run(lake.oracle, blocks_of(lake.tables, lake.pipeline)).corrected
    wanted = {*expected}
    if reason == BACKFILL:
        Registry(lake.tables, lake.clock, lake.pipeline).begin_epoch(lake.step, "rebuild")
    else:
        at = position(lake.tables, lake.step)
        assert at is not None
        wanted = lake.pending(at)
    with pytest.MonkeyPatch.context() as patch:
        if former:
            patch.setattr(CorrectionPlan, "application", as_before)
        half_done(lake, patch, 3)
    monkeypatch.setattr(chunks, "PAIRS_A_CHUNK", 40)
    (plan,) = lake.planner().due()
    assert plan.reason == reason
    lake.correct()
    rows = read_table(Table(lake.tables.answers(lake.step)))
    mine = rows.filter((pc.field("plan") == plan.number) & (pc.field("reason") == reason))
    found = rows_by_pair(lake.step, mine, "through_seq")
    assert found.keys() == wanted
    assert_same({pair: expected[pair] for pair in wanted}, found, position=False)


def test_a_pending_window_gets_a_new_answer_even_of_the_same_value(answered) -> None:
    lake = answered(3)
    lake.correct()
    at = position(lake.tables, lake.step)
    rows = answers_in_force(lake.tables, lake.step)
    repaired = rows.filter(rows["revision"].combine_chunks().to_numpy() > 0)
    assert repaired.num_rows
    assert set(repaired["through_seq"].to_pylist()) == {at.sealed.seq}


def test_a_window_with_only_late_records_gets_its_first_answer_as_revision_1(
    tmp_path: Path,
) -> None:
    lake = make_lake(tmp_path, CASES["sites"])
    lake.query()
    early = {"event_time": BEGIN, "site": "only late", "code": 1}
    newest = {"event_time": BEGIN + timedelta(hours=1), "site": "newest", "code": 1}
    for i, row in enumerate((newest, early)):
        write_jsonl(tmp_path / "live" / f"{i}.jsonl", [row])
        lake.ingest()
    lake.query().run()
    assert answers(lake) == 0
    assert lake.correct() == 3
    found = answers_in_force(lake.tables, lake.step).to_pylist()
    assert [(r["site"], r["revision"], r["n_records"]) for r in found] == [("only late", 1, 1)] * 3


def test_the_first_record_after_a_plan_is_in_the_next(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, CASES["sites"])
    lake.query()
    early = {"event_time": BEGIN, "site": "late", "code": 1}
    newest = {"event_time": BEGIN + timedelta(hours=1), "site": "newest", "code": 1}
    for i, row in enumerate((newest, early, early)):
        write_jsonl(tmp_path / "live" / f"{i}.jsonl", [row])
        lake.ingest()
        lake.query().run()
        assert lake.correct() == (3 if row is early else 0)
    assert {row["n_records"] for row in lake.in_force().values()} == {2}
