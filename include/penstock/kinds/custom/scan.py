"""Reduces states key by key: to one, or to the state after each of them."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.columns.arrays import Longs

Merge: TypeAlias = Callable[[pa.Table, pa.Table], pa.Table]
"""Two states as one, row by row."""


def running(merge: Merge, states: pa.Table, first: Longs) -> pa.Table:
    """The state after each row: merged with all before it of its key.

    In so many rounds as the longest run of a key has bits. Source: Hillis and Steele.

    Args:
        merge: of states.
        states: those of a key one after the other, shape (n,).
        first: of each row the first of its key.
    """
    place, apart = np.arange(states.num_rows) - first, 1
    while len(rows := np.flatnonzero(place >= apart)):
        merged = merge(states.take(pa.array(rows - apart)), states.take(pa.array(rows)))
        states = _replaced(states, rows, merged)
        apart *= 2
    return states


def reduced(merge: Merge, states: pa.Table, ids: Longs) -> pa.Table:
    """One state for each key: neighbours are merged until none is left.

    Args:
        merge: of states.
        states: those of a key one after the other, shape (n,).
        ids: of each row the key, ascending.

    Returns:
        Shape (keys,), in the order of the keys.
    """
    while len(ids) and (ids[1:] == ids[:-1]).any():
        starts = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
        place = np.arange(len(ids)) - np.repeat(starts, np.diff(starts, append=len(ids)))
        left = np.flatnonzero(place % 2 == 0)
        both = left[np.append(ids, ids[-1] + 1)[left + 1] == ids[left]]
        merged = merge(states.take(pa.array(both)), states.take(pa.array(both + 1)))
        states = _replaced(states, both, merged).take(pa.array(left))
        ids = ids[left]
    return states


def _replaced(states: pa.Table, rows: Longs, others: pa.Table) -> pa.Table:
    which = np.arange(states.num_rows)
    which[rows] = states.num_rows + np.arange(len(rows))
    return pa.concat_tables([states, others]).take(pa.array(which)).combine_chunks()
