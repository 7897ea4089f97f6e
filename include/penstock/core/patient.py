"""Controllers that measure a window once hardly a record can still come for it (law 7).

How long after its end that is follows from the lateness of the stream itself, and so does how long
a controller has to wait before it knows what came of its K. Windows in between are kept in bounded
memory (``runoff``). That a window held too little is often known earlier, and then counts at once.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, log
from typing import Any

from penstock.core.controller import Arrivals, Controller, Measured
from penstock.core.lateness import Histogram
from penstock.core.overdue import Overdue, needed
from penstock.core.runoff import Runoff
from penstock.core.slack import SlackSpec

WINDOWS = 500
"""Final windows that K goes by."""
AT_ONCE = 512
"""Windows that are looked at, at most, before they are final."""
CONFIDENCE = 0.95
UNSEEN = 0.25
"""Of the windows that may hold too little, the share that may do so by records after the end."""
CHANGES, FEWEST = 8, 16
"""K is chosen anew once one in so many windows at hand has become older, and so many have."""


@dataclass(slots=True)
class Patient(Controller):
    """A controller of final coverage.

    Attributes:
        horizon: how long after its end a window is final, us.
        greatest_ever: lateness, us.
        since: the watermark when it became steady: windows that end before did not follow from it,
            us; none: it is not steady.
        changes: windows that have become older since K was chosen.
        slacks: start and required slack of the last final windows, us.
        lags: lateness of the last records.
        runoff: the windows that are not final.
    """

    horizon: int = 0
    greatest_ever: int = 0
    since: int | None = None
    changes: int = 0
    slacks: deque[tuple[int, int]] = field(default_factory=deque)
    lags: Histogram = field(default_factory=Histogram)
    runoff: Runoff = field(init=False)

    def __post_init__(self) -> None:
        self.runoff = Runoff(self.window, self.tuning.threshold)

    @abstractmethod
    def _chosen(self) -> int:
        """K from here on, us."""

    @abstractmethod
    def _known(self, *, missed: bool) -> None:
        """A window that closed under a chosen K held too little, or is final and did not."""

    @abstractmethod
    def _measured(self, start: int, one: Overdue) -> Measured:
        """A window that is final and closed, as it is told of."""

    @property
    def steady(self) -> bool:
        """Whether enough windows are final that the greatest slack they needed covers most.

        Of n windows the greatest covers all but delta with 95 % confidence if (1 - delta)^n is at
        most 5 %. Source: Wilks 1941, tolerance limits.
        """
        return self.since is not None

    @property
    def enough(self) -> int:
        """Final windows from which on K follows them."""
        return ceil(log(1 - CONFIDENCE) / log(1 - self.tuning.delta))

    @property
    def k(self) -> int:
        """The greatest lateness so far, us."""
        return self.greatest_ever

    def turn(self, spec: SlackSpec) -> None:
        """Another tuning holds from here on."""
        self.spec = spec
        self.runoff.threshold = self.tuning.threshold

    def _take(self, arrivals: Arrivals) -> None:
        first = self._first(min(arrivals.panes)) if self.runoff.begin is None else 0
        self.runoff.take(arrivals, first, self.watermark)
        self.lags.waiting.append(arrivals.lags)

    def _learn(self, greatest: int) -> None:
        self.greatest_ever = max(self.greatest_ever, greatest)

    def close(self, watermark: int) -> None:
        """Move the watermark, never back, and note what the windows it closes have received."""
        self.watermark = max(self.watermark, watermark)
        self.runoff.close(self.watermark)

    def settle(self) -> list[Measured]:
        """Measure the windows that are final and closed, and choose K anew; returns them."""
        self.changes += self.runoff.advance(self.t_max, self.watermark)
        missed = self._missed()
        at_hand = len(self.runoff.overdue) + len(self.slacks)
        if not missed and self.changes < max(at_hand / CHANGES, FEWEST):
            return []
        self.changes = 0
        self._reach()
        until = self.t_max - self.horizon - self.window.size
        for start, one in self.runoff.final(until):
            self.slacks.append((start, one.required(self._wanted(one.records)) or 0))
        self._forget()
        measured = [self._measure(*each) for each in self.runoff.leave()]
        self.passed = until
        if self.since is None and len(self.slacks) >= self.enough:
            self.since = self.watermark
        if self.since is not None:
            self.slack = self._chosen()
        return measured

    def _wanted(self, records: int) -> int:
        return needed(records, self.tuning.threshold)

    def _reach(self) -> None:
        """How long after its end a window is final.

        Records that come later are so few that not more than a part of delta of the windows can
        miss enough of them to hold too little (Markov's inequality).
        """
        self.lags.turn()
        tuning = self.tuning
        share = UNSEEN * tuning.delta * (1 - tuning.threshold)
        own = tuning.horizon
        self.horizon = self.lags.exceeded(share) if own is None else own
        room = AT_ONCE * self.window.slide
        every = self.runoff.every
        while self.horizon > every * room:
            every *= 2
        while every > 1 and self.horizon * 4 <= every * room:
            every //= 2
        if every != self.runoff.every:
            self.runoff.thin(every)

    def _forget(self) -> None:
        recent = self.tuning.recent
        while len(self.slacks) > WINDOWS or (
            recent is not None and self.slacks and self.slacks[0][0] < self.t_max - recent
        ):
            self.slacks.popleft()

    def _measure(self, start: int, one: Overdue) -> Measured:
        found = self._measured(start, one)
        if not one.missed:
            self._tell(start, missed=False)
        return found

    def _missed(self) -> int:
        """Windows of which it turned out since that they held too little; counts them."""
        missed, self.runoff.missed = self.runoff.missed, []
        for start in missed:
            self._tell(start, missed=True)
        return len(missed)

    def _tell(self, start: int, *, missed: bool) -> None:
        """Of a window it is known what came of K, if K was in force when it was closed."""
        if self.since is not None and start + self.window.size > self.since:
            self._known(missed=missed)

    def _content(self) -> dict[str, Any]:
        return {
            "slacks": [*self.slacks],
            "lags": self.lags.to_json(),
            "runoff": self.runoff.to_json(),
        }

    def _restore(self, content: Mapping[str, Any]) -> None:
        self.slacks = deque((start, slack) for start, slack in content["slacks"])
        self.lags = Histogram.from_json(content["lags"])
        threshold = self.tuning.threshold
        self.runoff = Runoff.from_json(self.window, threshold, content["runoff"])
