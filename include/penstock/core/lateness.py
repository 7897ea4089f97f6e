"""How late records are, lately: a histogram of lateness and its greatest value (law 7).

Bins are a function of the lateness alone, in whole microseconds: below 64 us each value has its
own, above 32 an octave, so that a bin is at most 3.2 % wide. Source: layout as in HdrHistogram.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from typing import Any, Protocol, Self

CLASSES = ("class_1", "class_2", "class_3")
"""Of records: those that missed none of their windows, some, all. Source: HPM."""
FINE = 5
"""Bits of resolution: 2**FINE bins an octave."""
PARTS = 8
"""A horizon is forgotten in so many parts."""


def bin_of(lateness: int) -> int:
    """Number of the bin that holds a lateness, us."""
    octave = max(0, lateness.bit_length() - FINE - 1)
    return (octave << FINE) + (lateness >> octave)


def edge_of(number: int) -> int:
    """Greatest lateness in a bin, us."""
    octave = max(0, (number >> FINE) - 1)
    return ((number - (octave << FINE) + 1) << octave) - 1


EDGES = [edge_of(number) for number in range(bin_of(2**60))]


class Tally(Protocol):
    """Records by bin, of some records; many at once are summed by whoever made them."""

    def together(self, others: Sequence[Any]) -> Mapping[int, int]:
        """The sum of some, this one among them."""
        ...


@dataclass(slots=True)
class Part:
    """What came while the newest event time lay in one part of the horizon.

    Attributes:
        begin: newest event time where it began, us.
        greatest: lateness, us.
        counts: records by bin.
        waiting: what ``counts`` does not hold yet: it is asked for once a window, not once a step.
    """

    begin: int
    greatest: int = 0
    counts: dict[int, int] = field(default_factory=dict)
    waiting: list[Tally | Mapping[int, int]] = field(default_factory=list)

    def taken(self) -> Mapping[int, int]:
        """Count what waits; returns it."""
        tallies = [each for each in self.waiting if not isinstance(each, Mapping)]
        fresh = dict(tallies[0].together(tallies)) if tallies else {}
        for each in self.waiting:
            if isinstance(each, Mapping):
                _add(fresh, each)
        self.waiting = []
        _add(self.counts, fresh)
        return fresh


def plain_of(counts: Tally | Mapping[int, int]) -> Mapping[int, int]:
    """Records by bin."""
    return counts if isinstance(counts, Mapping) else counts.together([counts])


def _add(held: dict[int, int], counts: Mapping[int, int]) -> None:
    for number, count in counts.items():
        held[number] = held.get(number, 0) + count


@dataclass(slots=True, eq=False)
class Lateness:  # noqa: PLW1641  it changes
    """Recent lateness.

    Attributes:
        horizon: how much event time is remembered, us; none: all.
        parts: oldest first.
        counts: records by bin, over all parts, but for what waits to be counted.
    """

    horizon: int | None = None
    parts: deque[Part] = field(default_factory=deque)
    counts: dict[int, int] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Whether both remember the same."""
        mine = self.horizon, self.to_json()
        return isinstance(other, Lateness) and mine == (other.horizon, other.to_json())

    def add(self, newest: int, greatest: int, *counts: Tally | Mapping[int, int]) -> bool:
        """What arrived in one step; returns whether something was forgotten for it.

        Args:
            newest: the newest event time so far, us.
            greatest: the greatest lateness of its records, us.
            counts: its records by bin, in any number of parts.
        """
        forgotten = False
        if not self.parts or (
            self.horizon is not None and newest - self.parts[-1].begin >= self.horizon // PARTS
        ):
            self.parts.append(Part(newest))
            forgotten = self._forget(newest)
        part = self.parts[-1]
        part.greatest = max(part.greatest, greatest)
        part.waiting.extend(counts)
        return forgotten

    def _count(self) -> None:
        """Bring the counts up to date."""
        for part in self.parts:
            _add(self.counts, part.taken())

    def _forget(self, newest: int) -> bool:
        """Parts whose end lies beyond the horizon; returns whether there were any."""
        self._count()
        before = len(self.parts)
        while (
            self.horizon is not None
            and len(self.parts) > 1
            and self.parts[1].begin <= newest - self.horizon
        ):
            for number, count in self.parts.popleft().counts.items():
                self.counts[number] -= count
                if not self.counts[number]:
                    del self.counts[number]
        return len(self.parts) < before

    @property
    def greatest(self) -> int:
        """The greatest lateness remembered, us: HPM's k."""
        return max((part.greatest for part in self.parts), default=0)

    def least_slack(self, size: int, coverage: float) -> int:
        """The least K with an expected coverage of a window of that size, us.

        A record with lateness L finds its window open for the share
        clamp((K + size - L) / size, 0, 1) of the places it may have in it, so coverage at K is
        1 - sum of clamp(L - K, 0, size) / (n size) [D]. K is an edge of a bin, and never above
        ``greatest``.
        """
        self._count()
        numbers = sorted(self.counts)
        counts = [self.counts[number] for number in numbers]
        edges = [EDGES[number] for number in numbers]
        beyond = [*accumulate(reversed(counts), initial=0)][::-1]
        weighted: list[int] = [*accumulate(map(mul, reversed(counts), reversed(edges)), initial=0)][
            ::-1
        ]
        total = beyond[0]

        def exceeding(limit: int) -> int:  # sum of max(L - limit, 0)
            at = bisect_left(edges, limit)
            return weighted[at] - limit * beyond[at]

        allowed = (1 - coverage) * total * size
        candidates = [0, *edges]
        at = bisect_left(
            candidates, True, key=lambda k: exceeding(k) - exceeding(k + size) <= allowed
        )
        return min(candidates[min(at, len(candidates) - 1)], self.greatest)

    def to_json(self) -> list[Any]:
        """All that is remembered; ``from_json`` reads it back."""
        self._count()
        return [[p.begin, p.greatest, sorted(p.counts.items())] for p in self.parts]

    @classmethod
    def from_json(cls, horizon: int | None, parts: list[Any]) -> Self:
        """Read back what ``to_json`` wrote."""
        found = cls(horizon)
        for begin, greatest, counts in parts:
            found.parts.append(Part(begin, greatest, dict(counts)))
            _add(found.counts, dict(counts))
        return found
