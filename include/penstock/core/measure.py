"""Measures: mergeable aggregates, one meaning for every layer (law 5).

A measure is (init, update, merge, finish). Both runners call the vectorised form of these
functions (``penstock.kinds.aggregate.layout``), which is tested against this one. Values are never
NaN or infinite: ingest refuses those. Null is ignored, as in SQL; a measure that saw no value is
null, a count is 0.

Sums are exact here and rounded once, when they are finished: a sum of doubles beyond the largest
one is infinite, whatever its parts were, and an average never is. The vectorised form keeps pairs
(high, low): of integers exact, of doubles within 1e-15 x sum|x| for any cut. A quantile keeps
every value, in order: nothing less merges to an exact one.
Source: Mars (pre-aggregation).
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from heapq import merge
from math import ceil, inf


class Function(StrEnum):
    """The functions a measure can use."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    QUANTILE = "quantile"


class ColumnType(StrEnum):
    """Types a pipeline can declare for a column."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"


Number = int | float
NUDGE = 1e-9
"""Against the rounding of phi n."""


@dataclass(frozen=True, slots=True)
class Partial:
    """What one part of the records says: enough for every function, merged at will."""

    n: int = 0
    total: int | Fraction = 0
    least: Number | None = None
    greatest: Number | None = None
    values: tuple[Number, ...] = ()

    def update(self, value: Number | None) -> "Partial":
        """With one more value; null changes nothing."""
        if value is None:
            return self
        value = value + 0.0 if isinstance(value, float) else value  # -0.0 is 0.0
        exact = value if isinstance(value, int) else Fraction(value)
        return self.merge(Partial(1, exact, value, value, (value,)))

    def merge(self, other: "Partial") -> "Partial":
        """Of both parts together: associative and commutative."""
        if not other.n:
            return self
        if not self.n:
            return other
        lows = [x for x in (self.least, other.least) if x is not None]
        highs = [x for x in (self.greatest, other.greatest) if x is not None]
        total = self.total + other.total
        values = tuple(merge(self.values, other.values))
        return Partial(self.n + other.n, total, min(lows), max(highs), values)

    def finish(self, function: Function, phi: float = 0.5) -> Number | None:
        """The measure's value; ``phi``: of a quantile."""
        if function is Function.COUNT:
            return self.n
        if not self.n:
            return None
        if function is Function.QUANTILE:
            return self.values[rank(phi, self.n) - 1]
        return {
            Function.SUM: rounded(self.total),
            Function.AVG: float(Fraction(self.total) / self.n),
            Function.MIN: self.least,
            Function.MAX: self.greatest,
        }[function]


def rank(phi: float, n: int) -> int:
    """Which of n values in order is their quantile phi: the least with phi n at or below it.

    SQL's ``percentile_disc``, with phi n meant as it is written: 0.07 x 100 is 7.
    """
    return max(1, ceil(phi * n - NUDGE))


def rounded(total: int | Fraction) -> Number:
    """An exact sum as a number of its type; beyond the largest double infinite."""
    if isinstance(total, int):
        return total
    try:
        return float(total)
    except OverflowError:
        return inf if total > 0 else -inf
