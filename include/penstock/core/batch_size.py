"""How many records a micro-batch takes: RTMR's control on processing speed, made to settle.

A size grows while that makes processing faster, shrinks where it makes it slower, and is bounded
by how long a micro-batch may take. From the published algorithm (RTMR, algorithm 1) this departs
where benchmarks/batch_size.py shows that it does not settle: a micro-batch that took all there was
says nothing of its size; speeds are medians of five; what differs by less than their noise is the
same; and a size that is no faster than the former is kept until the speed is another.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Self

STEP = 1.05
"""The published factor of adjustment."""
SAMPLES = 5
"""Micro-batches of a size by which it is judged."""
SAME, OTHER = 1.01, 1.25
"""Ratio of two speeds: below the first they are one; beyond the second the load is another."""
AIM = 0.95
"""Of the time that a micro-batch may take: what a new size is to take."""
LITTLE = 1.02
"""Ratio of two sizes that are not worth a change."""
NARROW = 1.1
"""Ratio of a size that is too large to one that is not, between which none is looked for."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a size may be.

    Attributes:
        least, most: records; equal: it is fixed.
        seconds: that a micro-batch may take; none: not bounded.
    """

    least: int
    most: int
    seconds: float | None = None

    @classmethod
    def fixed(cls, records: int) -> Self:
        """One size, whatever it takes."""
        return cls(records, records)

    def within(self, records: float) -> int:
        """The nearest size that may be."""
        return min(max(int(records), self.least), self.most)


@dataclass(frozen=True, slots=True)
class Measured:
    """A micro-batch that is over.

    Attributes:
        records: it took.
        seconds: from its offset to the next one that is asked for.
        waiting: records that had arrived by then.
    """

    records: int
    seconds: float
    waiting: int


@dataclass(frozen=True, slots=True)
class BatchSize:
    """A size, and what is known of it; part of the offset, so that a restart goes on with it.

    Attributes:
        records: a micro-batch takes no further block once it has so many.
        speeds: of its last micro-batches that were full, records/s.
        former, former_speed: the largest smaller size that was no slower than those below it, and
            its speed, records/s; 0: none is known.
        beyond: the smallest size that was slower or took too long; 0: none is known.
        kept_at: the speed at which the size was found, records/s; 0: it is being looked for.
    """

    records: int
    speeds: tuple[float, ...] = ()
    former: int = 0
    former_speed: float = 0.0
    beyond: int = 0
    kept_at: float = 0.0

    @classmethod
    def first(cls, bounds: Bounds) -> Self:
        """Before anything is known: the least."""
        return cls(bounds.least)

    def after(self, last: Measured, bounds: Bounds) -> "tuple[BatchSize, str]":
        """The size of the next micro-batch, and why it is another; empty: it is the same."""
        if (allowed := bounds.within(self.records)) != self.records:
            return BatchSize(allowed), "the bounds are others"
        if bounds.least == bounds.most or last.records < self.records:
            return self, ""
        seen = replace(self, speeds=(*self.speeds, last.records / last.seconds)[-SAMPLES:])
        if len(seen.speeds) < SAMPLES:
            return seen, ""
        return _judged(seen, median(seen.speeds), last.waiting, bounds)

    def to_json(self) -> dict[str, Any]:
        """Of plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        return cls(**{**content, "speeds": tuple(content["speeds"])})


def _judged(size: BatchSize, speed: float, waiting: int, bounds: Bounds) -> tuple[BatchSize, str]:
    """What becomes of a size that is known to be so fast, records/s."""
    longest = bounds.seconds * speed if bounds.seconds else math.inf
    if longest < size.records > bounds.least:
        return _shorter(size, speed, bounds, longest)
    if size.kept_at:
        if max(speed, size.kept_at) < OTHER * min(speed, size.kept_at):
            return size, ""
        size = BatchSize(size.records, size.speeds)  # another load: look again
    if size.former and speed < SAME * size.former_speed:
        return _back(size, speed, bounds)
    return _larger(size, speed, waiting, bounds, AIM * longest)


def _shorter(
    size: BatchSize, speed: float, bounds: Bounds, longest: float
) -> tuple[BatchSize, str]:
    smaller = bounds.within(stepped(size.records, AIM * longest))
    why = f"{size.records / speed:.2f} s a micro-batch, {bounds.seconds:g} are the bound"
    if speed * OTHER > size.kept_at > 0:  # not another load: its noise
        return BatchSize(smaller, kept_at=size.kept_at), why
    return BatchSize(smaller, beyond=size.records), why


def _back(size: BatchSize, speed: float, bounds: Bounds) -> tuple[BatchSize, str]:
    """To the former size, or between: this one is no faster."""
    why = f"{speed:,.0f} records/s, with {size.former:,} it was {size.former_speed:,.0f}"
    if SAME * speed < size.former_speed and size.records > NARROW * size.former:
        middle = bounds.within(math.sqrt(size.former * size.records))
        return BatchSize(middle, (), size.former, size.former_speed, size.records), why
    return BatchSize(size.former, kept_at=size.former_speed), why


def _larger(
    size: BatchSize, speed: float, waiting: int, bounds: Bounds, most: float
) -> tuple[BatchSize, str]:
    """By what has arrived, or between: this one is faster than the former."""
    if size.beyond:
        wanted = math.sqrt(size.records * size.beyond)
        wanted = 0 if size.beyond < NARROW * size.records else wanted
    elif waiting < size.records:  # it keeps up
        return size, ""
    else:
        wanted = 2.0 * size.records
    larger = bounds.within(min(wanted, most))
    if larger < LITTLE * size.records:
        return replace(size, kept_at=speed), ""
    why = f"{speed:,.0f} records/s, {waiting:,} waiting"
    return BatchSize(larger, (), size.records, speed, size.beyond), why


def stepped(records: int, wanted: float) -> float:
    """A smaller size, by whole steps of the factor, that is at most the wanted one."""
    steps = max(1, math.ceil(math.log(records / wanted, STEP) - 1e-9))
    return records / STEP**steps
