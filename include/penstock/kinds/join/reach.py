"""How far records of a join reach in event time, and until when they are kept.

A right record fits a left one if it lies near ``back`` of it. That may fall as time goes on: a
month before the 29th, 30th and 31st of March lies one day, three times. So a right record is of use
while any left one from the watermark on may lie so far back. Which records are kept is a function
of the log (``tests/join_model.py``): the watermark counts by spans.
"""

from dataclasses import dataclass

import numpy as np

from penstock.columns.arrays import Bools, Longs
from penstock.core.window import WindowSpec
from penstock.kinds.join.spec import LONGEST_MONTH, JoinSpec, Shift
from penstock.kinds.join.wire import AS_LEFT, AS_RIGHT

MONTH, DAY, MICRO = "datetime64[M]", "datetime64[D]", "datetime64[us]"
LENGTH = 86_400_000_000
"""Of a day, us."""
SHORTEST, LONGEST = 28 * LENGTH, LONGEST_MONTH
"""Of a month."""


@dataclass(frozen=True, slots=True)
class _Months:
    """Where instants lie some months before.

    Attributes:
        found: the instants, us.
        midnight: of the day, us.
        over, ends: whether the day in its own month is beyond the last one there, and the last.
        whole: whether it is that last one, or beyond.
    """

    found: Longs
    midnight: Longs
    over: Bools
    whole: Bools
    ends: Bools


def _months(times: Longs, months: int) -> _Months:
    when = times.view(MICRO)
    month, midnight = when.astype(MONTH), when.astype(DAY)
    target = month - months
    first, last = target.astype(DAY), (target + 1).astype(DAY) - 1
    own = first + (midnight - month.astype(DAY))
    day = np.minimum(own, last).astype(MICRO)
    found = (day + (when - midnight.astype(MICRO))).view(np.int64)
    ends = midnight == (month + 1).astype(DAY) - 1
    return _Months(found, day.view(np.int64), own > last, own >= last, ends)


def back(times: Longs, shift: Shift) -> Longs:
    """Where the right records of left ones lie, us; one instant may be so of several.

    Args:
        times: event times of left records, us.
        shift: of the join.
    """
    if shift.months:
        times = _months(times, shift.months).found
    return times - shift.span


def lowest(times: Longs, shift: Shift) -> Longs:
    """Where right records of left ones from some instants on lie at the earliest, us."""
    if shift.months:
        there = _months(times, shift.months)
        times = np.where(there.whole & ~there.ends, there.midnight, there.found)
    found: Longs = times - shift.span
    return found


def highest(times: Longs, shift: Shift) -> Longs:
    """Where right records of left ones up to some instants lie at the latest, us."""
    if shift.months:
        there = _months(times, shift.months)
        times = np.where(there.over, there.midnight + LENGTH - 1, there.found)
    found: Longs = times - shift.span
    return found


def counted(window: WindowSpec, watermarks: Longs) -> Longs:
    """Watermarks as a join looks at them: by whole spans, so that none hangs on a cut, us."""
    found: Longs = (watermarks - window.origin) // window.size * window.size + window.origin
    return found


def left_kept(step: JoinSpec, times: Longs, marks: Longs) -> Bools:
    """Whether left records could yet be near to a right one on time; ``marks``: as counted, us."""
    kept: Bools = back(times, step.shift) + step.after >= marks
    return kept


def right_kept(step: JoinSpec, times: Longs, marks: Longs) -> Bools:
    """Whether right records could yet be near to a left one on time."""
    kept: Bools = times >= lowest(marks, step.shift) - step.before
    return kept


def kept(step: JoinSpec, times: Longs, roles: Longs, mark: int) -> Bools:
    """Whether records could yet be near to one on time, in some role of theirs.

    Args:
        step: the join.
        times: event times, us.
        roles: as of ``wire``.
        mark: the watermark, us.
    """
    marks = np.full(1, counted(step.window, np.full(1, mark))[0])
    left = ((roles & AS_LEFT) > 0) & left_kept(step, times, marks)
    found: Bools = left | (((roles & AS_RIGHT) > 0) & right_kept(step, times, marks))
    return found


def since(step: JoinSpec, watermark: int) -> int:
    """The event time from which on records may be kept at a watermark, us."""
    mark = counted(step.window, np.full(1, watermark))
    return int(min(lowest(mark, step.shift)[0] - step.before, mark[0] - step.after))


def rights_of(step: JoinSpec, low: int, high: int) -> tuple[int, int]:
    """Event times [since, until) of right records that fit left ones in [low, high), us."""
    ends = np.array([low]), np.array([high - 1])
    first, last = (
        edge(end, step.shift)[0] for edge, end in zip((lowest, highest), ends, strict=True)
    )
    return int(first) - step.before, int(last) + step.after + 1


def lefts_of(step: JoinSpec, low: int, high: int) -> tuple[int, int]:
    """Event times [since, until) that hold all left records that right ones in [low, high) fit."""
    months, span = step.shift.months, step.shift.span
    nearest, farthest = months * SHORTEST + span, months * LONGEST + span
    return low - step.after + nearest, high + step.before + farthest
