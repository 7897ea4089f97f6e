"""Correction: the pairs of some records, as if all had come in order."""

import numpy as np
import pyarrow as pa

from penstock.columns.windows import panes_of
from penstock.kinds.frame import Asked
from penstock.kinds.join.reducer import pairs
from penstock.kinds.join.search import Pairs, Search
from penstock.kinds.join.spec import JoinSpec
from penstock.kinds.join.wire import AS_LEFT, AS_RIGHT, Wire
from penstock.kinds.side import Sides


def again(step: JoinSpec, records: pa.Table, asked: Asked, sides: Sides) -> pa.Table:
    """The pairs that a correction asks for."""
    search = Search(step, records, sides)
    left, right = search.rows(AS_LEFT), search.rows(AS_RIGHT)
    start = panes_of(step.window, search.times[left])
    left = left[(start >= asked.low) & (start < asked.high)]
    if asked.late is None:
        return pairs(Wire(step), records, search.pairs(left, right))
    late, theirs = (np.isin(search.seqs[rows], asked.late) for rows in (left, right))
    found = [search.pairs(left[late], right), search.pairs(left[~late], right[theirs])]
    return pairs(Wire(step), records, Pairs.of(found))
