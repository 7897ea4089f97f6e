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
        fresh: shards that hold nothing of it yet, but what they get.
    """

    step: str
    since: int
    records: int
    at: StepOffset
    size: int
    size_reason: str
    fresh: tuple[int, ...] = ()

    def advance(self, shard: int) -> Advance:
        """What it is to a shard of the step's state."""
        at = self.at
        return Advance(
            at.number == 0 or shard in self.fresh,
            self.since,
            at.state.watermark,
            Marks.from_text(at.marks),
            at.number,
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
            "fresh": self.fresh,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        fresh, at = tuple(content["fresh"]), StepOffset.from_json(content["at"])
        return cls(**{**content, "at": at, "fresh": fresh})


@dataclass(frozen=True, slots=True)
class Status:
    """What a shard says after a micro-batch.

    Attributes:
        tick: what it was told.
        open_pairs, late_pairs, answered_pairs: of (record, window), as the reducer counts them.
        classes: of records; what the mapper tells stands with one of its part's shards.
        compared: as the reducer counts them.
        shed_pairs: of the late ones those that were shed.
        kept: rows of its state, or some more.
        busy: seconds that the reducer took.
    """

    tick: Tick
    open_pairs: int
    late_pairs: int
    answered_pairs: int
    classes: Classes
    compared: int | None = None
    shed_pairs: int = 0
    kept: int = 0
    busy: float = 0.0

    @classmethod
    def of(cls, tick: Tick, reduced: Reduced, classes: Classes, busy: float) -> Self:
        """What a reducer's results are counted as."""
        classes.add(reduced.classes.message())
        pairs = reduced.open_pairs, reduced.late_pairs, reduced.answered_pairs
        more = reduced.compared, reduced.shed_pairs, reduced.kept
        return cls(tick, *pairs, classes, *more, busy)

    def to_json(self) -> dict[str, Any]:
        """Of plain values."""
        return {
            "tick": self.tick.to_json(),
            "pairs": [self.open_pairs, self.late_pairs, self.answered_pairs],
            "classes": self.classes.message(),
            "compared": self.compared,
            "shed": self.shed_pairs,
            "kept": self.kept,
            "busy": self.busy,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        classes = Classes(**content["classes"])
        told = Tick.from_json(content["tick"]), *content["pairs"]
        more = (content[name] for name in ("compared", "shed", "kept", "busy"))
        return cls(*told, classes, *more)
