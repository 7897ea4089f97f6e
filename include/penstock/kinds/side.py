"""Side data beside rows: which content counts is told by the position of each row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.columns.arrays import Longs
from penstock.columns.groups import group
from penstock.core.side import SideJoin, SideTable


@dataclass(frozen=True, slots=True)
class Version:
    """What a side table holds for some positions of the log.

    Attributes:
        first: position from which on it holds; the first version holds before it, too.
        rows: with the columns of the table.
    """

    first: int
    rows: pa.Table


Sides: TypeAlias = Callable[[SideTable, Longs], Sequence[Version]]
"""The versions of a side table, in order, that hold at some positions."""


def version_of(seqs: Longs, began: Longs) -> Longs:
    """Which version holds at each position, of those that began at some; the first before, too."""
    found: Longs = np.maximum(np.searchsorted(began, seqs, "right") - 1, 0)
    return found


def looked_up(
    join: SideJoin, beside: Mapping[str, pa.ChunkedArray], seqs: Longs, sides: Sides
) -> dict[str, pa.ChunkedArray]:
    """What a side table says of some rows; null where none of its rows has their keys.

    Args:
        join: which table, by which columns.
        beside: the columns of the rows.
        seqs: of each row the position whose version counts, shape (n,), n > 0.
        sides: side data.
    """
    versions = sides(join.table, seqs)
    which = version_of(seqs, np.array([version.first for version in versions]))
    found, starts = np.full(len(seqs), -1), np.cumsum([0, *(v.rows.num_rows for v in versions)])
    for number in np.unique(which):
        mine = np.flatnonzero(which == number)
        wanted = [beside[column].take(pa.array(mine)) for _, column in join.on]
        at = _rows_of(join, versions[number].rows, wanted)
        found[mine] = np.where(at < 0, -1, at + starts[number])
    rows = pa.concat_tables([version.rows for version in versions])
    at = pa.array(found, mask=found < 0)
    return {c.name: rows[c.name.rpartition(".")[2]].take(at) for c in join.found}


def _rows_of(join: SideJoin, rows: pa.Table, wanted: Sequence[pa.ChunkedArray]) -> Longs:
    """Of each combination of keys the row that has it; -1: none, or a key is null."""
    there, count = rows.num_rows, len(wanted[0])
    columns = [
        pa.chunked_array([*rows[key].chunks, *_plain(some).chunks], rows[key].type)
        for key, some in zip(join.keys, wanted, strict=True)
    ]
    ids, first = group(columns, there + count)
    row_of = np.where(first < there, first, -1)
    found: Longs = row_of[ids[there:]]
    for column in wanted:
        if column.null_count:
            found[np.asarray(column.is_null())] = -1
    return found


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
