"""A place in the log from which an audit can count and fold on."""

from dataclasses import dataclass

from penstock.core.slack import WatermarkState
from penstock.core.window import BEGINNING

NOTHING = WatermarkState()


@dataclass(frozen=True, slots=True)
class Waypoint:
    """The end of a block, with all that counting and folding go on from there.

    Attributes:
        block: the next one.
        seq: the last number before it; -1: none.
        newest: greatest event time of live records so far, us.
        state: the watermark fold.
        controller: of the slack; empty: none.
        begins: nothing of the log is left before it: whoever folds from here begins anew.
    """

    block: int
    seq: int
    newest: int = BEGINNING
    state: WatermarkState = NOTHING
    controller: str = ""
    begins: bool = False


BEGIN = Waypoint(0, -1, begins=True)
"""Before the first block."""
