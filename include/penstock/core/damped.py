"""K as a share of the greatest lateness, steered by coverage: ``pd`` (law 7).

A window is measured once the newest event time is ``horizon`` beyond its end: coverage is the
records that were there when it closed, over all that have come by then. Source: HPM, slack
controller; as published, the lateness that comes after ``horizon`` is not seen.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from penstock.core.controller import Arrivals, Controller, Measured
from penstock.core.lateness import Greatest
from penstock.core.slack import SlackSpec


@dataclass(slots=True)
class Damped(Controller):
    """The controller of ``pd``.

    Attributes:
        alpha: share of the greatest lateness that K is.
        error: threshold less coverage, of the last measured window; none: none yet.
        lateness: the greatest ones.
    """

    FIGURES: ClassVar[tuple[str, ...]] = (*Controller.FIGURES, "alpha", "error")

    alpha: float = 1.0
    error: float | None = None
    lateness: Greatest = field(init=False)
    _panes: dict[int, int] = field(default_factory=dict)
    _closed: list[tuple[int, int]] = field(default_factory=list)
    _begin: int | None = None
    _next: int | None = None

    def __post_init__(self) -> None:
        self.lateness = Greatest(self.tuning.recent)

    @property
    def steady(self) -> bool:
        """Whether a window has been measured: until then K is the greatest lateness so far."""
        return self.error is not None

    @property
    def k(self) -> int:
        """The greatest lateness it remembers, us."""
        return self.lateness.value

    def turn(self, spec: SlackSpec) -> None:
        """Another tuning holds from here on."""
        self.spec = spec
        self.lateness.horizon = self.tuning.recent

    def _take(self, arrivals: Arrivals) -> None:
        if self.passed is None:
            self.passed = self._until()
        if self._next is None:
            self._next = self._begin = self._first(min(arrivals.panes))
        self._missed(arrivals.panes, self.passed)
        oldest = self._oldest(self._next)
        for pane, count in arrivals.panes.items():
            if pane >= oldest:
                self._panes[pane] = self._panes.get(pane, 0) + count

    def _learn(self, greatest: int) -> None:
        self.lateness.add(self.t_max, greatest)

    def settle(self) -> list[Measured]:
        """Measure the windows that are closed and due, and choose K anew; returns them."""
        measured = [self._measure(*each) for each in self._due()]
        self.passed = self._until()
        if measured and self._next is not None:
            oldest = self._oldest(self._next)
            self._panes = {pane: n for pane, n in self._panes.items() if pane >= oldest}
        if self.steady:
            self.slack = round(self.alpha * self.lateness.value)
        return measured

    def _missed(self, panes: Iterable[int], due: int) -> None:
        """Closed windows that held nothing get their first record: they are measured too.

        Args:
            panes: of some records.
            due: windows that start so early were due before them.
        """
        assert self._begin is not None  # noqa: S101
        assert self._next is not None  # noqa: S101
        window = self.window
        least = max(self._begin, window.floor(due) + window.slide)
        for pane in panes:
            end = min(window.last_window(pane) + window.slide, self._next)
            for start in range(max(window.first_window(pane), least), end, window.slide):
                at = bisect_left(self._closed, (start, 0))
                if at == len(self._closed) or self._closed[at][0] != start:
                    insort(self._closed, (start, 0))

    def close(self, watermark: int) -> None:
        """Move the watermark, never back, and note what the windows it closes have received."""
        self.watermark = max(self.watermark, watermark)
        size, slide = self.window.size, self.window.slide
        while self._next is not None and self._next + size <= self.watermark:
            received = self._count(self._next)
            if received:
                self._closed.append((self._next, received))
                self._next += slide
                continue
            later = [pane for pane in self._panes if pane >= self._next]
            beyond = self.window.floor(self.watermark - size) + slide
            first = min(map(self.window.first_window, later), default=beyond)
            self._next = max(self._next + slide, min(first, beyond))

    def _count(self, window_start: int) -> int:
        return sum(self._panes.get(pane, 0) for pane in self.window.panes_of(window_start))

    def _due(self) -> Iterator[tuple[int, int]]:
        until = self._until()
        while self._closed and self._closed[0][0] <= until:
            yield self._closed.pop(0)

    def _until(self) -> int:
        """Windows that start up to there are due."""
        return self.t_max - (self.tuning.horizon or 0) - self.window.size

    def _measure(self, start: int, received: int) -> Measured:
        records, tuning = self._count(start), self.tuning
        error = tuning.threshold - received / records
        last = error if self.error is None else self.error
        change = tuning.kp * error + tuning.kd * (error - last)
        self.alpha = min(max(self.alpha + change, 0.0), 1.0)
        self.error = error
        return Measured(
            start, received, records, self.slack, self.alpha, margin=0.0, threshold=tuning.threshold
        )

    def _oldest(self, following: int) -> int:
        """Start of the oldest window that is not measured; ``following``: the next to close."""
        return self._closed[0][0] if self._closed else following

    def _content(self) -> dict[str, Any]:
        return {
            "begin": self._begin,
            "next": self._next,
            "panes": sorted(self._panes.items()),
            "closed": [*self._closed],
            "lateness": self.lateness.to_json(),
        }

    def _restore(self, content: Mapping[str, Any]) -> None:
        self._begin, self._next = content["begin"], content["next"]
        self._panes = dict(content["panes"])
        self._closed = [(start, received) for start, received in content["closed"]]
        self.lateness = Greatest.from_json(self.tuning.recent, content["lateness"])
