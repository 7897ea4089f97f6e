"""What a correction computes again, and what stands there: the seam between kinds of steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.kinds.frame import Wire
from penstock.lake.history.plans import CorrectionPlan
from penstock.lake.history.position import LATE, Position


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a plan whose answers are committed together.

    Attributes:
        low, high: answers of windows that start in [low, high), us.
        wanted: of these only those of some windows and keys; none: all.
    """

    low: int
    high: int
    wanted: pa.Table | None

    @property
    def ends(self) -> tuple[int, int]:
        """Of its windows."""
        return self.low, self.high


class Chunked(Protocol):
    """The plans of a step, chunk by chunk.

    Attributes:
        unchanged: whether an answer is told again that is as it was.
    """

    unchanged: bool

    def chunks(self, plan: CorrectionPlan, touched: pa.Table | None) -> Sequence[Chunk]:
        """A function of the plan alone.

        Args:
            plan: to be cut.
            touched: windows and keys that its late records touched; none: it means all.
        """

    def again(
        self, plan: CorrectionPlan, chunk: Chunk, at: Position | None
    ) -> tuple[pa.Table, pa.Table | None]:
        """A chunk's answers on their way, and those in force without the plan's.

        Args:
            plan: the plan.
            chunk: of it.
            at: where the step stood when the plan began to run; none: it is a history.
        """


def without(rows: pa.Table, plan: CorrectionPlan) -> pa.Table:
    """Rows of ``answers`` that are not a plan's."""
    return rows.filter(~((pc.field("plan") == plan.number) & (pc.field("reason") == LATE)))


def on_the_way(wire: Wire, rows: pa.Table) -> pa.Table:
    """Rows with instants as whole microseconds, as what is computed again has them."""
    rows = wire.to_inner(rows)
    at = rows.schema.get_field_index("window_start")
    return rows.set_column(at, "window_start", pc.cast(rows["window_start"], pa.int64()))
