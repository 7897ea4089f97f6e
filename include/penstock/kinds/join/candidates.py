"""Which records some others may be a pair with: by key, by time, and by one range of numbers.

Records of a key lie in order of time, so that those near in time are a run. A run is cut into
blocks, small ones at its ends and large ones between, each in order of its numbers: so a range of
numbers is found by bisection in a few blocks. (A tree of sorted blocks; Bentley 1979.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.columns.arrays import Longs

Doubles: TypeAlias = npt.NDArray[np.float64]
SMALL, FAN = 64, 8
"""Records of the smallest block, and how many times larger the next ones are."""


@dataclass(frozen=True, slots=True)
class Runs:
    """For each of some records a run of places, those from ``low`` on and before ``high``."""

    who: Longs
    low: Longs
    high: Longs

    @property
    def counts(self) -> Longs:
        """How many places each run has."""
        return np.maximum(self.high - self.low, 0)


@dataclass(frozen=True, slots=True)
class Found:
    """Runs of places in one order, and what lies at each place."""

    runs: Runs
    rows: Longs


class Sorted:
    """Records that are looked up, in order of key and instant.

    Args:
        rows: of a pool.
        keys, instants: of these records.
        numbers: of these records, by which ranges are asked for; none: none are.
    """

    def __init__(self, rows: Longs, keys: Longs, instants: Longs, numbers: Doubles | None) -> None:
        self.instants, ranks = distinct(instants)
        self.base = len(self.instants) + 1
        codes = keys * self.base + ranks
        order = np.argsort(codes, kind="stable")
        self.codes, self.rows = codes[order], rows[order]
        self.levels = list[tuple[Longs, Longs]]()
        self.values = np.empty(0)
        if numbers is not None:
            self._sort(numbers[order])

    def _sort(self, numbers: Doubles) -> None:
        """Blocks of each size: their records by number, as places and as codes to bisect."""
        self.values, ranks = distinct(numbers)
        place, size = np.arange(len(ranks)), SMALL
        while True:
            codes = place // size * (len(self.values) + 1) + ranks
            order = np.argsort(codes, kind="stable")
            self.levels.append((codes[order], self.rows[order]))
            if size * FAN >= len(ranks):
                return
            size *= FAN

    def near(self, who: Longs, keys: Longs, since: Longs, until: Longs) -> Runs:
        """Of each record those of its key with instants in [since, until]."""
        first = np.searchsorted(self.instants, since)
        last = np.searchsorted(self.instants, until, "right")
        low, high = (np.searchsorted(self.codes, keys * self.base + at) for at in (first, last))
        return Runs(who, low, high)

    def found(
        self, near: Runs, ranges: Sequence[tuple[Doubles, Doubles]] | None
    ) -> Iterator[Found]:
        """What may fit, of what is near; ``ranges``: of numbers, lowest and highest by record."""
        if ranges is None:
            yield Found(near, self.rows)
            return
        at = np.arange(len(near.who))
        low, high = -(-near.low // SMALL), near.high // SMALL
        whole = low < high
        yield Found(Runs(near.who, near.low, np.where(whole, low * SMALL, near.high)), self.rows)
        yield Found(Runs(near.who[whole], (high * SMALL)[whole], near.high[whole]), self.rows)
        edges = self._edges(ranges)
        at, low, high = at[whole], low[whole], high[whole]
        for nth, (codes, rows) in enumerate(self.levels):
            last = nth + 1 == len(self.levels)
            inner = np.where(last, high, np.minimum(-(-low // FAN) * FAN, high))
            outer = np.where(last, high, np.maximum(high // FAN * FAN, inner))
            who, block = _expanded(at, [(low, inner), (outer, high)])
            begin = block * (len(self.values) + 1)
            for first, end in edges:
                places = (np.searchsorted(codes, begin + each[who]) for each in (first, end))
                yield Found(Runs(near.who[who], *places), rows)
            low, high = inner // FAN, outer // FAN
            more = low < high
            at, low, high = at[more], low[more], high[more]

    def _edges(self, ranges: Sequence[tuple[Doubles, Doubles]]) -> list[tuple[Longs, Longs]]:
        """Which numbers lie in each range; those in two count for the first."""
        found = list[tuple[Longs, Longs]]()
        for low, high in ranges:
            first = np.searchsorted(self.values, low)
            if found:
                first = np.maximum(first, found[-1][1])
            found.append((first, np.searchsorted(self.values, high, "right")))
        return found


def distinct(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Longs]:
    """Values in order, each once, and the place of each there; faster than ``numpy.unique``."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.ones(len(values), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.cumsum(first) - 1
    return ordered[first], ranks


def _expanded(who: Longs, spans: Sequence[tuple[Longs, Longs]]) -> tuple[Longs, Longs]:
    """Each number of each span, and whose it is."""
    found = [(np.repeat(who, high - low), numbers(low, high - low)) for low, high in spans]
    whose, which = (np.concatenate(each) for each in zip(*found, strict=True))
    return whose, which


def numbers(low: Longs, counts: Longs) -> Longs:
    """From each of some numbers on so many."""
    found: Longs = np.arange(counts.sum()) + np.repeat(low - np.cumsum(counts) + counts, counts)
    return found
