"""Measures by hand: ranks, exact sums, what no value means."""

import math
from fractions import Fraction

import pytest

from penstock.core.measure import Function, Partial, rank, rounded


def of(*values: float | None) -> Partial:
    found = Partial()
    for value in values:
        found = found.update(value)
    return found


@pytest.mark.parametrize(("phi", "n", "wanted"), [
    (0.5, 1, 1), (0.5, 2, 1), (0.5, 3, 2), (0.5, 4, 2), (0.51, 4, 3), (0.07, 100, 7),
    (0.071, 100, 8), (0.29, 100, 29), (0.001, 10, 1), (0.99, 100, 99), (0.999, 1_000, 999),
    (0.9, 10, 9), (0.001, 1_000_000, 1_000), (0.000_001, 3, 1), (1e-10, 3, 1),
])  # fmt: skip
def test_the_rank_of_a_quantile(phi: float, n: int, wanted: int) -> None:
    """The least rank with phi n at or below it; by hand, so that 0.29 x 100 is 29."""
    assert rank(phi, n) == wanted


def test_a_quantile_is_one_of_the_values() -> None:
    part = of(7, None, 1, 5).merge(of(3))
    assert part.values == (1, 3, 5, 7)
    assert part.finish(Function.QUANTILE) == 3, "the median unless it is said otherwise"
    assert [part.finish(Function.QUANTILE, phi) for phi in (0.25, 0.26, 0.75, 0.99)] == [1, 3, 5, 7]


def test_no_value_is_null_and_its_count_is_zero() -> None:
    assert Partial() == Partial(0, 0, None, None, ())
    for part in (of(), of(None, None)):
        assert part.finish(Function.COUNT) == 0
        rest = [f for f in Function if f is not Function.COUNT]
        assert [part.finish(function) for function in rest] == [None] * len(rest)


def test_each_function_by_hand() -> None:
    part = of(4, -2, None, 7)
    found = {f.value: part.finish(f) for f in Function}
    assert found == {"count": 3, "sum": 9, "avg": 3.0, "min": -2, "max": 7, "quantile": 4}
    assert of(0).finish(Function.SUM) == 0, "zero is a value"


def test_merging_with_nothing_changes_nothing() -> None:
    assert of(3).merge(Partial()) == Partial().merge(of(3)) == of(3) == Partial(1, 3, 3, 3, (3,))
    assert of(3).merge(of(1, 2)) == Partial(3, 6, 1, 3, (1, 2, 3))
    with pytest.raises(AttributeError):
        Partial().n = 1


def test_sums_are_exact_until_they_are_finished() -> None:
    assert of(0.1, 0.2, -0.3).total == Fraction(0.1) + Fraction(0.2) - Fraction(0.3)
    assert of(2**63, 1).finish(Function.SUM) == 2**63 + 1
    assert of(1e308, 1e308).finish(Function.AVG) == 1e308


def test_a_negative_zero_is_zero() -> None:
    assert math.copysign(1, of(-0.0).finish(Function.MIN)) == 1


def test_a_sum_beyond_the_doubles_is_infinite_on_its_side() -> None:
    assert rounded(Fraction(10) ** 400) == math.inf
    assert rounded(-(Fraction(10) ** 400)) == -math.inf
    assert rounded(Fraction(1, 4)) == 0.25
    assert rounded(10**400) == 10**400, "integers stay whole"
