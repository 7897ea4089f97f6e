"""What a slack costs and brings, against the oracle's answers and plain Python over blocks."""

from pathlib import Path
from statistics import fmean, median

import numpy as np
import pyarrow.compute as pc
import pytest

from penstock.columns import watermark
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.history.position import position
from penstock.lake.ingest import door
from penstock.lake.proof.covered import Recorder, errors_of, newest_rows
from penstock.lake.proof.worth import Worth, worth
from penstock.lake.proof.worth_told import cost, expected, in_short, verdict, worth_table
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests import reference as ref
from tests.answers import blocks_of
from tests.lakes import Lake, make_lake
from tests.laws import test_steered_slack
from tests.laws.test_steered_slack import filled
from tests.steps import CASES
from tests.streams import disordered, us, write_jsonl

SIZE = 60_000_000


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "BLOCK", 16)
    monkeypatch.setattr(watermark, "EVERY", 12)


def recorded(lake: Lake) -> Lake:
    lake.query(blocks=6).run()
    lake.correct()
    Recorder(lake.tables, lake.pipeline, lake.step, lake.clock).record()
    return lake


def worth_of(lake: Lake) -> Worth:
    found = worth(lake.tables, lake.pipeline, lake.step)
    assert found is not None
    return found


def waits(lake: Lake, windows: set[int]) -> list[int]:
    """Of windows that records closed: newest event time at the end of the block that did, less."""
    blocks = blocks_of(lake.tables, lake.pipeline)
    truth = ref.run(lake.epoch_oracle(), blocks)
    ends, newest = list[int](), 0
    for block in blocks:
        newest = max([newest, *(r["event_time"] for r in block.records if r is not None)])
        ends += [newest] * len(block.records)
    through = {start: a.through_seq for (start, _), a in truth.timely.items()}
    return [ends[seq] - start - SIZE for start, seq in through.items() if start in windows]


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("slack", ["fixed", "max_delay", "quantile", "pd", "pd_final"])
def test_the_wait_is_from_a_window_s_end_to_the_end_of_the_block_that_answered_it(
    tmp_path: Path, slack: str
) -> None:
    lake = recorded(filled(tmp_path, slack, mode="live"))
    found, rows = worth_of(lake), newest_rows(Table(lake.tables.coverage(lake.step))).to_pylist()
    counted = {us(r["window_start"]) for r in rows if us(r["window_end"]) > found.since}
    assert (found.policy, found.known) == (slack, True)
    assert (found.since > BEGINNING) == (slack in {"quantile", "pd_final"})
    assert found.windows == len(counted) > 50
    waited = waits(lake, counted)
    assert found.wait is not None
    assert found.wait.half == pytest.approx(median(waited))
    assert found.wait.most == pytest.approx(np.quantile(waited, 0.95))
    assert found.slack is not None
    if slack == "fixed":
        assert found.slack == 40_000_000
        assert min(waited) >= 40_000_000, "blocks only add to K"
        assert found.added == found.wait.half - found.slack > 0
    if slack == "pd":
        assert found.slack == fmean(r["slack_us"] for r in rows)
    published = read_table(Table(lake.tables.answers(lake.step)), ["published_at"])
    arrived = read_table(Table(lake.tables.blocks()), ["arrived_at"])
    most = pc.max(published["published_at"]).as_py() - pc.min(arrived["arrived_at"]).as_py()
    assert found.processing is not None
    assert 0 < found.processing.half <= found.processing.most <= most.total_seconds()


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("slack", ["fixed", "quantile", "pd"])
def test_rates_are_those_of_the_answers_that_are_judged(tmp_path: Path, slack: str) -> None:
    lake = recorded(filled(tmp_path, slack))
    found, quality = worth_of(lake), lake.pipeline.steps["s"].quality
    rows = newest_rows(Table(lake.tables.coverage(lake.step))).to_pylist()
    assert found.targeted == (quality is not None)
    if quality is None:
        (rate,) = found.rates
        assert (rate.of, rate.off) == tuple(
            sum(r[n] for r in rows) for n in ("answers", "answers_beyond")
        )
        assert rate.errors == ()
        assert verdict(rate, found) == "no target"
    else:
        every = errors_of(lake.tables, lake.step, quality)
        assert [(r.name, r.target, [*r.errors]) for r in found.rates] == every
        for rate in found.rates:
            assert rate.of == len(rate.errors) > 500
            assert rate.off == sum(e >= rate.target.epsilon for e in rate.errors)
            assert verdict(rate, found) == ("kept" if rate.kept else "missed")
    for rate in found.rates:
        if slack == "quantile":
            assert rate.expected == pytest.approx(0.75 * rate.target.delta)
            assert expected(rate, found).startswith("at most ")
        if slack == "pd" and rate.name == "s: n":
            short = sum(r["answers"] for r in rows if r["coverage"] <= 0.9)
            assert rate.expected == short / sum(r["answers"] for r in rows)
        assert f"{rate.upper:.1%}" in in_short(found)
    _, *shown = worth_table({"s": found})
    assert [row[0] for row in shown] == [rate.name for rate in found.rates]
    for rate, row in zip(found.rates, shown, strict=True):
        assert row[7].startswith(f"{rate.off:,} of {rate.of:,} ")
        assert row[8] == f"{rate.upper:.2%}"


@pytest.mark.usefixtures("_small")
def test_while_k_is_not_known_nothing_is_expected_or_judged_but_the_wait_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_steered_slack, "QUALITY", {"epsilon": 0.1, "delta": 0.001})
    monkeypatch.setattr(test_steered_slack, "OWN", {})
    found = worth_of(recorded(filled(tmp_path, "quantile")))
    assert (found.known, found.since) == (False, FOREVER)
    assert [(r.of, r.off, r.expected, r.says_something) for r in found.rates] == [
        (0, 0, None, False)
    ]
    assert worth_table({"s": found})[1][6:] == ["not known yet"] * 4
    assert verdict(found.rates[0], found) == "not known yet"
    assert found.windows > 50
    assert "the wait, in event time" in cost(found)


@pytest.mark.usefixtures("_small")
def test_before_anything_is_recorded_or_sealed_there_is_little_to_say(tmp_path: Path) -> None:
    lake = filled(tmp_path, "max_delay")
    assert worth(lake.tables, lake.pipeline, lake.step) is None
    lake.query(blocks=6).run()
    found = worth_of(lake)
    assert (found.windows, found.slack, found.wait, found.processing) == (0, None, None, None)
    assert [(r.of, r.expected) for r in found.rates] == [(0, None)]
    assert worth_table({"s": found}) == []
    assert "K not known yet" in cost(found)


def test_of_newest_records_the_wait_is_known_and_no_rate(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, CASES["seen"])
    lake.query()
    write_jsonl(tmp_path / "live" / "0.jsonl", disordered(400, seed=4))
    lake.ingest()
    found = worth_of(recorded(lake))
    assert position(lake.tables, lake.step) is not None
    assert found.rates == ()
    assert found.windows > 0
    assert cost(found).startswith(f"slack {lake.step.slack.policy}, K ")
    assert [row[0] for row in worth_table({"seen": found})[1:]] == ["seen"]


def test_what_closed_because_the_source_ended_did_not_wait(tmp_path: Path) -> None:
    """All records are one block: the end closes what they left open."""
    found = worth_of(recorded(filled(tmp_path, "fixed")))
    assert {expected(rate, found) for rate in found.rates} == {"-"}, "it steers by nothing"
    assert found.wait is not None
    assert found.wait.half >= 40_000_000
