"""What a micro-batch is to one step: from where to where, and what is known of the way."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from penstock.columns.marks import Marks
from penstock.kinds.classes import Classes
from penstock.kinds.frame import Advance, Reduced
from penstock.lake.history.offset import StepOffset


@dataclass(frozen=True, slots=True)
class Tick:
    """One step's part of a micro-batch; each of its shards is told.

    Attributes:
        step: its name.
        since: the watermark before, us.
        records: of the log that the micro-batch takes.
        at: where the step stands after it.
        size: records at which the micro-batch takes no further block.
        size_reason: for another size than before; empty: it is the same.
    """

    step: str
    since: int
    records: int
    at: StepOffset
    size: int
    size_reason: str

    @property
    def advance(self) -> Advance:
        """What it is to the step's state."""
        at = self.at
        return Advance(
            at.number == 0, self.since, at.state.watermark, Marks.from_text(at.marks), at.number
        )

    def to_json(self) -> dict[str, Any]:
        """Of plain values."""
        return {
            "step": self.step,
            "since": self.since,
            "records": self.records,
            "at": self.at.to_json(),
            "size": self.size,
            "size_reason": self.size_reason,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        return cls(**{**content, "at": StepOffset.from_json(content["at"])})


@dataclass(frozen=True, slots=True)
class Status:
    """What a shard says after a micro-batch.

    Attributes:
        tick: what it was told.
        open_pairs, late_pairs, answered_pairs: of (record, window), as the reducer counts them.
        classes: of records; what the mapper tells stands with one of its part's shards.
        compared: as the reducer counts them.
        shed_pairs: of the late ones those that were shed.
    """

    tick: Tick
    open_pairs: int
    late_pairs: int
    answered_pairs: int
    classes: Classes
    compared: int | None = None
    shed_pairs: int = 0

    @classmethod
    def of(cls, tick: Tick, reduced: Reduced, classes: Classes) -> Self:
        """What a reducer's results are counted as."""
        classes.add(reduced.classes.message())
        pairs = reduced.open_pairs, reduced.late_pairs, reduced.answered_pairs
        return cls(tick, *pairs, classes, reduced.compared, reduced.shed_pairs)

    def to_json(self) -> dict[str, Any]:
        """Of plain values."""
        return {
            "tick": self.tick.to_json(),
            "pairs": [self.open_pairs, self.late_pairs, self.answered_pairs],
            "classes": self.classes.message(),
            "compared": self.compared,
            "shed": self.shed_pairs,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        classes = Classes(**content["classes"])
        told = Tick.from_json(content["tick"]), *content["pairs"]
        return cls(*told, classes, content["compared"], content["shed"])
