"""How far records of a join reach in event time, and until when they are kept.

A right record fits a left one if it lies near ``back`` of it, which never falls: so a left record
is of no use any more once the watermark's own reach has passed it, and a right one likewise. Which
records are kept is a function of the log (``tests/join_model.py``): the watermark counts by spans.
"""

import numpy as np

from penstock.columns.arrays import Bools, Longs
from penstock.core.window import WindowSpec
from penstock.kinds.join.spec import JoinSpec, Shift

MONTH, DAY, MICRO = "datetime64[M]", "datetime64[D]", "datetime64[us]"
SHORTEST, LONGEST = 28 * 86_400_000_000, 31 * 86_400_000_000
"""Of a month, us."""


def back(times: Longs, shift: Shift) -> Longs:
    """Where the right records of left ones lie, us; one instant may be so of several.

    Args:
        times: event times of left records, us.
        shift: of the join.
    """
    if not shift.months:
        return times - shift.span
    when = times.view(MICRO)
    month, midnight = when.astype(MONTH), when.astype(DAY)
    target = month - shift.months
    first, last = target.astype(DAY), (target + 1).astype(DAY) - 1
    day = np.minimum(first + (midnight - month.astype(DAY)), last)
    found: Longs = (day.astype(MICRO) + (when - midnight.astype(MICRO))).view(np.int64)
    return found - shift.span


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
    kept: Bools = times >= back(marks, step.shift) - step.before
    return kept


def kept(step: JoinSpec, times: Longs, roles: Longs, mark: int) -> Bools:
    """Whether records could yet be near to one on time, in some role of theirs.

    Args:
        step: the join.
        times: event times, us.
        roles: sums of ``LEFT`` and ``RIGHT`` of ``wire``.
        mark: the watermark, us.
    """
    marks = np.full(1, counted(step.window, np.full(1, mark))[0])
    left = ((roles & 1) > 0) & left_kept(step, times, marks)
    found: Bools = left | (((roles & 2) > 0) & right_kept(step, times, marks))
    return found


def since(step: JoinSpec, watermark: int) -> int:
    """The event time from which on records may be kept at a watermark, us."""
    mark = counted(step.window, np.full(1, watermark))
    return int(min(back(mark, step.shift)[0] - step.before, mark[0] - step.after))


def rights_of(step: JoinSpec, low: int, high: int) -> tuple[int, int]:
    """Event times [since, until) of right records that fit left ones in [low, high), us."""
    aim = back(np.array([low, high - 1]), step.shift)
    return int(aim[0]) - step.before, int(aim[1]) + step.after + 1


def lefts_of(step: JoinSpec, low: int, high: int) -> tuple[int, int]:
    """Event times [since, until) that hold all left records that right ones in [low, high) fit."""
    months, span = step.shift.months, step.shift.span
    nearest, farthest = months * SHORTEST + span, months * LONGEST + span
    return low - step.after + nearest, high + step.before + farthest
