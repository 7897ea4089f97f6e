"""Slack by hand: what is written down, how a watermark moves, what a silent source does."""

import json

import pytest

from penstock.core.slack import (
    BlockKind,
    BlockSummary,
    SlackChange,
    SlackPolicy,
    SlackSpec,
    Tuning,
    WatermarkState,
    spec_at,
)
from penstock.core.window import BEGINNING, FOREVER

FIXED = SlackSpec(SlackPolicy.FIXED, 30)
BOUNDED = SlackSpec(SlackPolicy.MAX_DELAY, 100)


def test_a_state_starts_before_every_event_time() -> None:
    assert WatermarkState() == WatermarkState(BEGINNING, BEGINNING, 0, 0)
    assert not WatermarkState().ended


def test_a_fixed_slack_follows_the_newest_event_time() -> None:
    state = WatermarkState().after(1_000, 0, FIXED)
    assert state == WatermarkState(970, 1_000, 0, 30)
    state = state.after(400, 600, FIXED)
    assert state == WatermarkState(970, 1_000, 600, 30), "an older record moves nothing but k"
    assert state.after(1_001, 0, FIXED) == WatermarkState(971, 1_001, 600, 30)


def test_a_lateness_on_the_bound_counts_and_one_beyond_it_does_not() -> None:
    state = WatermarkState().after(1_000, 0, BOUNDED)
    assert state == WatermarkState(1_000, 1_000, 0, 0)
    assert state.after(900, 100, BOUNDED) == WatermarkState(1_000, 1_000, 100, 100)
    assert state.after(899, 101, BOUNDED) == WatermarkState(1_000, 1_000, 0, 0)
    late = state.after(900, 100, BOUNDED).after(1_200, 0, BOUNDED)
    assert late == WatermarkState(1_100, 1_200, 100, 100)


def test_a_greater_slack_holds_the_watermark_where_it_was() -> None:
    state = WatermarkState(970, 1_000, 0, 30)
    more = SlackSpec(SlackPolicy.FIXED, 500)
    assert state.after(1_100, 0, more) == WatermarkState(970, 1_100, 0, 500)


def test_an_idle_source_closes_up_to_the_newest_event_time_and_an_end_closes_all() -> None:
    state = WatermarkState(970, 1_000, 7, 30)
    assert state.silent(BlockKind.DATA) == state
    assert state.silent(BlockKind.IDLE) == WatermarkState(1_000, 1_000, 7, 30)
    ended = state.silent(BlockKind.END)
    assert ended == WatermarkState(FOREVER, 1_000, 7, 30)
    assert ended.ended
    assert not WatermarkState(FOREVER - 1).ended
    assert ended.silent(BlockKind.IDLE) == ended, "and stays at its end"


def test_the_gains_of_pd_are_the_published_ones() -> None:
    tuning = Tuning(0.9, 0.05, None)
    assert (tuning.kp, tuning.kd, tuning.recent) == (0.2, 4.0, None)


def test_how_far_back_something_may_be_looked_at() -> None:
    assert FIXED.longest == 30
    assert SlackSpec(SlackPolicy.QUANTILE, 9, Tuning(0.9, 0.05, 7_000)).longest == 7_000
    assert SlackSpec(SlackPolicy.QUANTILE, 9, Tuning(0.9, 0.05, None)).longest == 0


def test_a_decision_is_written_as_tables_hold_it() -> None:
    assert FIXED.to_text() == "fixed:30"
    tuned = SlackSpec(SlackPolicy.PD, 0, Tuning(0.9, 0.05, 7, 8, 0.1, 2.0))
    policy, _, content = tuned.to_text().partition(":")
    assert policy == "pd"
    assert json.loads(content) == {
        "threshold": 0.9, "delta": 0.05, "horizon": 7, "recent": 8, "kp": 0.1, "kd": 2.0,
    }  # fmt: skip
    assert SlackSpec.from_text(tuned.to_text()) == tuned
    assert SlackSpec.from_text("max_delay:100") == BOUNDED


def test_a_decision_holds_from_its_own_block_on() -> None:
    changes = [SlackChange(4, FIXED), SlackChange(6, BOUNDED)]
    assert [spec_at(changes, block) for block in (4, 5, 6, 7)] == [FIXED, FIXED, BOUNDED, BOUNDED]
    with pytest.raises(ValueError, match="block 3"):
        spec_at(changes, 3)


def test_values_that_decisions_hang_on_cannot_be_changed() -> None:
    block = BlockSummary(1, BlockKind.DATA, True, 5, None, 0)
    assert block == BlockSummary(1, BlockKind.DATA, True, 5, None, 0)
    values = [FIXED, Tuning(0.9, 0.1, 0), WatermarkState(), SlackChange(0, FIXED), block]
    names = ["span", "delta", "watermark", "block", "number"]
    for value, name in zip(values, names, strict=True):
        with pytest.raises(AttributeError):
            setattr(value, name, 1)
