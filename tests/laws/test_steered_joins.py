"""Laws 0 and 6 of joins under a slack that follows coverage: each stream steers its own."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.columns import watermark
from penstock.core.coverage import QualityTarget
from penstock.core.window import micros
from penstock.kinds.join.spec import JoinSpec
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.ingest import door
from penstock.lake.log.blocks import LIVE, slack_changes
from penstock.lake.log.proposed import propose
from penstock.lake.proof.covered import Recorder, newest_rows
from penstock.lake.proof.figures import WINDOWS, figures
from penstock.lake.proof.worth import worth
from penstock.quality.pictures import pictures
from tests import joins, two_streams
from tests.doubles import lose_memory
from tests.joins import (
    QUALITY,
    Case,
    Pair,
    check_settled,
    check_stream,
    logged,
    steered,
    true_pairs,
    true_timely,
)
from tests.lakes import Lake, assert_retraced, make_lake
from tests.rarely import rare
from tests.streams import write_jsonl

pytestmark = pytest.mark.law

FILES = 12


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "BLOCK", 8)
    monkeypatch.setattr(watermark, "EVERY", 6)


def one_stream(home: Path, slack: str) -> tuple[Lake, Case]:
    """A join of a stream with itself."""
    case, draw = steered(joins.CASES["same"], slack), random.Random(7)  # noqa: S311
    lake = make_lake(home, (case.config, joins.oracle_of("same")[1]))
    for number in range(FILES):
        write_jsonl(home / "live" / f"{number}.jsonl", joins.seen(draw, 24, 1.0, 24 * number))
    lake.query()
    lake.ingest()
    return lake, case


def two_of_them(home: Path, slack: str, begin: int = 0) -> tuple[Lake, Case]:
    """A join of two streams, which is added once so many files have come."""
    case, draw = steered(two_streams.CASES["any"], slack), random.Random(8)  # noqa: S311
    lake = two_streams.lake_of(home, case, ("live", "live"))
    for number in range(FILES):
        if number == begin:
            lake.query()
        for name in two_streams.COLUMNS:
            rows = two_streams.rows_of(draw, name, 14, 14 * number)
            write_jsonl(home / name / f"{number}.jsonl", rows)
        lake.ingest(LIVE)
    return lake, case


FED = {"one stream": one_stream, "two": two_of_them}


def trace(lake: Lake) -> dict[int, int]:
    return {s.block: s.state.slack for s in sealed_rows(lake.tables, lake.step, 0)}


@pytest.mark.parametrize("streams", [*FED])
@pytest.mark.parametrize("slack", ["quantile", rare("pd"), rare("pd_final")])
def test_one_trace_for_any_cut(tmp_path: Path, streams: str, slack: str) -> None:
    found = list[dict[int, int]]()
    for cut in (1, 3):
        lake, case = FED[streams](tmp_path / str(cut), slack)
        lake.query(blocks=cut).run()
        assert check_stream(lake, case)
        found.append(trace(lake))
    assert len({*found[0].values()}) > 3, "K moved"
    assert len(found[1]) > 1
    assert found[1].items() <= found[0].items()


@pytest.mark.parametrize("streams", [*FED])
@pytest.mark.parametrize("lost", ["all", rare("offsets"), rare("newest")])
def test_the_same_pairs_after_the_checkpoint_was_lost(
    tmp_path: Path, streams: str, lost: str
) -> None:
    lake, case = FED[streams](tmp_path, "quantile")
    for _ in range(4):
        query = lake.query(blocks=2)
        for _ in range(3):
            query.work()
        check_stream(lake, case)
        lose_memory(query.folder, lost)
    lake.query().run()
    assert check_stream(lake, case)
    lake.correct()
    assert check_settled(lake, case)
    assert_retraced(lake)


def test_a_join_that_is_added_later_folds_its_history_alike(tmp_path: Path) -> None:
    lake, case = two_of_them(tmp_path, "quantile", FILES // 2)
    query = lake.query(blocks=2)
    for _ in range(3):
        query.work()
    lose_memory(query.folder, "all")
    lake.query(blocks=3).run()
    lake.correct()
    assert check_settled(lake, case)
    assert len({*trace(lake).values()}) > 3, "K moved"
    assert_retraced(lake)


@pytest.mark.parametrize("streams", [*FED])
def test_a_proposed_threshold_holds_from_its_block(tmp_path: Path, streams: str) -> None:
    """Of the file 1 - sqrt(1 - epsilon) may be missing: a pair needs both of its records."""
    lake, case = FED[streams](tmp_path, "quantile")
    tuning = lake.step.slack.tuning
    assert tuning is not None
    assert tuning.threshold == pytest.approx(0.8**0.5)
    assert isinstance(lake.step, JoinSpec)
    lake.query(blocks=2).run()
    spec = replace(lake.step.slack, tuning=replace(tuning, threshold=0.97))
    propose(lake.tables, lake.step, spec, "measured", lake.clock)
    more(lake, streams)
    lake.query(blocks=2).run()
    assert slack_changes(lake.tables, "s")[-1].spec == spec
    check_stream(lake, case)
    lake.correct()
    assert check_settled(lake, case)
    assert_retraced(lake)


@pytest.mark.parametrize("streams", [*FED])
def test_the_share_of_pairs_in_time_is_recorded(tmp_path: Path, streams: str) -> None:
    lake, case = FED[streams](tmp_path, "quantile")
    lake.query(blocks=2).run()
    lake.correct()
    recorder = Recorder(lake.tables, lake.pipeline, lake.step, lake.clock)
    assert recorder.record()
    log, size = logged(lake), lake.step.window.size

    def by_window(found: set[Pair]) -> Counter[int]:
        lefts = (log.records[left] for left, _ in found)
        return Counter(left["event_time"] // size * size for left in lefts if left)

    timely, every = by_window(true_timely(log, case)), by_window(true_pairs(log, case))
    rows = newest_rows(recorder.table).to_pylist()
    assert len(rows) > 20
    for row in rows:
        start = micros(row["window_start"])
        assert (row["records_timely"], row["records"]) == (2 * timely[start], 2 * every[start])
        assert row["coverage"] == pytest.approx(timely[start] / every[start])
        assert row["error_observed"] == pytest.approx(1 - row["coverage"])
    assert any(row["error_observed"] > 0 for row in rows)
    found = figures(lake.tables, lake.pipeline, lake.step)
    assert found is not None
    off = sum(row["error_observed"] >= QUALITY["epsilon"] for row in rows[-WINDOWS:])
    assert found.violations == off / len(rows[-WINDOWS:])
    worth_of = worth(lake.tables, lake.pipeline, lake.step)
    assert worth_of is not None
    assert worth_of.counts == "windows' pairs"
    assert [rate.target for rate in worth_of.rates] == [QualityTarget(**QUALITY)]
    assert worth_of.wait is None, "pairs are told at once"
    drawn = pictures(lake.tables, lake.pipeline, {"s": worth_of})["timely-s.svg"]
    assert all(said in drawn for said in ("share of pairs", "windows' pairs", "slack K"))


def more(lake: Lake, streams: str) -> None:
    draw = random.Random(9)  # noqa: S311
    if streams == "two":
        for name in two_streams.COLUMNS:
            rows = two_streams.rows_of(draw, name, 60, 14 * FILES)
            write_jsonl(lake.home / name / "more.jsonl", rows)
    else:
        rows = joins.seen(draw, 90, 1.0, 24 * FILES)
        write_jsonl(lake.home / "live" / "more.jsonl", rows)
    lake.ingest(LIVE)
