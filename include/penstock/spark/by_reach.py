"""Corrections of steps whose answers are pairs near in time: late records, and what is near them.

A pair lies in the window of the record that it stands with, and in the chunk that holds this
window: so each is in one. What late records bring is added; nothing that was said becomes false,
but where everything is compared, what is false is taken back, as by every key.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.columns.arrays import Longs
from penstock.core.step import StepSpec
from penstock.kinds.frame import Asked, Span, frame_of
from penstock.lake.history.plans import CorrectionPlan
from penstock.lake.history.position import Position
from penstock.lake.storage.tables import Tables
from penstock.spark.by_key import ByKey
from penstock.spark.chunked import Chunk
from penstock.spark.chunks import Grid
from penstock.spark.prefix import Prefix
from penstock.spark.recompute import starts_of

MOST_SPANS = 8


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
            return merged([whole, self.partners(step, *whole)])
        spans = list[Span]()
        for start in np.unique(starts_of(chunk.wanted)).tolist():
            mine = (start, start + size)
            spans += [mine, self.partners(step, *mine), self.standing(step, *mine)]
        return merged(spans)


def merged(spans: Sequence[Span]) -> list[Span]:
    """The same as few spans; where there are many, those with the smallest gaps become one."""
    found = list[Span]()
    for since, until in sorted(spans):
        if found and since <= found[-1][1]:
            found[-1] = (found[-1][0], max(until, found[-1][1]))
        else:
            found.append((since, until))
    edges = np.array(found, np.int64).reshape(-1, 2)
    gaps: Longs = edges[1:, 0] - edges[:-1, 1]
    cuts = np.sort(np.argsort(-gaps, kind="stable")[: MOST_SPANS - 1])
    since, until = edges[:, 0][[0, *(cuts + 1)]], edges[:, 1][[*cuts, -1]]
    return [(int(a), int(b)) for a, b in zip(since, until, strict=True)]
