"""What a micro-batch is to one step: from where to where, and what is known of the way."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from penstock.columns.marks import Marks
from penstock.kinds.windowed.mapper import Classes
from penstock.kinds.windowed.reducer import Advance
from penstock.lake.history.offset import StepOffset


@dataclass(frozen=True, slots=True)
class Tick:
    """One step's part of a micro-batch; each of its shards is told.

    Attributes:
        step: its name.
        since: the watermark before, us.
        records: of the log that the micro-batch takes.
        at: where the step stands after it.
    """

    step: str
    since: int
    records: int
    at: StepOffset

    @property
    def advance(self) -> Advance:
        """What it is to the step's state."""
        at = self.at
        return Advance(at.number == 0, self.since, at.state.watermark, Marks.from_text(at.marks))

    def to_json(self) -> dict[str, Any]:
        """Of plain values."""
        return {
            "step": self.step,
            "since": self.since,
            "records": self.records,
            "at": self.at.to_json(),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        at = StepOffset.from_json(content["at"])
        return cls(content["step"], content["since"], content["records"], at)


@dataclass(frozen=True, slots=True)
class Status:
    """What a shard says after a micro-batch.

    Attributes:
        tick: what it was told.
        open_pairs: pairs (record, window) whose window is open.
        classes: of records; all but one of a part's shards count none.
    """

    tick: Tick
    open_pairs: int
    classes: Classes

    def to_json(self) -> dict[str, Any]:
        """Of plain values."""
        return {
            "tick": self.tick.to_json(),
            "open_pairs": self.open_pairs,
            "classes": self.classes.message(),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        classes = Classes(**content["classes"])
        return cls(Tick.from_json(content["tick"]), content["open_pairs"], classes)
