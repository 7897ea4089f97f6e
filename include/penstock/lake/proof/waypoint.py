"""A place in the log from which an audit can count and fold on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from penstock.core.slack import WatermarkState
from penstock.core.window import BEGINNING
from penstock.lake.log.stood import Stood

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
        streams: where each of the step's streams stands, if there are several.
    """

    block: int
    seq: int
    newest: int = BEGINNING
    state: WatermarkState = NOTHING
    controller: str = ""
    begins: bool = False
    streams: tuple[Stood, ...] = ()

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """From its fields as plain values."""
        streams = tuple(map(Stood.of, fields.get("streams", ())))
        state = WatermarkState(**fields["state"])
        return cls(**{**fields, "state": state, "streams": streams})

    def newest_of(self, stream: str) -> int:
        """Greatest event time of live records of a stream so far, us."""
        known = {one.stream: one.newest for one in self.streams}
        return known.get(stream, self.newest)


BEGIN = Waypoint(0, -1, begins=True)
"""Before the first block."""
