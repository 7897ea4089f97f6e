"""How late records are, lately: their greatest lateness, and a histogram of it (law 7).

Bins are a function of the lateness alone, in whole microseconds: below 64 us each value has its
own, above 32 an octave, so that a bin is at most 3.2 % wide. Source: layout as in HdrHistogram.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

CLASSES = ("class_1", "class_2", "class_3")
"""Of records: those that missed none of their windows, some, all. Source: HPM."""
FINE = 5
"""Bits of resolution: 2**FINE bins an octave."""
PARTS = 8
"""A horizon is forgotten in so many parts."""
ENOUGH = 100_000
"""Records of a histogram after which a new one is begun and the one before it forgotten."""


def bin_of(lateness: int) -> int:
    """Number of the bin that holds a lateness, us."""
    octave = max(0, lateness.bit_length() - FINE - 1)
    return (octave << FINE) + (lateness >> octave)


def edge_of(number: int) -> int:
    """Greatest lateness in a bin, us."""
    octave = max(0, (number >> FINE) - 1)
    return ((number - (octave << FINE) + 1) << octave) - 1


class Tally(Protocol):
    """Records by bin, of some records; many at once are summed by whoever made them."""

    def together(self, others: Sequence[Any]) -> Mapping[int, int]:
        """The sum of some, this one among them."""
        ...


def plain_of(counts: Sequence[Tally | Mapping[int, int]]) -> dict[int, int]:
    """Records by bin, of some tallies together."""
    tallies = [each for each in counts if not isinstance(each, Mapping)]
    found = dict(tallies[0].together(tallies)) if tallies else {}
    for each in counts:
        if isinstance(each, Mapping):
            add(found, each)
    return found


def add(held: dict[int, int], counts: Mapping[int, int]) -> None:
    """Add counts to those held."""
    for number, count in counts.items():
        held[number] = held.get(number, 0) + count


@dataclass(slots=True)
class Greatest:
    """The greatest lateness of some recent event time.

    Attributes:
        horizon: how much event time is remembered, us; none: all.
        parts: newest event time where each began, and the greatest lateness in it, us.
    """

    horizon: int | None = None
    parts: deque[tuple[int, int]] = field(default_factory=deque)

    def add(self, newest: int, greatest: int) -> None:
        """What arrived in one step.

        Args:
            newest: the newest event time so far, us.
            greatest: the greatest lateness of its records, us.
        """
        if not self.parts or (
            self.horizon is not None and newest - self.parts[-1][0] >= self.horizon // PARTS
        ):
            self.parts.append((newest, 0))
            self._forget(newest)
        begin, before = self.parts[-1]
        self.parts[-1] = begin, max(before, greatest)

    def _forget(self, newest: int) -> None:
        """Parts whose end lies beyond the horizon."""
        while (
            self.horizon is not None
            and len(self.parts) > 1
            and self.parts[1][0] <= newest - self.horizon
        ):
            self.parts.popleft()

    @property
    def value(self) -> int:
        """The greatest lateness remembered, us: HPM's k."""
        return max((greatest for _, greatest in self.parts), default=0)

    def to_json(self) -> list[Any]:
        """All that is remembered; ``from_json`` reads it back."""
        return [*self.parts]

    @classmethod
    def from_json(cls, horizon: int | None, parts: list[Any]) -> Self:
        """Read back what ``to_json`` wrote."""
        return cls(horizon, deque((begin, greatest) for begin, greatest in parts))


@dataclass(slots=True, eq=False)
class Histogram:  # noqa: PLW1641  it changes
    """Lateness of the last ``ENOUGH`` records or more, at most twice as many.

    Attributes:
        now, before: records by bin, of the last ones and of those before them.
        waiting: what ``now`` does not hold yet: it is asked for rarely.
    """

    now: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)
    waiting: list[Tally | Mapping[int, int]] = field(default_factory=list)

    def __eq__(self, other: object) -> bool:
        """Whether both remember the same."""
        return isinstance(other, Histogram) and self.to_json() == other.to_json()

    def turn(self) -> None:
        """Count what waits, and begin anew if there is enough."""
        add(self.now, plain_of(self.waiting))
        self.waiting = []
        if sum(self.now.values()) >= ENOUGH:
            self.now, self.before = {}, self.now

    def exceeded(self, share: float) -> int:
        """The least lateness, us, that at most this share of the records exceeds."""
        both = dict(self.before)
        add(both, self.now)
        beyond, allowed = 0, share * sum(both.values())
        for number in sorted(both, reverse=True):
            beyond += both[number]
            if beyond > allowed:
                return edge_of(number)
        return 0

    def to_json(self) -> list[Any]:
        """All that is remembered; ``from_json`` reads it back."""
        late = dict(self.now)
        add(late, plain_of(self.waiting))
        return [sorted(each.items()) for each in (late, self.before)]

    @classmethod
    def from_json(cls, content: list[Any]) -> Self:
        """Read back what ``to_json`` wrote."""
        now, before = content
        return cls(dict(now), dict(before))
