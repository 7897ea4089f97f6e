"""Law 7: controllers stay within bounds, are monotone where the formula says so, and repeatable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.slack import SlackChange, SlackPolicy, SlackSpec, WatermarkState, spec_at

pytestmark = pytest.mark.law

records = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 3_000)), min_size=1, max_size=20
)
"""Event times with their lateness, us."""


def states(found, spec) -> list[WatermarkState]:
    reached = [WatermarkState()]
    for time, lateness in found:
        reached.append(reached[-1].after(time, lateness, spec))
    return reached[1:]


@given(found=records, span=st.integers(0, 5_000))
def test_fixed_is_what_was_given(found, span) -> None:
    assert {s.slack for s in states(found, SlackSpec(SlackPolicy.FIXED, span))} == {span}


@given(found=records, span=st.integers(1, 5_000))
def test_max_delay_is_the_greatest_lateness_so_far_that_counts(found, span) -> None:
    greatest = 0
    for (_, late), state in zip(
        found, states(found, SlackSpec(SlackPolicy.MAX_DELAY, span)), strict=True
    ):
        greatest = max(greatest, late if late <= span else 0)
        assert state.slack == state.k == greatest


@given(found=records, few=st.integers(0, 2_000), more=st.integers(0, 2_000))
def test_a_greater_slack_never_gives_a_higher_watermark(found, few, more) -> None:
    low = states(found, SlackSpec(SlackPolicy.FIXED, few + more))
    high = states(found, SlackSpec(SlackPolicy.FIXED, few))
    assert all(a.watermark <= b.watermark for a, b in zip(low, high, strict=True))


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
