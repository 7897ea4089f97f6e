"""Slack controllers: K follows what coverage needs, one step a measured window (law 0, law 7).

A window is measured once the newest event time is ``horizon`` beyond its end: coverage is the
records that were there when it closed, over all that have come by then. Steps are taken at block
boundaries, in the order of window ends, and the new K holds from the next block, so a trace is a
function of the log however it is cut. Sources: HPM, slack controller (``pd``); feed-forward on
the recent lateness with an adaptive margin after Gibbs and Candes 2021 (``quantile``) [D].
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from penstock.core.lateness import Lateness
from penstock.core.slack import SlackPolicy
from penstock.core.window import BEGINNING, WindowSpec

MARGIN_STEP = 0.005
"""How much of the room one window moves; the rate of violations settles over some 1 / step."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a user may set of a controller.

    Attributes:
        policy: pd or quantile.
        horizon: how long after its end a window is measured, event time, us.
        recent: how much event time the lateness is remembered for, us; none: all.
        kp, kd: of ``pd``; HPM's values are the defaults.
    """

    policy: SlackPolicy
    horizon: int
    recent: int | None = None
    kp: float = 0.2
    kd: float = 4.0


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What a controller sees of one block of live records.

    Attributes:
        newest: greatest event time, us.
        greatest: greatest lateness, us.
        lags: records by bin of lateness.
        panes: records by start of their pane, us.
    """

    newest: int
    greatest: int
    lags: Mapping[int, int]
    panes: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Measured:
    """One window, measured: what the controller made of it."""

    window_start: int
    received: int
    records: int
    slack: int
    alpha: float
    margin: float

    @property
    def coverage(self) -> float:
        """Early: within the horizon."""
        return self.received / self.records


@dataclass(slots=True)
class Controller:
    """Where the control of one step's slack stands.

    Attributes:
        window: the step's windows.
        tuning: what the user set.
        slack: K in force, us.
        alpha: share of the greatest lateness that K is (``pd``).
        error: threshold less coverage, of the last measured window; none: none yet.
        margin: share of the room above the threshold that is kept free (``quantile``).
        t_max, watermark: us.
    """

    window: WindowSpec
    tuning: Tuning
    lateness: Lateness = field(init=False)
    slack: int = 0
    alpha: float = 1.0
    error: float | None = None
    margin: float = 0.5
    t_max: int = BEGINNING
    watermark: int = BEGINNING
    _panes: dict[int, int] = field(default_factory=dict)
    _closed: deque[tuple[int, int]] = field(default_factory=deque)
    _next: int | None = None

    def __post_init__(self) -> None:
        self.lateness = Lateness(self.tuning.recent)

    def after(self, arrivals: Arrivals, threshold: float, delta: float) -> list[Measured]:
        """Take one more block.

        Args:
            arrivals: of the block.
            threshold: the coverage threshold in force.
            delta: share of windows that may be below it.

        Returns:
            The windows that were measured, in the order of their ends.
        """
        self.t_max = max(self.t_max, arrivals.newest)
        self.lateness.add(self.t_max, arrivals.greatest, arrivals.lags)
        if self._next is None:
            self._next = self.window.first_window(min(arrivals.panes))
        oldest = self._closed[0][0] if self._closed else self._next
        for pane, count in arrivals.panes.items():
            if pane >= oldest:
                self._panes[pane] = self._panes.get(pane, 0) + count
        self.close(self.t_max - self.slack)
        measured = [self._step(*each, threshold, delta) for each in self._due()]
        if measured:
            self._drop()
        if self.tuning.policy is SlackPolicy.PD or self.error is None:
            self.slack = round(self.alpha * self.lateness.greatest)  # at first as max_delay
        elif measured:
            wanted = threshold + self.margin * (1 - threshold)
            self.slack = self.lateness.least_slack(self.window.size, wanted)
        return measured

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
        until = self.t_max - self.tuning.horizon - self.window.size
        while self._closed and self._closed[0][0] <= until:
            yield self._closed.popleft()

    def _step(self, start: int, received: int, threshold: float, delta: float) -> Measured:
        records = self._count(start)
        error = threshold - received / records
        if self.tuning.policy is SlackPolicy.PD:
            last = error if self.error is None else self.error
            change = self.tuning.kp * error + self.tuning.kd * (error - last)
            self.alpha = min(max(self.alpha + change, 0.0), 1.0)
        else:
            missed = float(error > 0) - delta / 2  # half of delta: the rate itself fluctuates
            self.margin = min(max(self.margin + MARGIN_STEP * missed, 0.0), 1.0)
        self.error = error
        return Measured(start, received, records, self.slack, self.alpha, self.margin)

    def _drop(self) -> None:
        """Panes that no window needs any more."""
        first = self._closed[0][0] if self._closed else self._next
        if first is not None:
            self._panes = {pane: n for pane, n in self._panes.items() if pane >= first}

    def to_json(self) -> dict[str, Any]:
        """All of it but what is configured."""
        return {
            "slack": self.slack,
            "alpha": self.alpha,
            "error": self.error,
            "margin": self.margin,
            "t_max": self.t_max,
            "watermark": self.watermark,
            "next": self._next,
            "panes": sorted(self._panes.items()),
            "closed": [*self._closed],
            "lateness": self.lateness.to_json(),
        }

    @classmethod
    def from_json(cls, window: WindowSpec, tuning: Tuning, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` wrote."""
        names = ("slack", "alpha", "error", "margin", "t_max", "watermark")
        found = cls(window, tuning, **{name: content[name] for name in names})
        found._next = content["next"]
        found._panes = dict(content["panes"])
        found._closed = deque((start, received) for start, received in content["closed"])
        found.lateness = Lateness.from_json(tuning.recent, content["lateness"])
        return found
