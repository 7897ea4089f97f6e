"""The windows past their end that are not final, and how their records come in.

Of records only counts are kept, by pane while a window that holds the pane is still going on, then
by window. Everything between two steps is only summed up, and taken in order at the step: so that
nothing hangs on how the log is cut.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Self

from penstock.core.controller import Arrivals
from penstock.core.development import Development
from penstock.core.overdue import SHORT, Overdue, ages_of, excess_of
from penstock.core.window import WindowSpec

SPREAD, BITS = 0x9E3779B97F4A7C15, 64
"""Multiplicative hashing (Knuth): windows that are looked at follow no rhythm of the stream."""
WAITING = 64
"""What has come is looked at once a window ends or becomes older, or so many kinds of it wait."""
Key = tuple[int, int]
"""A pane's start, us, and how far past its end a record came (``overdue.key_of``)."""


@dataclass(slots=True, eq=False)
class Runoff:  # noqa: PLW1641  it changes
    """Windows of a stream.

    Attributes:
        window: their shape.
        threshold: coverage that is enough.
        every: of so many windows one is looked at, a power of two.
        begin: start of the first window, us; none: no record came yet.
        following: windows that start before have ended, us.
        closing: windows that start before are closed, or have ended, us.
        gone: windows that start so early are final: what still comes for them is not counted, us.
        whole: windows that start before are only looked at if they always were, us.
        overdue: windows that have ended, by their start, us.
        missed: starts of those that, as has turned out since this was asked for, held too little.
        development: how windows grow with age.
    """

    window: WindowSpec
    threshold: float
    every: int = 1
    begin: int | None = None
    following: int = 0
    closing: int = 0
    gone: int = 0
    whole: int = 0
    overdue: dict[int, Overdue] = field(default_factory=dict)
    missed: list[int] = field(default_factory=list)
    development: Development = field(init=False)
    ages: list[int] = field(init=False)
    _panes: dict[int, int] = field(default_factory=dict)
    _late: dict[Key, int] = field(default_factory=dict)
    _fresh: dict[Key, int] = field(default_factory=dict)
    _received: dict[int, int] = field(default_factory=dict)
    _open: list[int] = field(default_factory=list)
    _older: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ages = ages_of(self.window)
        self.development = Development(len(self.ages))

    def __eq__(self, other: object) -> bool:
        """Whether both know the same."""
        return isinstance(other, Runoff) and self.to_json() == other.to_json()

    def looks_at(self, start: int) -> bool:
        """Whether a window is one of those that are looked at."""
        if self.every == 1:
            return True
        number = (start - self.window.origin) // self.window.slide
        hashed = (number * SPREAD) % (1 << BITS)
        return hashed >> (BITS - self.every.bit_length() + 1) == 0

    def take(self, arrivals: Arrivals, first: int, watermark: int) -> None:
        """Take records.

        Args:
            arrivals: the records.
            first: start of the first window, if they are the first, us.
            watermark: before them, us.
        """
        window = self.window
        if self.begin is None:
            self.begin = self.following = self.closing = first
            self.gone, self.whole = first - window.slide, first
        for pane, count in arrivals.panes.items():
            if window.last_window(pane) >= self.following:
                self._panes[pane] = self._panes.get(pane, 0) + count
        for key, count in arrivals.overdue.items():
            self._fresh[key] = self._fresh.get(key, 0) + count
        for pane in {pane for pane, _ in arrivals.overdue}:
            for start in self._ended(pane):
                if start not in self.overdue and start >= self.whole:
                    closed = start + window.size <= watermark
                    self._add(start, Overdue(received=0 if closed else -1))

    def _ended(self, pane: int) -> Iterable[int]:
        """Windows of a pane that have ended, are not final, and are looked at."""
        slide = self.window.slide
        stop = min(self.window.last_window(pane) + slide, self.following)
        first = max(self.window.first_window(pane), self.gone + slide)
        found = range(first, stop, slide)
        return found if self.every == 1 else filter(self.looks_at, found)

    def _add(self, start: int, one: Overdue) -> None:
        self.overdue[start] = one
        heappush(self._older, (start + self.window.size, start))
        if one.received < 0:
            heappush(self._open, start)

    def close(self, watermark: int) -> None:
        """Note what the windows that a watermark closes have received."""
        size = self.window.size
        while self._open and self._open[0] + size <= watermark:
            start = heappop(self._open)
            if start in self.overdue:
                one = self.overdue[start]
                one.received = one.records + (0 if one.final else self._waiting(start))
        if self.begin is not None and self.closing + size <= watermark:
            first = max(self.closing, self.following)
            self._received |= dict(self._with_records(first, watermark))
            self.closing = self._after(watermark)

    def _after(self, us: int) -> int:
        """Start of the first window that ends after an instant, us."""
        return self.window.floor(us - self.window.size) + self.window.slide

    def _waiting(self, start: int) -> int:
        """Records of an ended window that have come since the last step."""
        end = start + self.window.size
        return sum(count for (pane, _), count in self._fresh.items() if start <= pane < end)

    def _with_records(self, start: int, until: int) -> Iterator[tuple[int, int]]:
        """Windows that are looked at, from one on, that end by then and hold records."""
        window = self.window
        while start + window.size <= until:
            following = start + window.slide
            if self.looks_at(start):
                records = sum(self._panes.get(pane, 0) for pane in window.panes_of(start))
                if records:
                    yield start, records
                else:
                    later = (pane for pane in self._panes if pane >= start)
                    first = min(map(window.first_window, later), default=until)
                    following = max(following, min(first, self._after(until)))
            start = following

    def advance(self, t_max: int, watermark: int) -> int:
        """Bring the windows up to the newest event time; returns how many became older.

        Args:
            t_max: newest event time, us.
            watermark: us.
        """
        if self.begin is None:
            return 0
        ends = self.following + self.window.size <= t_max
        older = bool(self._older) and self._older[0][0] <= t_max
        if ends or older or len(self._fresh) >= WAITING:
            self._take_in()
        if ends:
            self._follow(t_max, watermark)
        return self._age(t_max) if ends or older else 0

    def _follow(self, t_max: int, watermark: int) -> None:
        """Windows end: from now on they are looked at one by one, and their panes are dropped."""
        window = self.window
        for start, _ in self._with_records(self.following, t_max):
            one = self._ending(start)
            if start + window.size <= watermark:
                one.received = self._received.get(start, 0)
            self._add(start, one)
            if one.misses(self.threshold):
                self.missed.append(start)
        self.following = self._after(t_max)
        self._received = {s: n for s, n in self._received.items() if s >= self.following}
        kept = {p: n for p, n in self._panes.items() if window.last_window(p) >= self.following}
        self._panes = kept
        self._late = {key: n for key, n in self._late.items() if key[0] in kept}

    def _take_in(self) -> None:
        """What has come since the last step, window by window in the order of its excess."""
        by_window: dict[int, dict[int, int]] = {}
        ended: dict[int, list[int]] = {}
        for (pane, key), count in self._fresh.items():
            if pane not in ended:
                ended[pane] = [start for start in self._ended(pane) if start in self.overdue]
            for start in ended[pane]:
                excess = excess_of(key, self.window, self._offset(start, pane))
                came = by_window.setdefault(start, {})
                came[excess] = came.get(excess, 0) + count
            if pane in self._panes:
                self._late[pane, key] = self._late.get((pane, key), 0) + count
        self._fresh = {}
        for start in sorted(by_window):
            one = self.overdue[start]
            self._came(one, by_window[start])
            if one.misses(self.threshold):
                self.missed.append(start)

    def _offset(self, start: int, pane: int) -> int:
        """Panes from the end of one to the end of a window that holds it."""
        return (start + self.window.size - pane) // self.window.pane - 1

    def _ending(self, start: int) -> Overdue:
        """A window that has just ended, with all that has come."""
        panes = {pane: self._panes.get(pane, 0) for pane in self.window.panes_of(start)}
        found, excesses = Overdue(records=sum(panes.values())), Counter[int]()
        for (pane, key), count in self._late.items():
            if pane in panes:
                excess = excess_of(key, self.window, self._offset(start, pane))
                if excess:
                    excesses[excess] += count
        found.records -= excesses.total()
        self._came(found, excesses)
        return found

    def _came(self, one: Overdue, excesses: Mapping[int, int]) -> None:
        before = max(len(one.tail).bit_length(), SHORT)
        for excess in sorted(excesses):
            while self.ages[one.ages] < excess:
                self._pass(one)
            one.add(excess, excesses[excess])
        if len(one.tail).bit_length() > before:
            one.trim(self.threshold)

    def _pass(self, one: Overdue) -> None:
        """A window passes its next age."""
        if one.ages:
            self.development.saw(one.ages - 1, one.aged, one.records)
        one.aged = one.records
        one.ages += 1

    def _age(self, t_max: int) -> int:
        passed = 0
        while self._older and self._older[0][0] <= t_max:
            _, start = heappop(self._older)
            one = self.overdue.get(start)
            if one is None:
                continue
            age = t_max - start - self.window.size
            while self.ages[one.ages] <= age:
                self._pass(one)
                passed += 1
            heappush(self._older, (start + self.window.size + self.ages[one.ages], start))
        return passed

    def final(self, until: int) -> list[tuple[int, Overdue]]:
        """Windows that start up to there are final; returns those that were not, in order."""
        self._take_in()
        self.gone = max(self.gone, self.window.floor(until))
        found = sorted(s for s, one in self.overdue.items() if s <= until and not one.final)
        for start in found:
            self.overdue[start].final = True
        return [(start, self.overdue[start]) for start in found]

    def leave(self) -> list[tuple[int, Overdue]]:
        """Windows that are final and closed leave; returns them in order."""
        found = sorted(s for s, one in self.overdue.items() if one.final and one.received >= 0)
        return [(start, self.overdue.pop(start)) for start in found]

    def thin(self, every: int) -> None:
        """Look at one of so many windows from now on."""
        if every < self.every:
            self.whole = self.following
        self.every = every
        self.overdue = {s: one for s, one in self.overdue.items() if self.looks_at(s)}
        self._received = {s: n for s, n in self._received.items() if self.looks_at(s)}

    def to_json(self) -> list[Any]:
        """All of it; ``from_json`` reads it back."""
        figures = [self.every, self.begin, self.following, self.closing, self.gone, self.whole]
        pairs = sorted(self._panes.items()), sorted(self._received.items())
        keyed = ([[*key, n] for key, n in sorted(k.items())] for k in (self._late, self._fresh))
        windows = [[start, *self.overdue[start].to_json()] for start in sorted(self.overdue)]
        return [figures, *pairs, *keyed, windows, self.development.to_json()]

    @classmethod
    def from_json(cls, window: WindowSpec, threshold: float, content: list[Any]) -> Self:
        """Read back what ``to_json`` wrote."""
        figures, panes, received, late, fresh, windows, development = content
        found = cls(window, threshold, *figures)
        found._panes, found._received = dict(panes), dict(received)
        found._late = {(pane, key): n for pane, key, n in late}
        found._fresh = {(pane, key): n for pane, key, n in fresh}
        found.overdue = {start: Overdue.from_json(one) for start, *one in windows}
        found.development = Development.from_json(len(found.ages), development)
        found._open = [s for s, one in found.overdue.items() if one.received < 0]
        found._older = [
            (s + window.size + (found.ages[one.ages] if one.ages else 0), s)
            for s, one in found.overdue.items()
        ]
        heapify(found._open)
        heapify(found._older)
        return found
