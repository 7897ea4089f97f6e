"""Which pairs of a micro-batch are alarms, and which of its records are late.

What both mean is a function of the log (``tests/lookup_model.py``); state and correction alike ask
here.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.expressions import true_for
from penstock.columns.groups import group
from penstock.columns.types import INSTANT
from penstock.kinds.keyed.kept import NEVER, Bools, Compared, Pool, compared
from penstock.kinds.keyed.runs import DROPPED, SEQ, TIME
from penstock.kinds.lookup.spec import APART, LookupSpec, Pairs

SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """What some records are about; rows are those of the pool.

    Attributes:
        new, old: of the alarms: the record that came later, and the one that came before.
        late: records whose other alarms, or what they refute, only the whole log can tell.
    """

    new: Longs
    old: Longs
    late: Longs


def found(step: LookupSpec, pool: pa.Table, rows: Longs) -> Found:
    """Compare some records with what is kept for them.

    Args:
        step: the look-up.
        pool: rows of runs: the records, and all that may be kept for them.
        rows: of the records.
    """
    of = _pool(step, pool)
    told = compared(of, rows, step.keep)
    if step.pairs is Pairs.CONSECUTIVE:
        return _beside(step, pool, rows, told)
    holds = matching(step, pool, told.new, told.old)
    reach = np.full(len(rows), NEVER)
    if step.reach is not None:
        reach = of.times[rows] - step.reach
    late = (told.dropped != NEVER) & (told.dropped >= reach)
    return Found(told.new[holds], told.old[holds], rows[late])


def _pool(step: LookupSpec, pool: pa.Table) -> Pool:
    ids, first = group([pool[key] for key in step.key_names], pool.num_rows)
    dropped = np.full(len(first), NEVER)
    np.maximum.at(dropped, ids, np.asarray(pool[DROPPED]))
    return Pool(ids, np.asarray(pool[TIME]), np.asarray(pool[SEQ]), dropped)


def _beside(step: LookupSpec, pool: pa.Table, rows: Longs, told: Compared) -> Found:
    """Alarms with the observation before a record, and with the one after it."""
    before, after = np.full(pool.num_rows, -1), np.full(pool.num_rows, -1)
    older = ~told.after
    before[told.new[older][::-1]] = told.old[older][::-1]  # of several the one nearest in time
    after[told.new[told.after]] = told.old[told.after]
    low, high = before[rows], after[rows]
    unknown = (low < 0) & (told.dropped != NEVER)
    between = np.flatnonzero((low >= 0) & (high >= 0))
    refutes = np.zeros(len(rows), bool)
    refutes[between] = matching(step, pool, *by_age(pool, low[between], high[between]))
    pairs = [(rows[mine], side[mine]) for side in (low, high)
             for mine in (np.flatnonzero((side >= 0) & ~unknown),)]  # fmt: skip
    new, old = (np.concatenate(some) for some in zip(*pairs, strict=True))
    holds = matching(step, pool, new, old)
    return Found(new[holds], old[holds], rows[unknown | refutes])


def by_age(pool: pa.Table, some: Longs, others: Longs) -> tuple[Longs, Longs]:
    """Of pairs those that came later, and those that came before."""
    seqs = np.asarray(pool[SEQ])
    later = seqs[some] > seqs[others]
    return np.where(later, some, others), np.where(later, others, some)


def matching(step: LookupSpec, pool: pa.Table, new: Longs, old: Longs) -> Bools:
    """For which pairs the condition holds."""
    times = np.asarray(pool[TIME])
    apart = np.abs(times[new] - times[old])
    columns = {APART.name: pa.chunked_array([apart / SECOND])}
    for side, rows in (("new", pa.array(new)), ("old", pa.array(old))):
        for column in step.observed:
            columns[f"{side}.{column.name}"] = pool[column.name].take(rows)
        columns[f"{side}.event_time"] = pc.cast(pool[TIME].take(rows), INSTANT)
    holds: Bools = np.asarray(true_for(step.alarm, pa.table(columns)))
    if step.reach is not None:
        holds = holds & (apart <= step.reach)
    return holds
