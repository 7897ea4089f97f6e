"""Law 7: controllers stay within bounds, are monotone where the formula says so, and repeatable."""

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
    spec_at,
)

pytestmark = pytest.mark.law

blocks = st.lists(
    st.builds(
        BlockSummary,
        number=st.just(0),
        kind=st.just(BlockKind.DATA),
        live=st.just(True),
        last_seq=st.just(0),
        t_max=st.integers(0, 10_000),
        lateness=st.integers(0, 3_000),
    ),
    min_size=1,
    max_size=20,
)


def states(found, spec) -> list[WatermarkState]:
    return [after for *_, after in fold(WatermarkState(), found, [SlackChange(0, spec)])]


@given(found=blocks, span=st.integers(0, 5_000))
def test_fixed_is_what_was_given(found, span) -> None:
    assert {s.slack for s in states(found, SlackSpec(SlackPolicy.FIXED, span))} == {span}


@given(found=blocks, span=st.integers(1, 5_000))
def test_max_delay_is_the_greatest_lateness_so_far(found, span) -> None:
    spec = SlackSpec(SlackPolicy.MAX_DELAY, span)
    greatest = 0
    for block, state in zip(found, states(found, spec), strict=True):
        greatest = max(greatest, block.lateness)
        assert state.slack == state.k == greatest


@given(found=blocks, few=st.integers(0, 2_000), more=st.integers(0, 2_000))
def test_a_greater_slack_never_gives_a_higher_watermark(found, few, more) -> None:
    low = states(found, SlackSpec(SlackPolicy.FIXED, few + more))
    high = states(found, SlackSpec(SlackPolicy.FIXED, few))
    assert all(a.watermark <= b.watermark for a, b in zip(low, high, strict=True))


@given(found=blocks, spec=st.builds(SlackSpec, st.sampled_from(SlackPolicy), st.integers(0, 99)))
def test_the_same_blocks_give_the_same_decisions(found, spec) -> None:
    assert states(found, spec) == states(list(found), spec)


@given(spec=st.builds(SlackSpec, st.sampled_from(SlackPolicy), st.integers(0, 2**60)))
def test_a_decision_survives_being_written_down(spec) -> None:
    assert SlackSpec.from_text(spec.to_text()) == spec


@given(later=st.lists(st.tuples(st.integers(1, 50), st.integers(0, 9))), block=st.integers(0, 60))
def test_the_last_decision_in_force_wins(later, block) -> None:
    changes = [SlackChange(0, SlackSpec(SlackPolicy.FIXED, 100))]
    changes += [SlackChange(b, SlackSpec(SlackPolicy.FIXED, k)) for b, k in sorted(later)]
    wanted = [c.spec for c in changes if c.block <= block][-1]
    assert spec_at(changes, block) == wanted


def test_a_block_nobody_decided_for_is_an_error() -> None:
    with pytest.raises(ValueError, match="no slack was decided for block 3"):
        spec_at([SlackChange(4, SlackSpec(SlackPolicy.FIXED, 0))], 3)
