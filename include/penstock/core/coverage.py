"""The coverage threshold: how much of a window must be there so that its answer is good enough.

A window of ``records`` values (all that will ever come) with mean mu and population variance
sigma^2 has CV = sigma / |mu|. Coverage is the share of them that were there when it closed. The
threshold is the least coverage with P(relative error >= epsilon) <= delta, by sampling theory.

Assumptions: lateness does not depend on the value (else use ``for_values``); records are on time
independently of each other, or a fixed number of them is drawn without replacement; rules that use
the central limit theorem want some 100 records and moderate skew; sums and counts are reported as
received, not scaled up. Source: HPM, coverage threshold; theory section 2 gives each formula.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, exp, floor, lgamma, log, sqrt
from statistics import NormalDist
from typing import Self

from penstock.core.errors import ConfigError
from penstock.core.expression import MeasureSpec, phi_of
from penstock.core.measure import Function

BOUNDED = (Function.COUNT, Function.SUM, Function.AVG, Function.QUANTILE)
"""Functions with a bound; one late record may be the least or the greatest value."""
TOTALS = (Function.COUNT, Function.SUM)
"""Functions whose answers add up to a window's total."""
LEAST_DELTA = 1e-9
LEAST_MEAN = 1e-9
"""Of the root mean square: a mean nearer to 0 makes a relative error meaningless."""
HALVINGS = 60
WALK = 8
"""The chance of an error rises and falls with n by a few roots of n around where it is delta."""
LEAST_TERM = 1e-17
NUDGE = 1e-9
"""A bound that is whole but for rounding is whole."""


@dataclass(frozen=True, slots=True)
class QualityTarget:
    """What a user asks for: P(relative error of a closed window's answer >= epsilon) <= delta.

    Raises:
        ConfigError: it makes no sense.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < 1:
            raise ConfigError(
                f"epsilon {self.epsilon:g} is no relative error to stay below: choose one between"
                " 0 and 1, as in 0.05. For answers without any error use slack: max_delay."
            )
        if not LEAST_DELTA <= self.delta < 1:
            raise ConfigError(
                f"delta {self.delta:g} is no share of answers that may be further off: choose one"
                " between 0 and 1, as in 0.05. No buffer can promise 0; the correction makes every"
                " answer exact."
            )

    @property
    def z(self) -> float:
        """Two-sided standard normal quantile of delta."""
        return NormalDist().inv_cdf(1 - self.delta / 2)

    @property
    def cantelli(self) -> float:
        """In place of ``z`` where nothing is known of the distribution."""
        return sqrt(1 / self.delta - 1)

    def for_pairs(self) -> Self:
        """The target of records, of which a pair needs two: (1 - e)^2 = 1 - epsilon [D]."""
        return replace(self, epsilon=1 - sqrt(1 - self.epsilon))

    def for_values(self, rho: float) -> Self:
        """The target where late values are ``rho`` times the mean value: epsilon / rho [D]."""
        return replace(self, epsilon=min(self.epsilon / rho, 1 - NUDGE)) if rho > 1 else self


def squared_cv(mean: float, variance: float) -> float:
    """(sigma / mu)^2.

    Raises:
        ConfigError: the mean is so near 0 that a relative error says nothing.
    """
    if abs(mean) <= LEAST_MEAN * sqrt(variance + mean * mean):
        raise ConfigError(
            f"the values have a mean of {mean:g} and a standard deviation of {sqrt(variance):g}:"
            " an error relative to a mean near 0 is meaningless. Bound a count or a quantile"
            " instead, or choose a fixed slack."
        )
    return variance / (mean * mean)


def of_sum(target: QualityTarget, records: float, cv2: float, z: float | None = None) -> float:
    """Of a sum as received, records on time independently of each other.

    Args:
        target: the quality target.
        records: of the window, N.
        cv2: CV^2 of the values; (S / mu)^2 - 1 where the number received is given instead.
        z: in place of the normal quantile, as ``target.cantelli``.
    """
    epsilon, z = target.epsilon, target.z if z is None else z
    b = z * z * (1 + cv2) / records
    root = sqrt(b * b + 4 * b * epsilon * (1 - epsilon))
    return (2 * (1 - epsilon) + b + root) / (2 * (1 + b))


def of_bounded_sum(target: QualityTarget, records: float, spread: float) -> float:
    """Of a sum of values within [a, b], ``spread`` = (b - a) / |mu| (Hoeffding, Serfling)."""
    chance = log(1 / target.delta)

    def holds(missing: float) -> bool:
        finite = missing * (1 - missing + 1 / records)
        return missing + spread * sqrt(finite * chance / (2 * records)) <= target.epsilon

    return 1 - bisected(holds, target.epsilon)[0]


def coverage_threshold(
    targets: Iterable[tuple[MeasureSpec, QualityTarget]], records: int, cv2: float
) -> float:
    """The realised coverage that is enough for every measure that has a bound.

    Args:
        targets: of a step's measures; where none has a bound, as for a count.
        records: a window holds, at least.
        cv2: CV^2 of the values.
    """
    rules: dict[Function, Callable[[MeasureSpec, QualityTarget], float]] = {
        Function.COUNT: lambda _, t: _above(t),
        Function.SUM: lambda _, t: of_sum(t, records, cv2 * records / (records - 1) - 1),
        Function.AVG: lambda _, t: of_average(t, records, cv2),
        Function.QUANTILE: lambda m, t: of_quantile(t, records, phi_of(m)),
    }
    every = [*targets]
    found = [rules[m.function](m, target) for m, target in every if m.function in rules]
    return max(found or [_above(target) for _, target in every])


def _above(target: QualityTarget) -> float:
    return min(of_count(target) + NUDGE, 1.0)  # strictly above


def predicted_error(coverage: float, records: float, cv2: float, z: float) -> float:
    """The error of a sum that a window of this coverage exceeds with probability delta.

    The inverse of ``of_sum`` for so many of N drawn: q + z CV sqrt(l q / N), q = 1 - l; of a
    count, whose values do not vary, q alone.
    """
    missing = 1 - coverage
    return missing + z * sqrt(cv2 * coverage * missing / records)


def of_count(target: QualityTarget) -> float:
    """Of a count, given the realised coverage: strictly above this."""
    return 1 - target.epsilon


@lru_cache(maxsize=4_096)
def of_count_exactly(target: QualityTarget, records: int) -> float:
    """Of a count: the least chance p of being on time with Bin(N, p) <= N (1 - epsilon) rarely."""
    most = floor(records * (1 - target.epsilon) + NUDGE)

    def fails(p: float) -> bool:
        return binomial_at_most(most, records, p) > target.delta

    return bisected(fails, 1.0)[1]


def of_scaled_count(target: QualityTarget, records: float) -> float:
    """Of a count scaled up by the known chance of being on time."""
    z2 = target.z**2
    return z2 / (z2 + records * target.epsilon**2)


def of_average(target: QualityTarget, records: float, cv2: float, z: float | None = None) -> float:
    """Of an average, or of a sum that is scaled up: so many of N drawn without replacement."""
    z = target.z if z is None else z
    c = z * z * cv2 / (records - 1)  # S^2 = sigma^2 N / (N - 1)
    return c / (target.epsilon**2 + c)


def of_bounded_average(target: QualityTarget, records: float, spread: float) -> float:
    """Of an average of values within [a, b], ``spread`` = (b - a) / |mu| (Hoeffding, Serfling)."""
    return _serfling(spread**2 * log(2 / target.delta) / (2 * target.epsilon**2), records)


def of_quantile_freely(target: QualityTarget, phi: float) -> float:
    """Of a quantile whose rank may be off by epsilon, whatever is late."""
    return 1 - target.epsilon / max(phi, 1 - phi)


def of_quantile_bounded(target: QualityTarget, records: float) -> float:
    """Of any quantile, by rank (Serfling)."""
    return _serfling(log(2 / target.delta) / (2 * target.epsilon**2), records)


@lru_cache(maxsize=4_096)
def of_quantile(target: QualityTarget, records: int, phi: float) -> float:
    """Of a quantile, by rank, exactly: n of N drawn without replacement.

    It is the least n from which P(rank off by epsilon N) <= delta stays true; the first n for
    which it is true can be smaller. Above Serfling's bound it holds, so the search starts there.
    """
    n = min(records, ceil(of_quantile_bounded(target, records) * records))
    near = _least(lambda m: _rank_error(target.epsilon, records, phi, m) <= target.delta, n)
    n = min(n, near + WALK * ceil(sqrt(near) + 1 / min(phi, 1 - phi)))
    while n > 1 and _rank_error(target.epsilon, records, phi, n - 1) <= target.delta:
        n -= 1
    return n / records


def _least(true: Callable[[int], bool], high: int) -> int:
    """Near the least whole number from which it is true, up to ``high``."""
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if true(middle) else (middle, high)
    return high


def bisected(true: Callable[[float], bool], high: float) -> tuple[float, float]:
    """Around where it ceases to be true between 0 and ``high``: the last value, and the first."""
    low = 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if true(middle) else (low, middle)
    return low, high


def _rank_error(epsilon: float, records: int, phi: float, n: int) -> float:
    k = ceil(phi * n - NUDGE)
    below = floor((phi - epsilon) * records + NUDGE)
    above = ceil((phi + epsilon) * records - NUDGE) - 1
    low = 1 - _drawn_below(k, records, below, n) if below >= k else 0.0
    high = _drawn_below(k, records, above, n) if above < records else 0.0
    return low + high


def _drawn_below(k: int, records: int, marked: int, n: int) -> float:
    """P(X < k) for X marked ones among n drawn from all."""
    least, most = max(0, n - (records - marked)), min(n, marked)
    if k <= least:
        return 0.0
    if k > most:
        return 1.0

    def chance(x: int) -> float:
        return exp(_choose(marked, x) + _choose(records - marked, n - x) - _choose(records, n))

    def ratio(x: int) -> float:  # P(x) / P(x - 1)
        return (marked - x + 1) * (n - x + 1) / (x * (records - marked - n + x))

    return _at_most(k - 1, (least, most), n * marked / records, chance, ratio)


def binomial_at_most(k: int, n: int, p: float) -> float:
    """P(X <= k) of n that come about with chance p each."""
    if p <= 0 or p >= 1:
        return float(p <= 0 or k >= n)

    def chance(x: int) -> float:
        return exp(_choose(n, x) + x * log(p) + (n - x) * log(1 - p))

    def ratio(x: int) -> float:
        return (n - x + 1) / x * p / (1 - p)

    return _at_most(k, (0, n), n * p, chance, ratio)


def _at_most(
    k: int,
    ends: tuple[int, int],
    mean: float,
    chance: Callable[[int], float],
    ratio: Callable[[int], float],
) -> float:
    """P(X <= k), by the shorter tail; ``ratio(x)`` is P(x) / P(x - 1)."""
    if k >= ends[1]:
        return 1.0
    upper = k > mean
    x = k + 1 if upper else k
    term = total = chance(x)
    while term > LEAST_TERM * total and ends[0] < x < ends[1]:
        x, factor = (x + 1, ratio(x + 1)) if upper else (x - 1, 1 / ratio(x))
        term *= factor
        total += term
    return 1 - total if upper else total


def _choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def _serfling(h: float, records: float) -> float:
    return min(1.0, h * (1 + 1 / records) / (records + h))
