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

from dataclasses import dataclass
from typing import ClassVar

from penstock.core.controller import Controller, Measured
from penstock.core.overdue import Overdue
from penstock.core.patient import Patient
from penstock.core.survival import quantile

MARGIN_STEP = 0.05
"""How far one window that held too little moves the margin."""
MOST = 2.0
"""A margin of so much makes K the greatest lateness of the last records."""


@dataclass(slots=True)
class Required(Patient):
    """The controller of ``quantile``.

    Attributes:
        margin: share of delta that is kept free; 0: all but delta of the windows are covered, 1:
            all of the last ones.
    """

    FIGURES: ClassVar[tuple[str, ...]] = (
        *Controller.FIGURES, "margin", "horizon", "greatest_ever", "since", "changes")  # fmt: skip

    margin: float = 0.5

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

    def _measured(self, start: int, one: Overdue) -> Measured:
        threshold = self.tuning.threshold
        return Measured(start, one.received, one.records, self.slack, 1.0, self.margin, threshold)

    def _known(self, *, missed: bool) -> None:
        by = missed - self.tuning.delta / 2
        self.margin = min(max(self.margin + MARGIN_STEP * by, 0.0), MOST)
