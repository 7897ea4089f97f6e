"""How a step's state gets into another number of shards: it moves, or is rebuilt from the log.

Source: EMR (OPAP) drains a step and starts it with the other number; RTMR moves what belongs to
another owner. Which costs less is known of neither beforehand, so both are predicted.
"""

from dataclasses import dataclass
from enum import StrEnum

MOVED_A_SECOND, READ_A_SECOND = 1_000_000.0, 1_000_000.0
"""Rows of a state that shards look through and write; records that are read and reduced: measured
on two cores (benchmarks/rescaling.py)."""
FIXED = 1.0
"""Seconds of a micro-batch: what a longer one takes more is for its records."""
MOST_MOVED = 4_000_000
"""Rows of a state that go through the driver's memory at once."""


class Way(StrEnum):
    """How a state gets there."""

    MOVE = "move"
    REBUILD = "rebuild"


@dataclass(frozen=True, slots=True)
class Prediction:
    """What either way is predicted to take.

    Attributes:
        move: seconds; none: the state cannot move.
        rebuild: seconds.
    """

    move: float | None
    rebuild: float

    @property
    def way(self) -> Way:
        """That which takes less."""
        return Way.MOVE if self.move is not None and self.move <= self.rebuild else Way.REBUILD


def predicted(kept: int, records: int, pace: float, *, by_key: bool) -> Prediction:
    """What either way will take, until the step has sealed a micro-batch with all of its shards.

    Args:
        kept: rows of the state.
        records: of the log that a rebuild reads.
        pace: seconds that the shortest micro-batch took: a move takes two, a rebuild one.
        by_key: whether each row belongs to one shard; else it cannot move.
    """
    pace = min(pace, FIXED)
    move = 2 * pace + kept / MOVED_A_SECOND if by_key and kept <= MOST_MOVED else None
    return Prediction(move, pace + records / READ_A_SECOND)
