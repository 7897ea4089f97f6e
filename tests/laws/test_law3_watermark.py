"""Law 3: the watermark never goes back; a pair is on time or late, never both, never neither."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.watermark import after_each, closings
from penstock.core.slack import BlockKind, SlackPolicy, SlackSpec, WatermarkState
from penstock.core.window import BEGINNING, FOREVER, WindowSpec
from tests import reference as ref
from tests.speed import folded
from tests.steps import case
from tests.streams import small_streams

pytestmark = pytest.mark.law

specs = st.builds(
    SlackSpec, st.sampled_from([SlackPolicy.FIXED, SlackPolicy.MAX_DELAY]), st.integers(0, 500)
)
runs = st.lists(st.integers(-1_000, 1_000), min_size=1, max_size=40)
starts = st.builds(
    WatermarkState, st.integers(-2_000, 500), st.integers(-500, 500), st.integers(0, 300)
)
WINDOW = WindowSpec(60_000, 20_000)


def plainly(
    state: WatermarkState, times: list[int], spec: SlackSpec, newest: int = BEGINNING
) -> list[WatermarkState]:
    """The states after each record."""
    found = []
    for time in times:
        state = state.after(time, max(newest - time, 0) if newest > BEGINNING else 0, spec)
        newest = max(newest, time)
        found.append(state)
    return found


@given(state=starts, times=runs, spec=specs)
def test_it_never_goes_back_whatever_the_records_and_the_slack(state, times, spec) -> None:
    marks = [state.watermark, *(s.watermark for s in plainly(state, times, spec))]
    assert all(a <= b for a, b in pairwise(marks))


@given(state=starts, kinds=st.lists(st.sampled_from(BlockKind)))
def test_silence_never_moves_it_back_and_an_end_closes_every_window_for_good(state, kinds) -> None:
    marks, newest = [state.watermark], state.t_max
    for kind in kinds:
        state = state.silent(kind)
        marks.append(state.watermark)
        assert state.watermark <= newest or BlockKind.END in kinds or len({*marks}) == 1
    assert all(a <= b for a, b in pairwise(marks))
    if BlockKind.END in kinds:
        assert set(marks[kinds.index(BlockKind.END) + 1 :]) == {FOREVER}
        assert plainly(state, [10**12], SlackSpec(SlackPolicy.FIXED, 0))[0].watermark == FOREVER


@given(state=starts, times=runs, spec=specs, cut=st.integers(0, 40))
def test_going_on_from_a_state_is_the_same_as_one_fold(state, times, spec, cut) -> None:
    whole = plainly(state, times, spec)
    head = plainly(state, times[:cut], spec)
    newest = max(times[:cut], default=BEGINNING)
    tail = plainly(head[-1] if head else state, times[cut:], spec, newest)
    assert head + tail == whole


@given(state=starts, times=runs, spec=specs, newest=st.just(BEGINNING) | st.integers(-500, 500))
def test_over_columns_it_is_the_plain_one(state, times, spec, newest) -> None:
    expected = plainly(state, times, spec, newest)
    marks, after = after_each(state, np.array(times, np.int64), newest, spec)
    assert marks.tolist() == [s.watermark for s in expected]
    assert after == expected[-1]
    ends = [WINDOW.ends(mark) for mark in (state.watermark, *marks.tolist())]
    rises = [i for i, (a, b) in enumerate(pairwise(ends)) if b > a]
    assert closings(WINDOW, state.watermark, marks).tolist() == rises


@pytest.mark.parametrize("name", ["sites", "codes", "both", "landmark"])
@given(stream=small_streams())
def test_it_is_the_oracles(name: str, stream: list) -> None:
    step = case(name)
    blocks = [ref.Block(records, kind, live) for kind, live, records in stream]
    marks = [block.after.watermark for block in folded(step.spec, blocks, WatermarkState())]
    assert marks == ref.run(step.oracle, blocks).watermarks[1:]


@given(
    spec=st.tuples(st.integers(1, 12), st.integers(1, 12)).filter(lambda p: p[1] <= p[0]),
    event_time=st.integers(-10_000_000, 10_000_000),
    watermark=st.integers(-10_000_000, 10_000_000),
)
def test_a_pair_is_late_exactly_when_its_window_has_ended(spec, event_time, watermark) -> None:
    window = WindowSpec(spec[0] * 1_000, spec[1] * 1_000)
    starts = list(window.windows_of(event_time))
    closed = window.closed_of(window.pane_of(event_time), watermark)
    assert [s + window.size <= watermark for s in starts] == [
        i < closed for i in range(len(starts))
    ]
