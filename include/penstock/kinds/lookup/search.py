"""Which pairs of a micro-batch are alarms, and which of its records are late.

What both mean is a function of the log (``tests/lookup_model.py``); state and correction alike ask
here.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.columns.arrays import Bools, Longs
from penstock.columns.expressions import true_for
from penstock.columns.groups import group
from penstock.columns.types import ARROW
from penstock.kinds.keyed.kept import NEVER, Compared, Pool, compared
from penstock.kinds.keyed.runs import SEQ, TIME
from penstock.kinds.lookup.spec import APART, EARLIER, LATER, NEW, OLD, LookupSpec, Pairs
from penstock.kinds.lookup.trimmed import DROPPED
from penstock.kinds.side import Sides, looked_up

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


class Search:
    """Compares records of a pool.

    Args:
        step: the look-up.
        pool: rows of runs: the records, and all that may be kept for them.
        sides: side data.
    """

    def __init__(self, step: LookupSpec, pool: pa.Table, sides: Sides) -> None:
        self.step, self.pool, self.sides = step, pool, sides
        self.times, self.seqs = np.asarray(pool[TIME]), np.asarray(pool[SEQ])

    def found(self, rows: Longs) -> Found:
        """Compare some records, by their rows, with what is kept for them."""
        step, of = self.step, self._known()
        told = compared(of, rows, step.keep)
        if step.pairs is Pairs.CONSECUTIVE:
            return self._beside(rows, told)
        holds = self.matching(told.new, told.old)
        reach = np.full(len(rows), NEVER)
        if step.reach is not None:
            reach = of.times[rows] - step.reach
        late = (told.dropped != NEVER) & (told.dropped >= reach)
        return Found(told.new[holds], told.old[holds], rows[late])

    def _known(self) -> Pool:
        pool = self.pool
        ids, first = group([pool[key] for key in self.step.key_names], pool.num_rows)
        dropped = np.full(len(first), NEVER)
        np.maximum.at(dropped, ids, np.asarray(pool[DROPPED]))
        return Pool(ids, self.times, self.seqs, dropped)

    def _beside(self, rows: Longs, told: Compared) -> Found:
        """Alarms with the observation before a record, and with the one after it."""
        count = self.pool.num_rows
        before, after = np.full(count, -1), np.full(count, -1)
        older = ~told.after
        before[told.new[older][::-1]] = told.old[older][::-1]  # of several the one nearest in time
        after[told.new[told.after]] = told.old[told.after]
        low, high = before[rows], after[rows]
        unknown = (low < 0) & (told.dropped != NEVER)
        between = np.flatnonzero((low >= 0) & (high >= 0))
        refutes = np.zeros(len(rows), bool)
        refutes[between] = self.matching(*self.by_age(low[between], high[between]))
        pairs = [(rows[mine], side[mine]) for side in (low, high)
                 for mine in (np.flatnonzero((side >= 0) & ~unknown),)]  # fmt: skip
        new, old = (np.concatenate(some) for some in zip(*pairs, strict=True))
        holds = self.matching(new, old)
        return Found(new[holds], old[holds], rows[unknown | refutes])

    def by_age(self, some: Longs, others: Longs) -> tuple[Longs, Longs]:
        """Of pairs those that came later, and those that came before."""
        later = self.seqs[some] > self.seqs[others]
        return np.where(later, some, others), np.where(later, others, some)

    def matching(self, new: Longs, old: Longs) -> Bools:
        """For which pairs the condition holds, by the side data in force for the later record."""
        step = self.step
        if not len(new):
            return np.zeros(0, bool)
        forward = self.times[new] >= self.times[old]
        apart = np.abs(self.times[new] - self.times[old])
        columns = {APART.name: pa.chunked_array([apart / SECOND])}
        both = {NEW: (new, new), OLD: (old, old), EARLIER: (old, new), LATER: (new, old)}
        for side, either in both.items():
            if asked := step.compared(side):
                rows = pa.array(np.where(forward, *either))
                for column in asked:
                    values = self.pool[column.name].take(rows)
                    columns[f"{side}.{column.name}"] = values.cast(ARROW[column.type])
        for join in step.sides:
            columns |= looked_up(join, columns, self.seqs[new], self.sides)
        holds: Bools = np.asarray(true_for(step.alarm, pa.table(columns)))
        if step.reach is not None:
            holds = holds & (apart <= step.reach)
        return holds
