"""Random schedules of a model: its log grows, its parts work in any order, and are killed."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.lookup_model import KilledError, Lake


def lived(
    lake: Lake,
    source: Sequence[Any],
    step: Any,
    correction: Any,
    draw: random.Random,
    longest: int,
    holds: Callable[[Lake, Any, int], None],
) -> int:
    """Live until the log is whole and answered for; how often something was killed.

    Args:
        lake: of the model; afterwards nothing is killed any more.
        source: what the log is to hold.
        step, correction: of the model.
        draw: of the schedule.
        longest: most turns before the log is completed.
        holds: sees whether the laws hold at a sealed position.
    """
    kills = 0
    for _ in range(draw.randint(20, longest)):
        try:
            match draw.randrange(4):
                case 0:
                    at = len(lake.tables["events"])
                    lake.commit("events", at, source[at : at + draw.randint(1, 8)])
                case 1:
                    correction.work()
                case _:
                    step.work()
        except KilledError:
            kills += 1
            step.state = None if draw.random() < 0.5 else step.state
        for _, through in lake.tables["control"][-3:]:
            holds(lake, step, through)
    lake.kill = 0.0
    at = len(lake.tables["events"])
    lake.commit("events", at, source[at:])
    while step.sealed < len(source):
        step.work()
    return kills
