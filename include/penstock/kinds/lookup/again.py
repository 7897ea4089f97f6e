"""Correction: the alarms of some keys from all their records."""

from collections.abc import Sequence
from typing import TypeAlias

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

Pair: TypeAlias = tuple[Longs, Longs]
"""Rows of the records that came later, and of those before them."""
TOGETHER = 262_144
"""So many pairs are judged at once: what they look up is found once for all of them."""


def again(step: LookupSpec, observations: pa.Table, asked: Asked, sides: Sides) -> pa.Table:
    """The alarms that a correction asks for, as if all records had come in order."""
    new, old = _pairs(step, Search(step, observations, sides))
    found = alarms(Wire(step), observations, Found(new, old, new[:0]))
    start = np.asarray(found["window_start"])
    return found.filter(pa.array((start >= asked.low) & (start < asked.high)))


def _pairs(step: LookupSpec, search: Search) -> Pair:
    """All pairs of a pool for which the condition holds: who came later, and who before."""
    pool = search.pool
    ids, _ = group([pool[key] for key in step.key_names], pool.num_rows)
    times, seqs = np.asarray(pool[TIME]), np.asarray(pool[SEQ])
    order = np.lexsort((seqs, times, ids))
    ids, times = ids[order], times[order]
    pairs, waiting = list[Pair](), [(order[:0], order[:0])]
    at, apart = np.arange(len(order)), 0
    while len(at):
        apart += 1
        at = at[at + apart < len(order)]
        near = ids[at] == ids[at + apart]
        if step.reach is not None:
            near &= times[at + apart] - times[at] <= step.reach
        at = at[near]
        waiting.append(search.by_age(order[at + apart], order[at]))
        if step.pairs is Pairs.CONSECUTIVE:
            break
        if sum(len(new) for new, _ in waiting) >= TOGETHER:
            pairs.append(_holding(search, waiting))
            waiting = []
    return _joined([*pairs, *([_holding(search, waiting)] if waiting else [])])


def _holding(search: Search, pairs: Sequence[Pair]) -> Pair:
    """Of some pairs those for which the condition holds."""
    new, old = _joined(pairs)
    holds = search.matching(new, old)
    return new[holds], old[holds]


def _joined(pairs: Sequence[Pair]) -> Pair:
    new, old = (np.concatenate(side) for side in zip(*pairs, strict=True))
    return new, old
