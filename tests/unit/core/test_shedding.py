"""Shedding by S2J's formulas, on a clock that the tests turn: how much, which records, and when."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import ConfigError
from penstock.core.shedding import (
    HELD,
    STEP,
    Behind,
    Model,
    Shedder,
    Shedding,
    between,
    is_shed,
)
from tests import reference as ref

SECOND = 1_000_000
MAY = Shedding(Model.LINEAR, 0.3, 0.8, 10 * SECOND)
bounds = st.builds(
    Shedding, st.sampled_from(Model), st.floats(0.01, 1), st.floats(0, 0.99), st.just(SECOND)
)


@pytest.mark.parametrize(
    ("utilisation", "linear", "quadratic"),
    [(0.0, 0, 0), (0.8, 0, 0), (0.81, 5, 5), (0.9, 15, 10), (0.95, 25, 20), (1.0, 30, 30),
     (9.0, 30, 30)],
)  # fmt: skip
def test_the_papers_formulas_by_hand(utilisation: float, linear: int, quadratic: int) -> None:
    """0.3 (tau - 0.8) / 0.2 and its square, up to the next step: at 0.95 22.5 % and 16.875 %."""
    assert MAY.ratio(utilisation) == linear
    assert Shedding(Model.QUADRATIC, 0.3, 0.8, SECOND).ratio(utilisation) == quadratic


@given(bounds, st.floats(0, 5), st.floats(0, 5))
def test_more_load_never_sheds_less_and_never_more_than_the_base(may, one, other) -> None:
    low, high = sorted((one, other))
    assert 0 <= may.ratio(low) <= may.ratio(high) <= round(100 * may.base)
    assert may.ratio(may.start) == 0
    assert may.ratio(1.0) == round(100 * may.base)
    over = Fraction(max(low - may.start, 0)) / (1 - Fraction(may.start))
    share = min(over, 1) ** (2 if may.model is Model.QUADRATIC else 1) * Fraction(may.base)
    assert -1 <= may.ratio(low) - 100 * share <= STEP + 1


@given(st.integers(0, 2**40), st.integers(0, 20))
def test_the_sample_is_even_over_any_run_of_positions(first: int, steps: int) -> None:
    ratio = steps * STEP
    taken = sum(is_shed(seq, ratio) for seq in range(first, first + 1_000))
    assert abs(taken - 10 * ratio) <= 10


@given(st.integers(0, 2**60), st.integers(0, 100), st.integers(0, 100))
def test_a_greater_ratio_sheds_the_same_records_and_more(seq, one, other) -> None:
    low, high = sorted((one, other))
    assert is_shed(seq, low) <= is_shed(seq, high)
    assert is_shed(seq, low) == ref.is_shed([(0, low)], seq)


@given(
    st.dictionaries(st.integers(0, 60), st.integers(0, 100), max_size=6),
    st.integers(0, 60), st.integers(0, 20),
)  # fmt: skip
def test_what_holds_within_a_run_says_all_of_it(found, first: int, count: int) -> None:
    changes = sorted(found.items())
    held = between(changes, first, first + count)
    for seq in range(first, first + count + 1):
        assert ref.is_shed(held, seq) == ref.is_shed(changes, seq)
    if not any(ref.is_shed([(0, ratio)], seq) for seq in range(100) for _, ratio in held):
        assert not held


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"base": 0}, "base 0 is no share of the records: above 0, up to 1"),
        ({"base": 1.1}, "base 1.1 is no share"),
        ({"base": float("nan")}, "base nan is no share"),
        ({"start": 1.0}, "from 1 is no utilisation to begin at: 0 up to below 1"),
        ({"start": -0.1}, "from -0.1 is no utilisation"),
        ({"within": 0}, "within must be longer than nothing"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict, said: str) -> None:
    usual = {"model": Model.LINEAR, "base": 0.3, "start": 0.8, "within": SECOND}
    with pytest.raises(ConfigError, match=said):
        Shedding(**usual | wrong)


def test_a_stream_is_behind_by_its_backlog_at_its_speed() -> None:
    behind = Behind()
    assert behind.look(0.0, 100, 0) is None, "it has answered nothing yet"
    assert behind.look(1.0, 300, 100) == 2.0
    assert behind.look(2.0, 500, 200) == 3.0
    for second in range(3, 500):
        assert behind.look(float(second), 500, 500) == 0.0
    assert behind.look(500.0, 900, 500) is None, "how fast it was before says nothing"
    assert behind.look(501.0, 900, 700) == 2.0, "200 in two seconds, since it had nothing to do"


def test_speed_is_that_of_the_last_seconds_and_of_the_last_answers() -> None:
    behind = Behind()
    behind.look(0.0, 1_000_000, 0)
    for second in range(1, 21):
        behind.look(float(second), 1_000_000, 100 * second)
    for second in range(21, 41):
        found = behind.look(float(second), 1_000_000, 2_000 + 1_000 * (second - 20))
    assert found == (1_000_000 - 22_000) / 1_000, "the last ten seconds alone"
    for second in range(41, 70):  # one micro-batch takes half a minute
        found = behind.look(float(second), 1_000_000, 22_000)
    assert found is not None
    assert found > 978, "it is slower, and is not taken for standing still"


def test_more_is_shed_at_once_and_less_once_it_would_have_done() -> None:
    shedder, asked = Shedder(MAY, 0), list[tuple[float, int]]()
    for second, behind in enumerate([0, 5, 7.9, 9.0, 12.0, 9.0, *[0.1] * 20]):
        found = shedder.decide(float(second), behind)
        if found is not None:
            shedder.ratio = found[0]
            asked.append((second, found[0]))
    assert asked == [(3, 15), (4, 30), (15, 15), (16, 0)]
    assert HELD == 10


def test_what_cannot_be_said_changes_nothing() -> None:
    shedder = Shedder(MAY, 15)
    assert shedder.decide(0.0, None) is None


def test_why_is_told() -> None:
    assert Shedder(MAY, 0).decide(0.0, 9.04) == (20, "9.0 s behind, 10 s are allowed")


def test_a_step_that_may_shed_no_more_goes_back_to_nothing() -> None:
    assert Shedder(None, 15).decide(0.0, 99.0) == (0, "shed is not in the pipeline file any more")
    assert Shedder(None, 0).decide(0.0, 99.0) is None
