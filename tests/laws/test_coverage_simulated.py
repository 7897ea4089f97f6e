"""Every coverage rule against simulated windows: how often the answer is off by epsilon or more.

Fixed seed, 20,000 windows each, Clopper-Pearson limits at 99 %, one-sided.
"""

from collections.abc import Callable
from math import ceil

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from penstock.core import coverage as c

TARGET = c.QualityTarget(0.05, 0.05)
TRIALS, AT_ONCE = 20_000, 2_000
Values = npt.NDArray[np.float64]


def limits(violations: int) -> tuple[float, float]:
    """Lower and upper 99 % limit of the violation rate."""
    low = stats.beta.ppf(0.01, violations, TRIALS - violations + 1) if violations else 0.0
    return float(low), float(stats.beta.ppf(0.99, violations + 1, TRIALS - violations))


def population(n: int, cv2: float) -> Values:
    """Values of mean 1 and exactly this CV^2, moderately skew."""
    values = np.random.default_rng(5).gamma(2.0, size=n)
    values = (values - values.mean()) / values.std()
    return 1.0 + values * np.sqrt(cv2)


def on_time_alone(n: int, p: float) -> Callable[[np.random.Generator], npt.NDArray[np.bool_]]:
    """Each record is on time by itself with chance p."""
    return lambda rng: rng.random((AT_ONCE, n)) < p


def drawn(n: int, share: float) -> Callable[[np.random.Generator], npt.NDArray[np.bool_]]:
    """So many of n are on time, each set as likely as any other."""
    count = ceil(share * n - 1e-9)
    order = lambda rng: rng.random((AT_ONCE, n)).argsort(1)  # noqa: E731
    return lambda rng: order(rng) < count


def violated(
    arrivals: Callable[[np.random.Generator], npt.NDArray[np.bool_]],
    wrong: Callable[[npt.NDArray[np.bool_]], npt.NDArray[np.bool_]],
) -> int:
    rng = np.random.default_rng(11)
    return sum(int(wrong(arrivals(rng)).sum()) for _ in range(TRIALS // AT_ONCE))


def sums(values: Values) -> Callable[[npt.NDArray[np.bool_]], npt.NDArray[np.bool_]]:
    return lambda there: np.abs(1 - there @ values / values.sum()) >= TARGET.epsilon


def averages(values: Values) -> Callable[[npt.NDArray[np.bool_]], npt.NDArray[np.bool_]]:
    mean = values.mean()
    return lambda there: np.abs(there @ values / there.sum(1) / mean - 1) >= TARGET.epsilon


def ranks(n: int, phi: float) -> Callable[[npt.NDArray[np.bool_]], npt.NDArray[np.bool_]]:
    def wrong(there: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        wanted = np.ceil(phi * there.sum(1) - 1e-9)
        rank = 1 + (there.cumsum(1) < wanted[:, None]).sum(1)
        low, high = (phi - TARGET.epsilon) * n + 1e-9, (phi + TARGET.epsilon) * n - 1e-9
        return (rank <= low) | (rank >= high)

    return wrong


@pytest.mark.parametrize("n", [100, 500])
@pytest.mark.parametrize("cv2", [1 / 3, 1.0])
def test_rules_by_the_central_limit_theorem(n: int, cv2: float) -> None:
    values = population(n, cv2)
    for arrivals, wrong in (
        (on_time_alone(n, c.of_sum(TARGET, n, cv2)), sums(values)),
        (drawn(n, c.of_average(TARGET, n, cv2)), averages(values)),
    ):
        assert limits(violated(arrivals, wrong))[1] < 1.2 * TARGET.delta


@pytest.mark.parametrize("n", [100, 500])
def test_rules_for_any_distribution(n: int) -> None:
    values = population(n, 1.0)
    spread = float(np.ptp(values) / values.mean())
    for arrivals, wrong in (
        (on_time_alone(n, c.of_sum(TARGET, n, 1.0, TARGET.cantelli)), sums(values)),
        (drawn(n, c.of_bounded_sum(TARGET, n, spread)), sums(values)),
        (drawn(n, c.of_average(TARGET, n, 1.0, TARGET.cantelli)), averages(values)),
        (drawn(n, c.of_bounded_average(TARGET, n, spread)), averages(values)),
        (drawn(n, c.of_quantile_bounded(TARGET, n)), ranks(n, 0.5)),
        (drawn(n, c.of_quantile_freely(TARGET, 0.9)), ranks(n, 0.9)),
    ):
        assert limits(violated(arrivals, wrong))[1] < TARGET.delta


@pytest.mark.parametrize("n", [100, 500])
def test_the_rule_for_counts_is_exact(n: int) -> None:
    p = c.of_count_exactly(TARGET, n)
    most = n * (1 - TARGET.epsilon)
    assert stats.binom.cdf(int(most + 1e-9), n, p) <= TARGET.delta * (1 + 1e-9)
    found = violated(on_time_alone(n, p), lambda there: there.sum(1) <= most + 1e-9)
    assert limits(found)[0] <= TARGET.delta < limits(found)[1] * 1.2, "and not too careful"


@pytest.mark.parametrize("phi", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("n", [100, 500])
def test_the_rule_for_quantiles_is_exact(n: int, phi: float) -> None:
    share = c.of_quantile(TARGET, n, phi)
    assert c._rank_error(TARGET.epsilon, n, phi, round(share * n)) <= TARGET.delta
    assert limits(violated(drawn(n, share), ranks(n, phi)))[0] <= TARGET.delta


def test_coverage_of_one_minus_epsilon_is_not_enough() -> None:
    naive = violated(on_time_alone(500, 1 - TARGET.epsilon), sums(population(500, 1.0)))
    assert 0.37 < limits(naive)[0] < limits(naive)[1] < 0.55


def test_the_normal_form_for_quantiles_breaks_at_the_edge() -> None:
    n, phi = 500, 0.99
    h = TARGET.z**2 * phi * (1 - phi) / TARGET.epsilon**2
    found = violated(drawn(n, h / (n + h)), ranks(n, phi))
    assert limits(found)[0] > 4 * TARGET.delta


def test_late_values_twice_as_large_break_the_rule_and_hold_with_rho() -> None:
    n = 500
    values = population(n, 0.2)
    order = np.argsort(values)

    def late(p: float) -> Callable[[np.random.Generator], npt.NDArray[np.bool_]]:
        """Large values are late more often, so that late ones have twice the mean."""
        weights = np.zeros(n)
        weights[order[-n // 8 :]] = 1.0
        rest = values[order[: -n // 8]].mean()
        top = values[order[-n // 8 :]].mean()
        share = (2.0 - rest) / (top - rest) if top > 2.0 else 1.0
        chances = np.where(weights > 0, share * 8, (1 - share) * 8 / 7) * (1 - p)
        return lambda rng: rng.random((AT_ONCE, n)) >= np.minimum(chances, 1.0)

    naive = violated(late(c.of_sum(TARGET, n, 0.2)), sums(values))
    assert limits(naive)[0] > 3 * TARGET.delta
    known = c.of_sum(TARGET.for_values(2.0), n, 0.2)
    assert limits(violated(late(known), sums(values)))[1] < TARGET.delta * 1.2
