"""Correction: the alarms of some keys from all their records."""

import numpy as np
import pyarrow as pa

from penstock.columns.arrays import Longs
from penstock.columns.groups import group
from penstock.kinds.frame import Asked
from penstock.kinds.keyed.runs import SEQ, TIME
from penstock.kinds.lookup.reducer import alarms
from penstock.kinds.lookup.search import Found, Search
from penstock.kinds.lookup.spec import LookupSpec, Pairs
from penstock.kinds.lookup.wire import Wire
from penstock.kinds.side import Sides


def again(step: LookupSpec, observations: pa.Table, asked: Asked, sides: Sides) -> pa.Table:
    """The alarms that a correction asks for, as if all records had come in order."""
    new, old = _pairs(step, Search(step, observations, sides))
    found = alarms(Wire(step), observations, Found(new, old, new[:0]))
    start = np.asarray(found["window_start"])
    return found.filter(pa.array((start >= asked.low) & (start < asked.high)))


def _pairs(step: LookupSpec, search: Search) -> tuple[Longs, Longs]:
    """All pairs of a pool for which the condition holds: who came later, and who before."""
    pool = search.pool
    ids, _ = group([pool[key] for key in step.key_names], pool.num_rows)
    times, seqs = np.asarray(pool[TIME]), np.asarray(pool[SEQ])
    order = np.lexsort((seqs, times, ids))
    ids, times = ids[order], times[order]
    pairs = [(order[:0], order[:0])]
    at, apart = np.arange(len(order)), 0
    while len(at):
        apart += 1
        at = at[at + apart < len(order)]
        near = ids[at] == ids[at + apart]
        if step.reach is not None:
            near &= times[at + apart] - times[at] <= step.reach
        at = at[near]
        new, old = search.by_age(order[at + apart], order[at])
        holds = search.matching(new, old)
        pairs.append((new[holds], old[holds]))
        if step.pairs is Pairs.CONSECUTIVE:
            break
    new, old = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return new, old
