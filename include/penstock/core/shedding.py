"""Load shedding: which records the speed layer leaves to the correction while it cannot keep up.

A ratio is decided from how far the stream is behind, and holds from a position of the log on, as a
decision does that the door adopted. Which records that means is a sample by their positions: so a
replay sheds the same ones, and what is timely stays a function of the log. Shed records are in the
log like any other; a correction takes them as it takes late ones. Source: S2J (linear and quadratic
shedding above tau1) [R]; that they are only withheld, and repaired, is ours [D].
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil

from penstock.core.errors import ConfigError

WHOLE = 100
"""Ratios are whole per cent."""
STEP = 5
"""By which a ratio changes, per cent: every change is a decision in the log."""
SPAN, MULTIPLIER = 1 << 31, 2_654_435_761
"""Of the sample: Knuth's multiplicative hash, which spreads any run of positions evenly."""
HASHES = 1 << 32
HELD = 10.0
"""Seconds over which a stream's speed is taken, and for which it must stay relaxed."""

Shed = tuple[int, int]
"""A position, and the ratio that holds from it on, per cent."""


class Model(StrEnum):
    """How the ratio rises from nothing to the whole base."""

    LINEAR = "linear"
    QUADRATIC = "quadratic"


@dataclass(frozen=True, slots=True)
class Shedding:
    """How much a step may shed.

    Attributes:
        model: how the ratio rises.
        base: the greatest ratio, of the records.
        start: utilisation above which it sheds (tau1), below 1.
        within: time that what is sealed has until it is answered, us. Utilisation is the time that
            this takes, over the time that it has.

    Raises:
        ConfigError: a ratio or utilisation is none.
    """

    model: Model
    base: float
    start: float
    within: int

    def __post_init__(self) -> None:
        if not 0 < self.base <= 1:
            raise ConfigError(f"base {self.base:g} is no share of the records: above 0, up to 1")
        if not 0 <= self.start < 1:
            raise ConfigError(f"from {self.start:g} is no utilisation to begin at: 0 up to below 1")
        if self.within <= 0:
            raise ConfigError("within must be longer than nothing")

    def ratio(self, utilisation: float) -> int:
        """What to shed, per cent, in steps of ``STEP``; the last one may be smaller.

        Linear: base (tau - tau1) / (1 - tau1); quadratic: base ((tau - tau1) / (1 - tau1))^2; of a
        stream that has no time left, the base.
        """
        over = min(max((utilisation - self.start) / (1 - self.start), 0.0), 1.0)
        share = over**2 if self.model is Model.QUADRATIC else over
        most = round(WHOLE * self.base)
        return min(STEP * ceil(WHOLE * self.base * share / STEP - 1e-9), most)


def is_shed(seq: int, ratio: int) -> bool:
    """Whether a record is in the sample of a ratio, per cent."""
    return seq % SPAN * MULTIPLIER % HASHES < limit(ratio)


def limit(ratio: int) -> int:
    """Below which hashes a ratio sheds, per cent."""
    return ratio * HASHES // WHOLE


def between(sheds: Iterable[Shed], first: int, last: int) -> tuple[Shed, ...]:
    """What holds within positions [first, last], of changes in order; nothing: none is shed."""
    found, before = list[Shed](), 0
    for seq, ratio in sheds:
        if seq <= first:
            before = ratio
        elif seq <= last:
            found.append((seq, ratio))
    mine = [(first, before), *found]
    return tuple(mine) if any(ratio for _, ratio in mine) else ()


@dataclass
class Behind:
    """How far a stream is behind, as looked at again and again.

    Attributes:
        looks: instant, s, and records that were answered by then; the oldest first.
    """

    looks: deque[tuple[float, int]] = field(default_factory=deque)

    def look(self, now: float, sealed: int, answered: int) -> float | None:
        """Seconds that what is sealed takes at the present speed; none: it cannot be said.

        Args:
            now: of a clock that never goes back, s.
            sealed: records of the log.
            answered: of these, up to where.
        """
        looks = self.looks
        if answered >= sealed:  # its speed was that of what came
            looks.clear()
        looks.append((now, answered))
        while len(looks) > 1 and looks[1][0] <= now - HELD and looks[1][1] < answered:
            looks.popleft()
        then, before = looks[0]
        if answered >= sealed:
            return 0.0
        if answered <= before or now <= then:
            return None
        return (sealed - answered) * (now - then) / (answered - before)


@dataclass
class Shedder:
    """Decides what a step sheds: more at once, less once that would have done for a while.

    Attributes:
        shedding: how much it may; none: nothing any more.
        ratio: in force, or asked for, per cent.
        wanted: instant, s, and what to shed then; the oldest first.
    """

    shedding: Shedding | None
    ratio: int
    wanted: deque[tuple[float, int]] = field(default_factory=deque)

    def decide(self, now: float, behind: float | None) -> tuple[int, str] | None:
        """Another ratio, per cent, and why; none: it stays.

        Args:
            now: of a clock that never goes back, s.
            behind: as ``Behind`` says.
        """
        if self.shedding is None:
            return (0, "shed is not in the pipeline file any more") if self.ratio else None
        if behind is None:
            return None
        tau = behind * 1e6 / self.shedding.within
        self.wanted.append((now, self.shedding.ratio(tau)))
        while self.wanted[0][0] < now - HELD:
            self.wanted.popleft()
        most = max(ratio for _, ratio in self.wanted)
        if most == self.ratio:
            return None
        return most, f"{behind:.1f} s behind, {self.shedding.within / 1e6:g} s are allowed"
