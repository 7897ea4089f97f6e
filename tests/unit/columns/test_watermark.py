"""The watermark over columns, by hand."""

from unittest import mock

import numpy as np
import pytest

from penstock.columns import watermark
from penstock.columns.watermark import Steering, after_each, closings
from penstock.core.controllers import fresh
from penstock.core.slack import BlockKind, SlackPolicy, SlackSpec, Tuning, WatermarkState
from penstock.core.window import BEGINNING, FOREVER, WindowSpec

TIMES = np.array([100, 130, 90, 125, 160], np.int64)
"""Late by 0, 0, 40, 5 and 0 us, if nothing was there before."""


def test_a_fixed_slack_over_columns() -> None:
    marks, after = after_each(WatermarkState(), TIMES, BEGINNING, SlackSpec(SlackPolicy.FIXED, 20))
    assert marks.tolist() == [80, 110, 110, 110, 140]
    assert after == WatermarkState(140, 160, 40, 20)


def test_the_greatest_lateness_that_counts_over_columns() -> None:
    start = WatermarkState(0, 100, 3, 3)
    cases = [(40, [97, 127, 127, 127, 127], 40), (39, [97, 127, 127, 127, 155], 5)]
    for span, expected, k in cases:
        spec = SlackSpec(SlackPolicy.MAX_DELAY, span)
        marks, after = after_each(start, TIMES, 100, spec)
        assert marks.tolist() == expected
        assert after == WatermarkState(expected[-1], 160, k, k)


def test_what_stood_before_the_records_is_never_given_up() -> None:
    start = WatermarkState(115, 140, 70, 25)
    marks, after = after_each(start, TIMES, 140, SlackSpec(SlackPolicy.FIXED, 20))
    assert marks.tolist() == [120, 120, 120, 120, 140]
    assert after == WatermarkState(140, 160, 70, 20)
    marks, after = after_each(start, TIMES, 140, SlackSpec(SlackPolicy.MAX_DELAY, 60))
    assert marks.tolist() == [115] * 5
    assert after == WatermarkState(115, 160, 70, 70)


def test_a_watermark_on_the_end_of_a_window_closes_it() -> None:
    window = WindowSpec(10_000, 10_000)
    marks = np.array([9_999, 10_000, 19_999, 20_001, 20_002], np.int64)
    assert closings(window, 9_000, marks).tolist() == [1, 3]
    assert closings(window, 10_000, marks[1:]).tolist() == [2]
    assert closings(window, BEGINNING, marks[:1]).tolist() == [0]


SECOND = 1_000_000


def steered() -> tuple[Steering, WatermarkState]:
    """After records of 10, 5 and 14 s at positions 0 to 2: K is 5 s, the watermark 10 s."""
    tuning = Tuning(0.9, 0.05, SECOND)
    window = WindowSpec(SECOND, SECOND)
    steering = Steering(fresh(window, SlackSpec(SlackPolicy.PD, 0, tuning)), -1)
    times = np.array([10 * SECOND, 5 * SECOND, 14 * SECOND], np.int64)
    marks = [*steering.take(np.arange(3), times, BEGINNING, 2)]
    assert marks == [(1, 10 * SECOND)], "the first record closes what ends by 10 s"
    state = steering.controller.state(WatermarkState())
    assert state == WatermarkState(10 * SECOND, 14 * SECOND, 5 * SECOND, 5 * SECOND)
    return steering, state


def test_refused_records_move_no_watermark() -> None:
    steering, state = steered()
    before = WatermarkState(*([7] * 4))
    assert steering.silent(before, BlockKind.DATA, 9) is before, "nobody looked"
    assert (steering.seq, steering.measured) == (9, [])
    assert steering.controller.state(WatermarkState()) == state


@pytest.mark.parametrize(("kind", "mark"), [
    (BlockKind.IDLE, 14 * SECOND), (BlockKind.END, FOREVER),
])  # fmt: skip
def test_silence_closes_windows_under_a_controller_and_what_is_due_is_measured(
    kind: BlockKind, mark: int
) -> None:
    """[10, 11) s was due at 12 s but not closed; it holds one record, and no other came."""
    steering, state = steered()
    after = steering.silent(state, kind, 9)
    assert (after.watermark, after.t_max, after.k) == (mark, 14 * SECOND, 5 * SECOND)
    found = [(one.window_start, one.received, one.records) for one in steering.measured]
    assert found == [(10 * SECOND, 1, 1)]


def test_a_step_is_due_when_its_last_number_was_refused() -> None:
    steering, state = steered()
    with mock.patch.object(watermark, "EVERY", 4):
        assert steering.silent(state, BlockKind.DATA, 2) is state, "three of four numbers"
        assert steering.controller.greatest == 5 * SECOND
        after = steering.silent(state, BlockKind.DATA, 3)
        assert after == state, "K was the greatest lateness, and still is"
        assert after is not state
        assert steering.controller.greatest is None, "it was learned from"
        assert steering.silent(state, BlockKind.DATA, 8) is state, "nothing came since"
