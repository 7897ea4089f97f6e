"""Corrections of steps whose answers are pairs near in time: late records, and what is near them.

A pair lies in the window of the record that it stands with, and in the chunk that holds this
window: so each is in one. What late records bring is added; nothing that was said becomes false,
but where everything is compared, what is false is taken back, as by every key.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.core.step import StepSpec
from penstock.kinds.frame import Asked, Span, frame_of
from penstock.lake.history.correction import few, spans_of
from penstock.lake.history.plans import CorrectionPlan
from penstock.lake.history.position import Position
from penstock.lake.storage.tables import Tables
from penstock.spark.by_key import ByKey
from penstock.spark.chunked import Chunk
from penstock.spark.chunks import Grid
from penstock.spark.prefix import Prefix
from penstock.spark.recompute import starts_of


class ByReach(ByKey):
    """The pairs of late records, or all pairs."""

    def __init__(self, prefix: Prefix, tables: Tables, step: StepSpec) -> None:
        super().__init__(prefix, tables, step)
        near = frame_of(step).near
        assert near is not None  # noqa: S101  of a step by reach
        self.partners, self.standing = near

    def chunks(self, plan: CorrectionPlan, touched: pa.Table | None) -> Sequence[Chunk]:
        """Ranges of windows, each of about as many records."""
        size, extent = self.step.window.size, self.prefix.extent(plan)
        if extent is None:
            return []
        low, high = extent[0] - size, extent[1] + 1
        if touched is None:
            low = low if plan.since is None else max(low, plan.since)
            high = high if plan.until is None else min(high, plan.until)
        elif not touched.num_rows:
            return []
        else:
            first, last = (int(edge) for edge in np.sort(starts_of(touched))[[0, -1]])
            other = self.standing(self.step, first, last + size)
            low = max(low, min(first, other[0] - size))
            high = min(high, max(last + 1, other[1]))
        grid = Grid.over(low, high, self.step.window)
        if not grid.count:
            return []
        ends = grid.chunks(*self.prefix.counted(plan, grid, [(grid.low, grid.until)]), None)
        return [Chunk(a, b, self._bearing(touched, a, b)) for a, b in ends]

    def _bearing(self, late: pa.Table | None, low: int, high: int) -> pa.Table | None:
        """Of late records those that may be in a pair of some windows."""
        if late is None:
            return None
        size, start = self.step.window.size, starts_of(late)
        since, until = self.partners(self.step, low, high - 1 + size)
        own = (start >= low) & (start < high)
        return late.filter(pa.array(own | ((start + size > since) & (start < until))))

    def again(
        self, plan: CorrectionPlan, chunk: Chunk, at: Position | None
    ) -> tuple[pa.Table, pa.Table | None]:
        """As ``Chunked`` says."""
        keys, late = None, None
        if chunk.wanted is not None:
            late = np.sort(np.asarray(chunk.wanted["last_seq"]))
            keys = np.unique(self._hashes(chunk.wanted)) if self.step.keys else None
        asked = Asked(*chunk.ends, None, plan.watermark, plan.after_seq, plan.answered, late)
        found = self.prefix.answers(plan, asked, self._spans(chunk), keys)
        known = self._known(plan, at, chunk, keys)
        if late is None:
            return self._taken_back(found, known), known
        known = known.join(self._named(found), [*self.step.identity_names], join_type="left semi")
        return found, known

    def _named(self, found: pa.Table) -> pa.Table:
        """What some pairs are known by, as answers have it."""
        return pa.table(self.wire.known_by(found))

    def _spans(self, chunk: Chunk) -> list[Span]:
        """Where records lie that a chunk may need."""
        step, size = self.step, self.step.window.size
        if chunk.wanted is None:
            whole = (chunk.low, chunk.high - 1 + size)
            spans = [whole, self.partners(step, *whole)]
        else:
            late = spans_of(starts_of(chunk.wanted), size)
            beside = ((self.partners(step, *mine), self.standing(step, *mine)) for mine in late)
            spans = [*late, *(span for both in beside for span in both)]
        return few(*np.array(spans, np.int64).T)
