"""K as a share of the greatest lateness, steered by final coverage: ``pd_final`` (law 7).

The structure is HPM's: K = alpha k, and alpha follows an error of coverage by a PD law, one step a
measured window. Three things differ from ``pd``, which is as published (``damped``):

1. A window is measured once it is final, or known to have held too little before (``patient``).
2. The set point is a share of windows, not a coverage: had windows the threshold as their mean,
   half of them would lie below it. The error of a window is 1 if it held too little, else 0, less
   delta / 2: the law only comes to rest where so many windows hold too little, whatever the stream.
   Source: Gibbs and Candes 2021, proposition 4.1; with a PID law: Angelopoulos, Candes and
   Tibshirani 2023, "Conformal PID control".
3. The gains follow from the delay. What alpha does to a window that closes now is known when it is
   final: so many windows later, which is all that lies between alpha and the error. For a gain with
   dead time the error weighs 1 / (gain (tau_c + dead)), and its change a third of the dead time
   more. Source: Skogestad 2003, "Simple analytic rules for model reduction and PID controller
   tuning" (SIMC; tau_c is the dead time or more); Grimholt and Skogestad 2018, "Optimal PI and PID
   control of first-order plus delay processes" (the derivative). tau_c is not below the windows
   from which on a share of delta can be told at all. The gain is how the share of windows that
   would hold too little changes with alpha: told by what the last final windows needed. [D]

k is the greatest lateness of the last records: an ancient one is forgotten. Where k changes, alpha
does so that K stays (bumpless transfer: Astrom and Hagglund 2006, "Advanced PID control").
"""

from dataclasses import dataclass
from typing import ClassVar

from penstock.core.controller import Controller, Measured
from penstock.core.overdue import Overdue
from penstock.core.patient import Patient

DERIVATIVE = 1 / 3
"""Of the dead time: the derivative time, over which the error is smoothed for it."""
UPPER = 0.5
"""The gain is that between delta and this part of it."""
NARROWEST = 1 / 32
"""A bin of lateness is at most so wide: of required slacks a smaller spread is not known."""


@dataclass(slots=True)
class Paced(Patient):
    """The controller of ``pd_final``.

    Attributes:
        alpha: share of the greatest lateness of the last records that K is.
        lately: that lateness, us; 0: K is not chosen yet.
        error: of the last measured windows, smoothed over the derivative time.
        dead: windows that are measured from the closing of one until it is final.
        kp: weight of the error.
    """

    FIGURES: ClassVar[tuple[str, ...]] = (
        *Controller.FIGURES, "horizon", "greatest_ever", "since", "changes", "alpha", "lately",
        "error", "dead", "kp")  # fmt: skip

    alpha: float = 1.0
    lately: int = 0
    error: float = 0.0
    dead: float = 0.0
    kp: float = 0.0

    def _chosen(self) -> int:
        greatest = self.lags.exceeded(0.0)
        slacks = sorted(slack for _, slack in self.slacks)
        if greatest and greatest != self.lately:
            held = self.alpha * self.lately if self.lately else max(slacks, default=greatest)
            self.alpha, self.lately = min(held / greatest, 1.0), greatest
        if slacks and greatest:
            self._tune(slacks)
        return round(self.alpha * self.lately)

    def _tune(self, slacks: list[int]) -> None:
        """Gains for what is known now; ``slacks``: that windows needed, ascending, us."""
        delta = self.tuning.delta
        self.dead = max(self.horizon - self.slack, 0) / (self.window.slide * self.runoff.every)
        low, high = (slacks[-1 - int(part * delta * len(slacks))] for part in (1, UPPER))
        spread = max(high - low, high * NARROWEST) / self.lately
        gain = delta * (1 - UPPER) / spread if spread else 1.0
        self.kp = 1 / (gain * (max(self.dead, self.enough) + self.dead))

    def _known(self, *, missed: bool) -> None:
        error = missed - self.tuning.delta / 2
        derivative = DERIVATIVE * self.dead
        smoothed = self.error + (error - self.error) / max(derivative, 1.0)
        change = self.kp * (error + derivative * (smoothed - self.error))
        self.alpha = min(max(self.alpha + change, 0.0), 1.0)
        self.error = smoothed

    def _measured(self, start: int, one: Overdue) -> Measured:
        threshold = self.tuning.threshold
        return Measured(start, one.received, one.records, self.slack, self.alpha, 0.0, threshold)
