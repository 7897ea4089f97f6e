"""Grouped, exact sums: the vectorised form of ``penstock.core.measure``.

``ids`` numbers the group of each row, shape (n,), values in [0, groups).
"""

import numpy as np

from penstock.columns.arrays import Doubles, Longs

WORD = np.int64(32)
MASK = np.int64(0xFFFF_FFFF)
LARGE = 2.0**959
"""A group with a number from here on is summed times ``SHRINK``: 2**40 of the largest fit."""
SHRINK, GROW = 2.0**-64, 2.0**64
EXPONENTS = 2_100
"""More than doubles have; each pass of an extraction lowers that of the greatest rest."""


def exact_sum(ids: Longs, groups: int, high: Doubles, low: Doubles) -> tuple[Doubles, Doubles]:
    """Sum of pairs of doubles per group, as pairs again; ``total_of`` gives their values.

    A pair is an unevaluated sum, high + low. Where low outweighs high it stands for ``GROW`` times
    that: no sum of finite doubles leaves what a pair holds, so overflow is decided by the whole
    sum and never by a part of it. Smaller groups are not shrunk: they would lose their last bits.

    Raises:
        ValueError: a number is not finite.
    """
    shrunk = is_shrunk(high, low)
    large = shrunk | (np.abs(high) >= LARGE)
    if not large.any():
        return _extracted(ids, groups, high, low)
    wide = np.zeros(groups, bool)
    wide[ids[large]] = True
    rows = wide[ids]
    plain = _extracted(ids[~rows], groups, high[~rows], low[~rows])
    factor = np.where(shrunk[rows], 1.0, SHRINK)
    much, rest = _extracted(ids[rows], groups, high[rows] * factor, low[rows] * factor)
    fits = np.abs(much) < LARGE * SHRINK
    back = np.where(fits, GROW, 1.0)
    pair = np.where(fits, much, rest) * back, np.where(fits, rest, much) * back
    return np.where(wide, pair[0], plain[0]), np.where(wide, pair[1], plain[1])


def is_shrunk(high: Doubles, low: Doubles) -> np.ndarray:
    """Which pairs stand for ``GROW`` times their sum."""
    return np.abs(low) > np.abs(high)


def total_of(high: Doubles, low: Doubles, n: Longs | int = 1) -> Doubles:
    """Value of each pair over n, rounded once more; beyond the largest double infinite."""
    share = (high + low) / n
    with np.errstate(over="ignore"):
        return share * np.where(is_shrunk(high, low), GROW, 1.0)


def _extracted(ids: Longs, groups: int, *parts: Doubles) -> tuple[Doubles, Doubles]:
    """Sum of several columns per group, all numbers so small that no sum of them overflows.

    Each pass cuts the leading bits off every value, so few that their sums are exact; what is
    left over goes into the next pass. Only adding the passes rounds, at 2**-104.
    Source: extraction as in Rump, Ogita and Oishi 2008 (AccSum), grouped [D].
    """
    high, low = np.zeros(groups), np.zeros(groups)
    for left in parts:
        for _ in range(EXPONENTS):
            greatest = float(np.max(np.abs(left), initial=0.0))
            if greatest == 0.0:
                break
            if not np.isfinite(greatest):
                raise ValueError(f"cannot add {greatest}: the door takes finite numbers only")
            exponent = int(np.frexp(greatest)[1]) + len(left).bit_length()
            anchor = np.ldexp(1.5, exponent)
            lead = (left + anchor) - anchor
            high, low = add_pairs(high, low, _plain(ids, lead, groups), 0.0)
            left = left - lead  # noqa: PLW2901  what the next pass is about
    return high, low


def _plain(ids: Longs, values: Doubles, groups: int) -> Doubles:
    return np.bincount(ids, weights=values, minlength=groups)


def add_pairs(
    high: Doubles, low: Doubles, other_high: Doubles | float, other_low: Doubles | float
) -> tuple[Doubles, Doubles]:
    """Add two double-double numbers (Knuth's two-sum, Dekker's renormalisation)."""
    total = high + other_high
    shift = total - high
    rest = (high - (total - shift)) + (other_high - shift) + low + other_low
    out = total + rest
    return out, rest - (out - total)


def exact_sum_longs(ids: Longs, groups: int, high: Longs, low: Longs) -> tuple[Longs, Longs]:
    """Sum of 96-bit integers ``high * 2**32 + low`` per group, normalised."""
    out_high, out_low = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    np.add.at(out_high, ids, high)
    np.add.at(out_low, ids, low)
    return out_high + (out_low >> WORD), out_low & MASK


def split_longs(values: Longs) -> tuple[Longs, Longs]:
    """An integer as ``high * 2**32 + low``, low in [0, 2**32)."""
    return values >> WORD, values & MASK
