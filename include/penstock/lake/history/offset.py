"""What a micro-batch ends at: where each step of a query stands, as Spark keeps it.

All that a replay needs is in it: watermarks are never folded twice for one micro-batch.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from penstock.core.batch_size import BatchSize
from penstock.core.slack import WatermarkState

FORM = 12
"""Of what a checkpoint holds: offsets and the reducer's state. Raise it with any change of either:
a checkpoint of another form is not gone on with, but rebuilt from the log."""


@dataclass(frozen=True, slots=True)
class StepOffset:
    """Where one step stands.

    Attributes:
        generation: of the step.
        number: of the generation's micro-batch that ends here, from 0; -1: none has.
        block: the next block.
        seq: last position before that block; -1: none.
        state: of the fold after that position.
        controller: of the slack there; empty: it has seen nothing, or needs none.
        shards: ids of the keys that hold the step's state.
        marks: watermarks of the micro-batch at which windows close, as text.
        coverage: of the windows that the micro-batch measured; none: there was none.
        moves: ids of the keys that hold it from the next micro-batch on; empty: the same.
    """

    generation: int
    number: int
    block: int
    seq: int
    state: WatermarkState
    controller: str
    shards: tuple[int, ...]
    marks: str = ""
    coverage: dict[str, Any] | None = None
    moves: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Of plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read back what ``to_json`` gave."""
        own = {"state": WatermarkState(**content["state"])}
        ids = {name: tuple(content[name]) for name in ("shards", "moves")}
        return cls(**{**content, **own, **ids})


@dataclass(frozen=True, slots=True)
class Offset:
    """Where the steps of a query stand.

    Attributes:
        steps: by name; one that has no micro-batch yet is not there.
        size: by which the micro-batch that ends here was cut; none: it is the first of the query.
        reason: for another size than before; empty: it is the same.
        shards: into how many the state of a step is cut that says nothing of it; 0: none began.
    """

    steps: Mapping[str, StepOffset] = field(default_factory=dict)
    size: BatchSize | None = None
    reason: str = ""
    shards: int = 0

    def of(self, step: str, generation: int) -> StepOffset | None:
        """Where a generation stands; none: it has not begun here."""
        found = self.steps.get(step)
        return found if found is not None and found.generation == generation else None

    def to_json(self) -> dict[str, Any]:
        """Of plain values."""
        steps = {name: step.to_json() for name, step in self.steps.items()}
        size = None if self.size is None else self.size.to_json()
        more = {"reason": self.reason, "shards": self.shards}
        return {"form": FORM, "steps": steps, "size": size, **more}

    @classmethod
    def from_json(cls, content: "str | Mapping[str, Any]") -> Self:
        """Read back what ``to_json`` gave, as text or not.

        Raises:
            ValueError: it is no offset, or of another form.
        """
        found = json.loads(content) if isinstance(content, str) else content
        if not isinstance(found, Mapping) or found.get("form") != FORM:
            raise ValueError(f"no offset of form {FORM}")
        steps = {name: StepOffset.from_json(step) for name, step in found["steps"].items()}
        size = None if found["size"] is None else BatchSize.from_json(found["size"])
        return cls(steps, size, found["reason"], found["shards"])
