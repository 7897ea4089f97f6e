"""Columns of lists, as the values that a quantile keeps: each row's in order."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Doubles, Longs
from penstock.core.measure import NUDGE


@dataclass(frozen=True, slots=True)
class Lists:
    """A list a row.

    Attributes:
        values: of all rows one after the other, shape (sum of counts,).
        counts: how many values each row has, shape (n,).
    """

    values: Longs | Doubles
    counts: Longs

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> "Lists":
        """From a column of lists without nulls."""
        values = np.asarray(pc.list_flatten(column))
        return cls(values, np.asarray(pc.list_value_length(column)).astype(np.int64))

    def grouped(self, ids: Longs, groups: int) -> pa.Array:
        """The lists of each group's rows as one, in order; ``ids``: each row's group."""
        of = np.repeat(ids, self.counts)
        order = np.lexsort((self.values, of))
        offsets = np.concatenate(([0], np.cumsum(np.bincount(of, minlength=groups))))
        return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(self.values[order]))

    def quantile(self, phi: float) -> Longs | Doubles:
        """Of each row's list, in order (``core.measure.rank``); any number for an empty one."""
        if not len(self.values):
            return np.zeros(len(self.counts), self.values.dtype)
        rank = np.maximum(1, np.ceil(phi * self.counts - NUDGE).astype(np.int64))
        at = np.cumsum(self.counts) - self.counts + rank - 1
        return self.values[np.minimum(at, len(self.values) - 1)]


Part = Longs | Doubles | Lists


def part_of(column: pa.ChunkedArray) -> Part:
    """A part column of a partials table."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return Lists.of(column)
    return np.asarray(column)
