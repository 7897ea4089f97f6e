"""Coverage thresholds: the worked table to the digits printed, and scipy as oracle."""

import math
from itertools import pairwise

import pytest
from scipy import stats

from penstock.core import coverage as c
from penstock.core.errors import ConfigError
from penstock.core.expression import Column, MeasureSpec
from penstock.core.measure import ColumnType, Function

TARGET = c.QualityTarget(0.05, 0.05)
WORKED = {
    100: (".9809", ".9844", ".9911", ".9801", ".838", ".939", ".984", ".830", ".889", ".900",
          ".630", ".390"),
    500: (".9679", ".9709", ".9785", ".9650", ".507", ".755", ".925", ".444", ".597", ".900",
          ".242", ".094"),
    1_000: (".9634", ".9659", ".9726", ".9608", ".339", ".606", ".860", ".281", ".425", ".900",
            ".132", ".048"),
    7_500: (".9554", ".9565", ".9599", ".9541", ".064", ".170", ".450", ".049", ".090", ".900",
            ".020", ".0065"),
}  # fmt: skip
"""N: SUM with CV^2 = 1/3, 1, 4; COUNT exact; AVG with CV^2 = 1/3, 1, 4; MEDIAN exact, Serfling,
free; quantiles 0.9 and 0.99 exact."""


def thresholds(n: int) -> list[float]:
    return [
        *(c.of_sum(TARGET, n, cv2) for cv2 in (1 / 3, 1, 4)),
        c.of_count_exactly(TARGET, n),
        *(c.of_average(TARGET, n, cv2) for cv2 in (1 / 3, 1, 4)),
        c.of_quantile(TARGET, n, 0.5),
        c.of_quantile_bounded(TARGET, n),
        c.of_quantile_freely(TARGET, 0.5),
        c.of_quantile(TARGET, n, 0.9),
        c.of_quantile(TARGET, n, 0.99),
    ]


@pytest.mark.parametrize("n", WORKED)
def test_the_worked_table_to_the_digits_printed(n: int) -> None:
    for text, found in zip(WORKED[n], thresholds(n), strict=True):
        digits = len(text) - 1
        assert abs(found - float(text)) <= 0.5 * 10**-digits + 1e-12, (n, text, found)


def test_the_sum_by_hand() -> None:
    b = 1.959963985**2 * 2 / 500
    assert b == pytest.approx(0.015366, abs=1e-6)
    assert c.of_sum(TARGET, 500, 1.0) == pytest.approx(0.97085, abs=5e-6)


@pytest.mark.parametrize("n", [20, 100, 777])
@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.3])
def test_the_exact_count_is_the_binomial_s(n: int, epsilon: float) -> None:
    target = c.QualityTarget(epsilon, 0.05)
    p = c.of_count_exactly(target, n)
    most = math.floor(n * (1 - epsilon) + 1e-9)
    assert stats.binom.cdf(most, n, p) <= 0.05 * (1 + 1e-9)
    assert stats.binom.cdf(most, n, p - 1e-6) > 0.05


@pytest.mark.parametrize("phi", [0.5, 0.9, 0.01])
@pytest.mark.parametrize("n", [40, 100, 501])
def test_the_exact_quantile_is_the_hypergeometric_s_from_there_on(n: int, phi: float) -> None:
    def error(drawn: int) -> float:
        k = math.ceil(phi * drawn - 1e-9)
        low, high = math.floor((phi - 0.05) * n + 1e-9), math.ceil((phi + 0.05) * n - 1e-9) - 1
        below = stats.hypergeom.sf(k - 1, n, max(low, 0), drawn) if low > 0 else 0.0
        above = stats.hypergeom.cdf(k - 1, n, min(high, n), drawn) if high < n else 0.0
        return below + above

    least = round(c.of_quantile(TARGET, n, phi) * n)
    assert all(error(drawn) <= 0.05 + 1e-9 for drawn in range(least, n + 1))
    assert least == 1 or error(least - 1) > 0.05


def test_thresholds_rise_with_what_is_asked_and_fall_with_records() -> None:
    for rule in (
        lambda t, n: c.of_sum(t, n, 1.0),
        lambda t, n: c.of_bounded_sum(t, n, 2.0),
        c.of_count_exactly,
        c.of_scaled_count,
        lambda t, n: c.of_average(t, n, 1.0),
        lambda t, n: c.of_bounded_average(t, n, 2.0),
        c.of_quantile_bounded,
    ):
        by_records = [rule(TARGET, n) for n in (50, 100, 1_000, 10_000)]
        assert all(a > b for a, b in pairwise(by_records))
        by_epsilon = [rule(c.QualityTarget(e, 0.05), 400) for e in (0.01, 0.05, 0.2)]
        assert all(a > b for a, b in pairwise(by_epsilon))
        by_delta = [rule(c.QualityTarget(0.05, d), 400) for d in (0.01, 0.05, 0.2)]
        assert all(a > b for a, b in pairwise(by_delta))
        assert all(0 < x <= 1 for x in (*by_records, *by_epsilon, *by_delta))


@pytest.mark.parametrize("spread", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("delta", [0.01, 0.2])
def test_a_bounded_sum_may_miss_as_much_as_the_bound_leaves_of_epsilon(
    delta: float, spread: float
) -> None:
    """Tried missing share by missing share."""
    n, target = 400, c.QualityTarget(0.1, delta)
    shares = (i / 100_000 for i in range(10_001))
    most = max(
        q for q in shares
        if q + spread * math.sqrt(q * (1 - q + 1 / n) * -math.log(delta) / (2 * n)) <= 0.1
    )  # fmt: skip
    assert c.of_bounded_sum(target, n, spread) == pytest.approx(1 - most, abs=2e-5)


def test_a_step_needs_the_coverage_of_its_most_demanding_measure() -> None:
    def enough(*functions: Function, epsilon: float = 0.05) -> float:
        target = c.QualityTarget(epsilon, 0.05)
        over = None if functions == (Function.COUNT,) else Column("x", ColumnType.DOUBLE)
        measures = [MeasureSpec("m", f, over, ColumnType.DOUBLE) for f in functions]
        return c.coverage_threshold([(m, target) for m in measures], 500, 1.0)

    assert c.of_count(TARGET) == 0.95
    assert 0.95 < enough(Function.COUNT) < 0.95 + 1e-6, "strictly above"
    assert enough(Function.MAX) == enough(Function.COUNT), "nothing bounds it"
    assert enough(Function.COUNT, epsilon=1e-10) == 1.0
    assert enough(Function.AVG) == pytest.approx(0.755, abs=5e-4)
    assert enough(Function.MAX, Function.AVG) == enough(Function.AVG)
    drawn = c.of_sum(TARGET, 500, 500 / 499 - 1)
    assert enough(Function.SUM) == drawn
    assert enough(Function.AVG, Function.SUM, Function.COUNT) == max(drawn, enough(Function.COUNT))


def test_nothing_known_of_the_distribution_asks_for_more() -> None:
    assert c.of_sum(TARGET, 500, 1.0, TARGET.cantelli) > c.of_sum(TARGET, 500, 1.0)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 0.05), (1, 0.05), (1.5, 0.05), (-0.1, 0.05), (0.05, 0), (0.05, 1)]
)
def test_a_target_that_makes_no_sense_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ConfigError, match="choose one between 0 and 1"):
        c.QualityTarget(epsilon, delta)


def test_a_mean_near_zero_is_refused() -> None:
    assert c.squared_cv(2.0, 4.0) == 1.0
    with pytest.raises(ConfigError, match="meaningless"):
        c.squared_cv(0.0, 4.0)


def test_values_that_are_late_because_they_are_large_narrow_epsilon() -> None:
    assert TARGET.for_values(2.0).epsilon == 0.025
    assert TARGET.for_values(0.5) == TARGET
