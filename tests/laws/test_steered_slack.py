"""Laws 0, 1 and 2 under a slack that follows coverage: one trace, whatever the cut or the crash."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from penstock.columns import watermark
from penstock.kinds.windowed.layout import layout_of
from penstock.lake.history.generation import generations
from penstock.lake.history.position import position
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.history.standing import timely_answers
from penstock.lake.history.view import late_at
from penstock.lake.ingest import door
from penstock.lake.log import blocks as log
from penstock.lake.log import fold
from penstock.lake.log.blocks import LIVE, slack_changes
from penstock.lake.log.proposed import propose
from penstock.lake.proof.observed import classes
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests.answers import late_by_pair, rows_by_pair
from tests.doubles import Killed, deadly_commits, dies_at, lose_memory
from tests.lakes import Lake, assert_retraced, make_lake
from tests.rarely import rare
from tests.steps import CASES
from tests.streams import BEGIN, disordered, write_jsonl

QUALITY = {"epsilon": 0.1, "delta": 0.4, "records": 50}
OWN = {"measures": {"mean": {"epsilon": 0.3}, "n": {"delta": 0.5}}}
"""Targets that are not the step's."""
SLACKS: dict[str, Any] = {
    "quantile": {"quantile": {"measure_after": "PT60S", "recent": "PT10M"}},
    "pd": {"pd": {"measure_after": "PT30S"}},
    "pd of late": {"pd": {"recent": "PT5M", "kp": 0.5}},
    "pd_final": {"pd_final": {"measure_after": "PT60S", "recent": "PT10M"}},
}


PLAIN: dict[str, Any] = {
    "max_delay": {"max_delay": {"bound": "PT60S"}},
    "fixed": {"fixed": "PT40S"},
}


SMALL, STRIDE = 16, 12


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "BLOCK", SMALL)
    monkeypatch.setattr(watermark, "EVERY", STRIDE)


def filled(home: Path, slack: str, mode: str = "bounded", **more: Any) -> Lake:
    """A lake whose source has many records that are minutes late."""
    step, oracle = CASES["sites"]
    steered = {"slack": (PLAIN | SLACKS)[slack]} | (
        {"quality": QUALITY | OWN} if slack in SLACKS else {}
    )
    case = (step | steered, oracle)
    source = {"files": str(home / "live"), "format": "jsonl", "mode": mode}
    lake = make_lake(home, case, source=source, **more)
    lake.query()
    rows = disordered(1_500, seed=4, apart=2.0, late_share=0.2, late_by=300.0)
    for row in rows[7::40]:
        row["site"] = None
    for number in range(10):
        write_jsonl(home / "live" / f"{number}.jsonl", rows[150 * number : 150 * (number + 1)])
    lake.ingest(LIVE)
    return lake


def trace(lake: Lake) -> list[tuple[int, int]]:
    return [(s.block, s.state.slack) for s in sealed_rows(lake.tables, lake.step, 0)]


@pytest.fixture(scope="module")
def by_one(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Lake]:
    """A lake answered block by block, by its slack; nobody may feed it further."""

    @cache
    def answered(slack: str) -> Lake:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(door, "BLOCK", SMALL)
            patch.setattr(watermark, "EVERY", STRIDE)
            lake = filled(tmp_path_factory.mktemp("one"), slack)
            lake.query(blocks=1).run()
        return lake

    return answered


@pytest.mark.parametrize("slack", ["quantile", rare("pd_final"), rare("pd"), rare("pd of late")])
@pytest.mark.usefixtures("small_blocks")
def test_one_trace_for_any_cut(tmp_path: Path, by_one: Callable[[str], Lake], slack: str) -> None:
    found, counted = {}, set()
    for cut in (1, 7, 50):
        lake = by_one(slack) if cut == 1 else filled(tmp_path / str(cut), slack)
        lake.query(blocks=cut).run()
        lake.check()
        lake.correct()
        lake.check()
        found[cut] = dict(trace(lake))
        names = ["windows_measured", "windows_below"]
        rows = read_table(Table(lake.tables.control(lake.step)), names)
        counted.add(tuple(pc.sum(rows[name]).as_py() for name in names))
    assert len(counted) == 1, "the same windows were measured"
    assert min(counted)[0] > 50
    assert len(set(found[1].values())) > 10, "K moved"
    for cut in (7, 50):
        assert len(found[cut]) > 1
        assert found[cut].items() <= found[1].items()


@pytest.mark.parametrize("slack", ["quantile", rare("pd"), rare("pd_final")])
@pytest.mark.parametrize(
    "lost", ["all", *(rare(each) for each in ("offsets", "newest", "commits"))]
)
@pytest.mark.usefixtures("small_blocks")
def test_the_same_trace_after_the_checkpoint_was_lost(
    tmp_path: Path, by_one: Callable[[str], Lake], slack: str, lost: str
) -> None:
    whole = filled(tmp_path / "whole", slack)
    whole.query(blocks=3).run()
    lake = filled(tmp_path / "lost", slack)
    for _ in range(3):
        query = lake.query(blocks=3)
        for _ in range(4):
            query.work()
        lose_memory(query.folder, lost)
    lake.query(blocks=3).run()
    lake.check()
    assert trace(lake)[-1] == trace(whole)[-1]
    assert dict(trace(lake)).items() <= dict(trace(by_one(slack))).items()
    if lost == "all":
        assert len(generations(lake.tables, lake.step)) > 1


@pytest.mark.parametrize(
    "slack", ["quantile", *(rare(each) for each in ("max_delay", "pd", "pd of late", "pd_final"))]
)
@pytest.mark.parametrize("moment", [2, rare(3)])
@pytest.mark.usefixtures("small_blocks")
def test_the_same_trace_after_every_micro_batch_was_repeated(
    tmp_path: Path, slack: str, moment: int
) -> None:
    """A new process repeats the micro-batch that was logged before it looks any further."""
    whole, lake = filled(tmp_path / "whole", slack), filled(tmp_path / "repeated", slack)
    whole.query(blocks=3).run()
    for _ in range(12):
        query = lake.query(blocks=3, dies=dies_at(moment))
        with suppress(Killed):
            query.run()
        again = lake.query(blocks=3)
        again.work()
        again.work()
    lake.query(blocks=3).run()
    assert trace(lake) == trace(whole)
    lake.check()


@pytest.mark.parametrize("slack", SLACKS)
@pytest.mark.usefixtures("small_blocks")
def test_the_audit_goes_the_same_way_again(tmp_path: Path, slack: str) -> None:
    lake = filled(tmp_path, slack)
    lake.query(blocks=5).run()
    lake.correct()
    assert_retraced(lake)


@pytest.mark.usefixtures("small_blocks")
def test_a_changed_policy_holds_from_the_next_block(tmp_path: Path) -> None:
    lake = filled(tmp_path, "quantile", mode="live")
    lake.query(blocks=4).run()
    lake.edit(slack={"fixed": "PT30S"}, quality=None)
    query = lake.query(blocks=4)
    more = disordered(400, seed=5, apart=2.0, late_share=0.2, late_by=300.0)
    write_jsonl(tmp_path / "live" / "more.jsonl", more)
    lake.ingest(LIVE)
    query.run()
    decided = slack_changes(lake.tables, lake.step.name)[-1].block
    rows = read_table(Table(lake.tables.control(lake.step)), ["block", "controller", "slack_us"])
    before = [r for r in rows.to_pylist() if r["block"] <= decided]
    after = [r for r in rows.to_pylist() if r["block"] > decided]
    assert len(before) > 10
    assert all(r["controller"] for r in before)
    assert after
    assert all(r["controller"] == "" and r["slack_us"] == 30_000_000 for r in after)


def proposed(lake: Lake, threshold: float) -> None:
    slack = lake.step.slack
    assert slack.tuning is not None
    spec = replace(slack, tuning=replace(slack.tuning, threshold=threshold))
    propose(lake.tables, lake.step, spec, "measured", lake.clock)


THRESHOLDS = (0.99, 0.6, 0.9)


def fed_with_proposals(home: Path, slack: str, blocks: int, *, at_once: bool) -> Lake:
    """Files arrive, proposals come between them; the query runs at once or only at the end."""
    lake = filled(home, slack, mode="live")
    query = lake.query(blocks=blocks)
    for number, threshold in enumerate(THRESHOLDS):
        if at_once:
            query.run()
        proposed(lake, threshold)
        more = disordered(300, seed=50 + number, apart=2.0, late_share=0.2, late_by=300.0,
                          begin=BEGIN + timedelta(seconds=3_000 + 600 * number))  # fmt: skip
        write_jsonl(home / "live" / f"more{number}.jsonl", more)
        lake.ingest(LIVE)
    query.run()
    return lake


@pytest.mark.parametrize("slack", ["quantile", rare("pd"), rare("pd_final")])
@pytest.mark.usefixtures("small_blocks")
def test_a_measured_threshold_holds_from_the_block_after_it_whatever_the_cut(
    tmp_path: Path, slack: str
) -> None:
    lake = fed_with_proposals(tmp_path / "one", slack, 1, at_once=True)
    changes = slack_changes(lake.tables, lake.step.name)
    assert [c.spec.tuning.threshold for c in changes[1:]] == [*THRESHOLDS]
    assert changes[1].block < changes[2].block < changes[3].block
    lake.check()
    again = fed_with_proposals(tmp_path / "other", slack, 7, at_once=False)
    again.check()
    assert [c.block for c in slack_changes(again.tables, again.step.name)] == [
        c.block for c in changes
    ]
    assert dict(trace(again)).items() <= dict(trace(lake)).items()
    rows = read_table(Table(lake.tables.control(lake.step)), ["block", "threshold"]).to_pylist()
    used = {r["threshold"] for r in rows if r["threshold"] is not None}
    assert used >= {*THRESHOLDS}
    assert lake.query().generation.number == 0, "the pipeline file has not changed"
    assert slack_changes(lake.tables, lake.step.name) == changes


@pytest.mark.parametrize("moment", [3, *(rare(moment) for moment in (1, 2, 4, 5, 6, 7))])
@pytest.mark.usefixtures("small_blocks")
def test_a_proposal_is_adopted_once_whenever_the_door_dies(tmp_path: Path, moment: int) -> None:
    lake = filled(tmp_path, "quantile", mode="live")
    query = lake.query(blocks=2)
    query.run()
    proposed(lake, 0.7)
    more = disordered(200, seed=9, apart=2.0, begin=BEGIN + timedelta(seconds=3_000))
    write_jsonl(tmp_path / "live" / "more.jsonl", more)
    with deadly_commits(dies_at(moment)), suppress(Killed):
        lake.ingest(LIVE)
    query.run()
    lake.ingest(LIVE)
    query.run()
    assert [c.spec.tuning.threshold for c in slack_changes(lake.tables, lake.step.name)[1:]] == [
        0.7
    ]
    lake.check()
    lake.correct()
    lake.check()


@pytest.mark.parametrize("moment", [2, *(rare(moment) for moment in (1, 3, 4, 5, 6))])
@pytest.mark.usefixtures("small_blocks")
def test_what_the_file_says_outlives_a_plan_that_was_not_finished(
    tmp_path: Path, moment: int
) -> None:
    lake = filled(tmp_path, "quantile", mode="live")
    lake.query(blocks=2).run()
    proposed(lake, 0.7)
    write_jsonl(tmp_path / "live" / "more.jsonl", disordered(200, seed=9, apart=2.0))
    with deadly_commits(dies_at(moment)), suppress(Killed):
        lake.ingest(LIVE)
    lake.edit(slack={"fixed": "PT30S"}, quality=None)
    lake.query(blocks=4)
    lake.ingest(LIVE)
    lake.query(blocks=4).run()
    assert slack_changes(lake.tables, lake.step.name)[-1].spec == lake.step.slack


@pytest.mark.parametrize(
    "policies", [("pd", "quantile"), *map(rare, (("quantile", "pd"), ("quantile", "pd_final")))]
)
@pytest.mark.usefixtures("small_blocks")
def test_another_steered_policy_starts_afresh(tmp_path: Path, policies: tuple[str, str]) -> None:
    lake = filled(tmp_path, policies[0], mode="live")
    lake.query(blocks=4).run()
    lake.edit(slack=SLACKS[policies[1]])
    query = lake.query(blocks=4)
    more = disordered(
        400,
        seed=5,
        apart=2.0,
        late_share=0.2,
        late_by=300.0,
        begin=BEGIN + timedelta(seconds=3_000),
    )
    write_jsonl(tmp_path / "live" / "more.jsonl", more)
    lake.ingest(LIVE)
    query.run()
    assert_retraced(lake)


@pytest.mark.usefixtures("small_blocks")
def test_a_changed_file_replaces_what_was_measured(tmp_path: Path) -> None:
    lake = fed_with_proposals(tmp_path, "quantile", 4, at_once=True)
    lake.edit(quality=QUALITY | {"delta": 0.2})
    lake.query(blocks=4)
    last = slack_changes(lake.tables, lake.step.name)[-1]
    assert last.spec == lake.step.slack
    proposed(lake, 0.5)
    lake.edit(quality=QUALITY | {"delta": 0.3})
    lake.query(blocks=4)
    write_jsonl(tmp_path / "live" / "last.jsonl", disordered(50, seed=3))
    lake.ingest(LIVE)
    assert slack_changes(lake.tables, lake.step.name)[-1].spec == lake.step.slack


@pytest.mark.parametrize("slack", ["quantile", "max_delay", "fixed", rare("pd"), rare("pd_final")])
def test_the_same_answers_however_records_come_together_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slack: str
) -> None:
    """What is late, what an answer holds and when it closed hang on the order of records alone."""
    monkeypatch.setattr(watermark, "EVERY", 12)
    found = {}
    for size in (1, 50, 65_536):
        monkeypatch.setattr(door, "BLOCK", size)
        lake = filled(tmp_path / str(size), slack)
        lake.query(blocks=700 // size + 1).run()
        lake.check()
        at = position(lake.tables, lake.step)
        assert at is not None
        late = late_at(lake.tables, lake.step, at, layout_of(lake.step).fields)
        found[size] = [
            rows_by_pair(lake.step, timely_answers(lake.tables, lake.step), "through_seq"),
            late_by_pair(lake.step, late),
            {"state": at.sealed.state, "classes": classes(lake.tables, lake.step, at)},
        ]
        for row in found[size][0].values():
            for name in ("generation", "micro_batch", "published_at"):
                del row[name]
    assert len(found[1][0]) > 100
    assert len(found[1][1]) > 30
    assert found[50] == found[1]
    assert found[65_536] == found[1]


@pytest.mark.usefixtures("small_blocks")
def test_a_fold_that_was_stopped_by_a_passing_error_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "AT_ONCE", 100)
    whole = filled(tmp_path / "whole", "quantile")
    whole.query(blocks=1_000).run()
    lake = filled(tmp_path / "stopped", "quantile")
    query = lake.query(blocks=1_000)
    reads, times = [], log.event_times

    def stopped(events: Any, spans: Any) -> Any:
        reads.append(spans)
        if len(reads) == 6:
            raise TimeoutError("the mount does not answer")
        return times(events, spans)

    monkeypatch.setattr(log, "event_times", stopped)
    with pytest.raises(TimeoutError):
        query.work()
    query.run()
    assert len(reads) > 15
    lake.check()
    assert trace(lake)[-1] == trace(whole)[-1]
