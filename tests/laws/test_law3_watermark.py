"""Law 3: the watermark never goes back; a pair is on time or late, never both, never neither."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.slack import (
    BlockKind,
    BlockSummary,
    SlackChange,
    SlackPolicy,
    SlackSpec,
    WatermarkState,
    fold,
)
from penstock.core.window import FOREVER, WindowSpec
from tests import reference as ref
from tests.doubles import summaries_of
from tests.steps import case
from tests.streams import small_streams

pytestmark = pytest.mark.law

specs = st.builds(SlackSpec, st.sampled_from(SlackPolicy), st.integers(0, 500))
summaries = st.lists(
    st.builds(
        BlockSummary,
        number=st.just(0),
        kind=st.sampled_from(BlockKind),
        live=st.booleans(),
        last_seq=st.just(0),
        t_max=st.none() | st.integers(-1_000, 1_000),
        lateness=st.integers(0, 2_000),
    ),
    max_size=20,
)


@given(blocks=summaries, changes=st.lists(st.builds(SlackChange, st.integers(0, 20), specs)),
       first=specs)  # fmt: skip
def test_it_never_goes_back_whatever_the_blocks_and_the_slack(blocks, changes, first) -> None:
    decided = [SlackChange(0, first), *sorted(changes, key=lambda c: c.block)]
    marks = [after.watermark for _, _, after in fold(WatermarkState(), blocks, decided)]
    assert all(a <= b for a, b in pairwise(marks))


@given(blocks=summaries, spec=specs)
def test_history_never_moves_it(blocks, spec) -> None:
    old = [BlockSummary(0, BlockKind.DATA, False, 0, b.t_max, b.lateness) for b in blocks]
    for _, before, after in fold(WatermarkState(), old, [SlackChange(0, spec)]):
        assert after == before


@given(blocks=summaries, spec=specs)
def test_an_end_closes_every_window_for_good(blocks, spec) -> None:
    ended = [*blocks, BlockSummary(0, BlockKind.END, True, 0, None, 0), *blocks]
    states = [after for _, _, after in fold(WatermarkState(), ended, [SlackChange(0, spec)])]
    assert all(s.watermark == FOREVER for s in states[len(blocks) :])


@given(blocks=summaries, spec=specs, cut=st.integers(0, 20))
def test_going_on_from_a_state_is_the_same_as_one_fold(blocks, spec, cut) -> None:
    changes = [SlackChange(0, spec)]
    whole = [after for *_, after in fold(WatermarkState(), blocks, changes)]
    head = [after for *_, after in fold(WatermarkState(), blocks[:cut], changes)]
    state = head[-1] if head else WatermarkState()
    tail = [after for *_, after in fold(state, blocks[cut:], changes)]
    assert head + tail == whole


@pytest.mark.parametrize("name", ["sites", "codes", "both", "landmark"])
@given(stream=small_streams())
def test_it_is_the_oracles(name: str, stream: list) -> None:
    step = case(name)
    blocks = [ref.Block(records, kind, live) for kind, live, records in stream]
    changes = [SlackChange(0, step.spec.slack)]
    folded = fold(WatermarkState(), summaries_of(step.spec, blocks), changes)
    marks = [after.watermark for _, _, after in folded]
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
