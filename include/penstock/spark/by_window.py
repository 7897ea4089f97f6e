"""Corrections of steps whose answers hang on the records of their window: event time is cut."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.columns.arrays import Longs
from penstock.columns.types import instants
from penstock.columns.windows import each_window
from penstock.core.step import StepSpec
from penstock.kinds.frame import Asked, frame_of
from penstock.lake.history.correction import spans_of, within
from penstock.lake.history.plans import CorrectionPlan
from penstock.lake.history.position import Position
from penstock.lake.history.view import answers_at, newest
from penstock.lake.storage.read import Spans
from penstock.lake.storage.tables import Tables
from penstock.spark.chunked import Chunk, on_the_way, without
from penstock.spark.chunks import Grid
from penstock.spark.prefix import Prefix
from penstock.spark.recompute import starts_of


class ByWindow:
    """The windows and keys that late records touched, or all windows of a range."""

    unchanged = True

    def __init__(self, prefix: Prefix, tables: Tables, step: StepSpec) -> None:
        self.prefix, self.tables, self.step = prefix, tables, step
        self.wire = frame_of(step).wire(step)

    def chunks(self, plan: CorrectionPlan, touched: pa.Table | None) -> Sequence[Chunk]:
        """Ranges of window starts (``penstock.spark.chunks``)."""
        wanted, starts = touched, None
        if wanted is None and plan.base is not None:
            wanted = within(self._brought(plan), plan.since, plan.until)
        if wanted is None:
            low, high = self._range(plan)
        else:
            starts = np.unique(starts_of(wanted))
            low, high = (int(starts[0]), int(starts[-1]) + 1) if len(starts) else (0, 0)
        grid = Grid.over(low, high, self.step.window)
        if not grid.count:
            return []
        spans = [(grid.low, grid.until)]
        if starts is not None:
            spans = spans_of(starts, self.step.window.size)
        ends = grid.chunks(*self.prefix.counted(plan, grid, spans), starts)
        return [Chunk(a, b, None if wanted is None else within(wanted, a, b)) for a, b in ends]

    def again(
        self, plan: CorrectionPlan, chunk: Chunk, at: Position | None
    ) -> tuple[pa.Table, pa.Table | None]:
        """As ``Chunked`` says; of a history nothing stood before."""
        starts = None if chunk.wanted is None else np.unique(starts_of(chunk.wanted))
        asked = Asked(*chunk.ends, starts, plan.watermark, plan.after_seq, plan.answered)
        found = self.prefix.answers(plan, asked, self._spans(plan, chunk, starts), None)
        if chunk.wanted is not None and plan.by_touch:
            found = self._of(found, chunk.wanted)
        return found, None if at is None else self._known(plan, at, chunk, starts)

    def _brought(self, plan: CorrectionPlan) -> pa.Table:
        """``window_start`` of what a history may answer beside its base.

        Windows that hold a record after the base's, or ended after it; of which keys is left to
        the reducer.
        """
        window = self.step.window
        starts = np.unique(each_window(window, self.prefix.panes_since(plan))[1])
        return pa.table({"window_start": instants(starts[starts + window.size <= plan.watermark])})

    def _range(self, plan: CorrectionPlan) -> tuple[int, int]:
        """Window starts [low, high) that a plan over the whole log means, us."""
        size, found = self.step.window.size, self.prefix.extent(plan)
        if found is None:
            return 0, 0
        low, high = found[0] - size, min(found[1], plan.watermark - size) + 1
        low = low if plan.since is None else max(low, plan.since)
        return low, (high if plan.until is None else min(high, plan.until))

    def _known(
        self, plan: CorrectionPlan, at: Position, chunk: Chunk, starts: Longs | None
    ) -> pa.Table:
        """The answers in force of a chunk's windows without the plan's, as it began to run."""
        spans = [chunk.ends] if starts is None else spans_of(starts, 1)
        inside = Spans("window_start", tuple((a, b - 1) for a, b in spans))
        rows = answers_at(self.tables, self.step, at, inside)
        return newest(without(rows, plan), self.step)

    def _spans(
        self, plan: CorrectionPlan, chunk: Chunk, starts: Longs | None
    ) -> list[tuple[int, int]]:
        """The event times [since, until) of a chunk's windows, us."""
        size = self.step.window.size
        spans = [(chunk.low, chunk.high + size)] if starts is None else spans_of(starts, size)
        return [(since, max(min(until, plan.watermark), since)) for since, until in spans]

    def _of(self, found: pa.Table, wanted: pa.Table) -> pa.Table:
        """Answers of some windows and keys."""
        names = ["window_start", *self.step.identity_names]
        wanted = on_the_way(self.wire, wanted)
        at = pa.array(np.arange(found.num_rows))  # a join cannot carry lists
        rows = found.select(names).append_column("row", at)
        rows = rows.join(wanted.select(names), names, join_type="left semi")
        return found.take(rows["row"])
