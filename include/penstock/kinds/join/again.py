"""Correction: the pairs of some records, as if all had come in order."""

import numpy as np
import pyarrow as pa

from penstock.kinds.frame import Asked
from penstock.kinds.join.reducer import pairs
from penstock.kinds.join.search import Search
from penstock.kinds.join.spec import JoinSpec
from penstock.kinds.join.wire import Wire
from penstock.kinds.side import Sides


def again(step: JoinSpec, records: pa.Table, asked: Asked, sides: Sides) -> pa.Table:
    """The pairs that a correction asks for."""
    del sides
    found = pairs(Wire(step), records, Search(step, records).every())
    start = np.asarray(found["window_start"])
    return found.filter(pa.array((start >= asked.low) & (start < asked.high)))
