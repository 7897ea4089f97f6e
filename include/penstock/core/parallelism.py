"""Into how many tasks a step's part of a micro-batch is cut: asked for, or decided by the load.

Source: RTMR's algorithm 2. As published, two stages of one job lend each other threads; here the
first stage of all steps is one scan on all cores, so that only the second has tasks of its own: it
gets one more while it is overloaded and a core is free, and gives one back while fewer would do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

UNSAID, AUTO = 0, -1
"""As many as the query has tasks, where a step says nothing; as many as the load asks for."""
BUSY = 0.75
"""Use of the processor from which on no core is free."""
SPARE = 1.25
"""So many times what arrives the fewer tasks must be able to do."""
HELD = 6
"""Looks in a row before a task is given back."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a step was found to do.

    Attributes:
        arrives: records a second.
        done: records a second while it works: its speed, not its throughput, which equals what
            arrives as long as it keeps up; none: it had nothing to do.
        used: share of the processor that is in use, of all cores.
    """

    arrives: float
    done: float | None
    used: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """So many tasks there should be, and why."""

    tasks: int
    reason: str


def joint(one: int, other: int) -> int:
    """What two who share a step ask for together: the greater number, else what either says."""
    return max(one, other) if max(one, other) > 0 else min(one, other)


def decide(looks: Sequence[Look], tasks: int, most: int) -> Verdict | None:
    """Whether to have another number of tasks.

    Args:
        looks: since there are so many, every 5 s, the oldest first.
        tasks: that there are.
        most: that there may be.
    """
    if not looks:
        return None
    last = looks[-1]
    if last.done is not None and last.done < last.arrives:
        said = f"{last.arrives:,.0f} records/s arrive, {tasks} do {last.done:,.0f}"
        if tasks < most and last.used < BUSY:
            return Verdict(tasks + 1, f"{said}, and {last.used:.0%} of the processor are in use")
        return None
    held = looks[-HELD:]
    if tasks > 1 and len(held) == HELD and all(_would_do(look, tasks - 1, tasks) for look in held):
        most_arrived = max(look.arrives for look in held)
        return Verdict(
            tasks - 1,
            f"no more than {most_arrived:,.0f} records/s arrived in {5 * HELD} s: {tasks - 1} would"
            " do",
        )
    return None


def _would_do(look: Look, tasks: int, now: int) -> bool:
    return look.done is None or look.done * tasks / now >= look.arrives * SPARE
