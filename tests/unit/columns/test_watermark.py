"""The watermark over columns, by hand."""

import numpy as np

from penstock.columns.watermark import after_each, closings
from penstock.core.slack import SlackPolicy, SlackSpec, WatermarkState
from penstock.core.window import BEGINNING, WindowSpec

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
