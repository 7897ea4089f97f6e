"""Windows past their end to which records still come: how many there are, and when they came.

A record's *excess* over a window is how far the newest event time before it lay past the window's
end: with a K of at least that it would have found the window open. The newest event time only
grows, so a window's records come in the order of their excess, and the least K with which so many
of them would have been in time is the excess of the last of these [D].
"""

from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil
from typing import Any, Self

from penstock.core.lateness import bin_of, edge_of
from penstock.core.window import WindowSpec

BINS = 1 << 11
"""More than there are bins of lateness."""
ROUNDING = 1e-12
SHORT = 4
"""Bits of a number of excesses; beyond them, each bit more has those dropped that do not matter."""
STEPS, OCTAVES = 2, 56
"""Ages an octave, and octaves."""
FINEST = 256
"""The first age, as a part of a window's size."""


def key_of(past: int, window: WindowSpec) -> int:
    """How far past its pane's end a record came, in a number.

    By whole panes while they decide for which of the pane's windows it is late, and by bin of the
    rest: so its excess over each of them is known to 3.2 %.

    Args:
        past: newest event time before the record, less the pane's end, plus 1; us, positive.
        window: whose panes they are.
    """
    panes = min((past - 1) // window.pane, window.panes - 1)
    return panes * BINS + bin_of(past - panes * window.pane)


def excess_of(key: int, window: WindowSpec, offset: int) -> int:
    """The excess over a window that ends so many panes after the record's, us; 0: in time."""
    panes, number = divmod(key, BINS)
    if panes < offset:
        return 0
    rest = edge_of(number)
    if panes < window.panes - 1:
        rest = min(rest, window.pane)
    return (panes - offset) * window.pane + rest


def needed(records: int, threshold: float) -> int:
    """Records of so many that are enough for the coverage."""
    exact = threshold * records
    return min(max(ceil(exact - ROUNDING * exact), 1), records)


def ages_of(window: WindowSpec) -> list[int]:
    """Ages at which windows are looked at, us after their end: the first is 0, two an octave."""
    first = max(window.size // FINEST, 1)
    return [0] + [round(first * 2 ** (i / STEPS)) for i in range(STEPS * OCTAVES)]


@dataclass(slots=True)
class Overdue:
    """A window past its end that is not final.

    Attributes:
        records: that have come.
        received: of them before it was closed; -1: it is open.
        ages: how many ages it has passed.
        aged: records that were there when it passed the last one.
        final: whether what still comes for it is not counted.
        missed: whether it held too little when it was closed, as far as is known.
        low: excess below which ``tail`` is not known any more, us.
        tail: records by excess, us, of the last ones.
    """

    records: int = 0
    received: int = -1
    ages: int = 0
    aged: int = 0
    final: bool = False
    missed: bool = False
    low: int = 0
    tail: dict[int, int] = field(default_factory=dict)

    def add(self, excess: int, count: int) -> None:
        """Some records more; 0: they were in time."""
        self.records += count
        if excess:
            self.tail[excess] = self.tail.get(excess, 0) + count

    def trim(self, threshold: float) -> None:
        """Drop the excesses that no answer of ``required`` will be."""
        enough = needed(self.records, threshold)
        there = self.records - sum(self.tail.values())
        for excess in sorted(self.tail):
            there += self.tail[excess]
            if there >= enough:
                break
            self.low = excess
            del self.tail[excess]

    def misses(self, threshold: float) -> bool:
        """Whether it is known by now, and was not before, that it held too little."""
        if self.missed or not 0 <= self.received < needed(self.records, threshold):
            return False
        self.missed = True
        return True

    def required(self, wanted: int) -> int | None:
        """The least K with which so many would have been in time, us; none: they have not come."""
        if wanted > self.records:
            return None
        excesses = sorted(self.tail)
        there = self.records - sum(self.tail.values())
        if wanted <= there:
            return self.low
        for excess, reached in zip(
            excesses, accumulate(self.tail[e] for e in excesses), strict=True
        ):
            if there + reached >= wanted:
                return excess
        raise AssertionError("the tail holds what is not there")

    def to_json(self) -> list[Any]:
        """All of it; ``from_json`` reads it back."""
        figures = [self.records, self.received, self.ages, self.aged, self.final,
                   self.missed, self.low]  # fmt: skip
        return [*figures, sorted(self.tail.items())]

    @classmethod
    def from_json(cls, content: list[Any]) -> Self:
        """Read back what ``to_json`` wrote."""
        *figures, tail = content
        found = cls(*figures)
        found.tail = dict(tail)
        return found
