"""Law 4: panes partition time; a window is exactly the union of its panes."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.windows import closed_of, first_window, windows_a_pane
from penstock.core.window import BEGINNING, FOREVER, WindowSpec
from tests import reference as ref

pytestmark = pytest.mark.law

milliseconds = st.integers(1, 60).map(lambda ms: ms * 1_000)
times = st.integers(-(10**9), 10**9)


@st.composite
def windows(draw: st.DrawFn) -> WindowSpec:
    slide = draw(milliseconds)
    size = slide + draw(st.integers(0, 300)) * 1_000
    return WindowSpec(size, slide, draw(st.integers(-500, 500)) * 1_000)


@given(window=windows(), event_time=times)
def test_every_instant_lies_in_exactly_one_pane(window: WindowSpec, event_time: int) -> None:
    start = window.pane_of(event_time)
    assert start <= event_time < start + window.pane
    assert window.pane_of(start) == start
    assert window.pane_of(start + window.pane) == start + window.pane


@given(window=windows(), event_time=times)
def test_a_window_is_the_union_of_its_panes(window: WindowSpec, event_time: int) -> None:
    for start in window.windows_of(event_time):
        panes = list(window.panes_of(start))
        assert panes[0] == start
        assert panes[-1] + window.pane == start + window.size
        assert all(b - a == window.pane for a, b in pairwise(panes))
        assert window.pane_of(event_time) in panes


@given(window=windows(), event_time=times)
def test_the_windows_of_an_instant_are_those_that_hold_it(
    window: WindowSpec, event_time: int
) -> None:
    oracle = ref.Window(window.size, window.slide, window.origin)
    assert list(window.windows_of(event_time)) == oracle.starts(event_time)


@given(
    window=windows(),
    event_time=times,
    which=st.integers(-2, 400),
    beside=st.sampled_from([-1, 0, 1]),
)
def test_the_vectorised_forms_mean_the_same(
    window: WindowSpec, event_time: int, which: int, beside: int
) -> None:
    pane = window.pane_of(event_time)
    one = np.array([pane], np.int64)
    starts = list(window.windows_of(pane))
    assert first_window(window, one)[0] == window.first_window(pane) == starts[0]
    assert windows_a_pane(window, one)[0] == len(starts)
    end = starts[0] + (which % (len(starts) + 3) - 1) * window.slide + window.size
    for watermark in (end + beside, BEGINNING, FOREVER):  # on the end of a window, or beside it
        closed = sum(s + window.size <= watermark for s in starts)
        assert window.closed_of(pane, watermark) == closed
        assert closed_of(window, one, watermark)[0] == closed


@given(period=milliseconds, origin=st.integers(-500, 500), event_time=times)
def test_a_landmark_has_no_window_before_it(period: int, origin: int, event_time: int) -> None:
    window = WindowSpec(period, period, origin * 1_000, landmark=True)
    oracle = ref.Window(period, period, origin * 1_000, landmark=True)
    assert list(window.windows_of(event_time)) == oracle.starts(event_time)
