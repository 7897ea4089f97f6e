"""K as the slack that windows turned out to need: ``quantile`` (law 7).

A window's *required slack* is the least K with which its timely answer would have held enough of
its records: known once it is final, that is once hardly a record can still come for it, and told
from its age before that (``development``). K is a high quantile of it over the last windows, those
included that are not final yet, censored at their age (``survival``). Nothing is assumed of
records: bursts and dependence are inside the required slack.

How high a quantile follows from what came of it: each final window moves the margin up if it held
too little when it closed, and down a little if it did not, so that over many windows a share of
delta / 2 does, whatever the stream. Source: Gibbs and Candes 2021, "Adaptive conformal inference
under distribution shift", proposition 4.1 (no assumption but a bounded step); that feedback may be
delayed by so many windows: Angelopoulos, Candes and Tibshirani 2023, "Conformal PID control". [D]
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, log
from typing import Any, ClassVar

from penstock.core.controller import Arrivals, Controller, Measured
from penstock.core.lateness import Histogram
from penstock.core.overdue import Overdue, needed
from penstock.core.runoff import Runoff
from penstock.core.slack import SlackSpec
from penstock.core.survival import quantile

WINDOWS = 500
"""Final windows that K goes by."""
AT_ONCE = 512
"""Windows that are looked at, at most, before they are final."""
CONFIDENCE = 0.95
MARGIN_STEP = 0.05
"""How far one window that held too little moves the margin."""
MOST = 2.0
"""A margin of so much makes K the greatest lateness of the last records."""
UNSEEN = 0.25
"""Of the windows that may hold too little, the share that may do so by records after the end."""
CHANGES = 8
"""K is chosen anew once one in so many of the windows at hand has become older."""


@dataclass(slots=True)
class Required(Controller):
    """The controller of ``quantile``.

    Attributes:
        margin: share of delta that is kept free; 0: all but delta of the windows are covered, 1:
            all of the last ones.
        horizon: how long after its end a window is final, us.
        greatest_ever: lateness, us.
        since: the watermark when it became steady: windows that end before did not follow from it,
            us; none: it is not steady.
        slacks: start and required slack of the last final windows, us.
        lags: lateness of the last records.
        runoff: the windows that are not final.
    """

    FIGURES: ClassVar[tuple[str, ...]] = (
        *Controller.FIGURES, "margin", "horizon", "greatest_ever", "since", "changes")  # fmt: skip

    margin: float = 0.5
    horizon: int = 0
    greatest_ever: int = 0
    since: int | None = None
    changes: int = 0
    slacks: deque[tuple[int, int]] = field(default_factory=deque)
    lags: Histogram = field(default_factory=Histogram)
    runoff: Runoff = field(init=False)

    def __post_init__(self) -> None:
        self.runoff = Runoff(self.window, self.tuning.threshold)

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
        if not missed and self.changes * CHANGES < len(self.runoff.overdue) + len(self.slacks):
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

    def _chosen(self) -> int:
        known, censored = [slack for _, slack in self.slacks], list[int]()
        ages = self.runoff.ages
        until = next(i for i, age in enumerate(ages) if age >= self.horizon)
        growth = self.runoff.development.factors(until)
        for start, one in self.runoff.overdue.items():
            if not one.final:
                expected = max(one.records, round(one.aged * growth[min(one.ages - 1, until)]))
                slack = one.required(self._wanted(expected))
                if slack is None:
                    censored.append(self.t_max - start - self.window.size)
                else:
                    known.append(slack)
        free = min(self.margin, 1.0)
        found = quantile(known, censored, 1 - self.tuning.delta * (1 - free))
        if found is None:
            found = max(*known, self.horizon)
        greatest = self.lags.exceeded(0.0)
        beyond = self.margin - free
        return min(found + round(beyond * max(greatest - found, 0)), greatest)

    def _measure(self, start: int, one: Overdue) -> Measured:
        threshold = self.tuning.threshold
        found = Measured(start, one.received, one.records, self.slack, 1.0, self.margin, threshold)
        if not one.missed:
            self._move(start, -self.tuning.delta / 2)
        return found

    def _missed(self) -> int:
        """Windows of which it turned out since that they held too little; counts them."""
        missed, self.runoff.missed = self.runoff.missed, []
        for start in missed:
            self._move(start, 1 - self.tuning.delta / 2)
        return len(missed)

    def _move(self, start: int, by: float) -> None:
        """A window moves the margin, if K was in force when it was closed."""
        if self.since is not None and start + self.window.size > self.since:
            self.margin = min(max(self.margin + MARGIN_STEP * by, 0.0), MOST)

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
