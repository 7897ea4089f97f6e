"""How the newest records of some keys lie in columns, and how those of several parts merge."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.types import ARROW, INSTANT
from penstock.kinds.latest.spec import WHEN, WHICH, LatestSpec
from penstock.kinds.windowed.layout import Layout, Part

NEWEST_US, NEWEST_SEQ = "newest_us", "newest_seq"


@dataclass(frozen=True)
class LatestLayout(Layout[LatestSpec]):
    """The newest record: its instant, its position, and what is kept of it."""

    @cached_property
    def fields(self) -> list[pa.Field]:
        """Instant (us), position, and the kept columns; instants among them as they are."""
        whole = [pa.field(name, pa.int64()) for name in (NEWEST_US, NEWEST_SEQ)]
        kept = enumerate(self.step.kept)
        return [*whole, *(pa.field(f"kept_{i}", ARROW[column.type]) for i, column in kept)]

    def parts_of(self, records: pa.Table) -> dict[str, Part]:
        """Each record, which is the newest of itself."""
        kept = {f"kept_{i}": records[column.name] for i, column in enumerate(self.step.kept)}
        times = pc.cast(records[WHEN.name], pa.int64())
        return {NEWEST_US: times, NEWEST_SEQ: records[WHICH.name], **kept}

    def part_in(self, column: pa.ChunkedArray) -> Part:
        """What is kept may be null, so it stays in Arrow."""
        return column

    def merged(
        self,
        parts: Mapping[str, Part],
        ids: Longs,
        groups: int,  # noqa: ARG002  the frame's
    ) -> dict[str, Part]:
        """The newest of each group; of two at one instant the one that came later."""
        seqs, times = (np.asarray(parts[name]) for name in (NEWEST_SEQ, NEWEST_US))
        order = np.lexsort((seqs, times, ids))
        last = order[np.flatnonzero(np.diff(ids[order], append=-1))]
        rows = pa.array(last)
        return {name: column.take(rows) for name, column in parts.items()}

    def finish(self, table: pa.Table) -> dict[str, pa.Array]:
        """The newest record's instant, position and kept columns."""
        kept = {c.name: table[f"kept_{i}"] for i, c in enumerate(self.step.kept)}
        when = pc.cast(table[NEWEST_US], INSTANT)
        return {WHEN.name: when, WHICH.name: table[NEWEST_SEQ], **kept}


LAYOUT = LatestLayout
