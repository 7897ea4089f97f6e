"""Which pairs there are among some records.

Records of one key that lie near in time are found by bisection; state and correction ask here
alike.
"""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.columns.arrays import Bools, Longs
from penstock.columns.expressions import true_for
from penstock.columns.groups import group
from penstock.columns.types import ARROW
from penstock.kinds.join.reach import back
from penstock.kinds.join.spec import LEFT, RIGHT, JoinSpec
from penstock.kinds.join.wire import AS_LEFT, AS_RIGHT, ROLES
from penstock.kinds.keyed.runs import SEQ, TIME

TOGETHER = 1 << 20
"""So many candidates are looked at at once."""
Pairs: TypeAlias = tuple[Longs, Longs]
"""Rows of left records, and of the right ones beside them."""


class Search:
    """Compares records of a pool.

    Args:
        step: the join.
        pool: records as runs hold them.

    Attributes:
        times, seqs: of the pool.
        whole: whether a record has all keys: others have no partner.
        compared: candidates that were looked at.
    """

    def __init__(self, step: JoinSpec, pool: pa.Table) -> None:
        self.step, self.pool = step, pool
        self.times, self.seqs, self.roles = (np.asarray(pool[n]) for n in (TIME, SEQ, ROLES))
        self.keys, _ = group([pool[key] for key in step.key_names], pool.num_rows)
        self.whole = np.ones(pool.num_rows, bool)
        for key in step.key_names:
            self.whole &= np.asarray(pool[key].is_valid())
        self.compared = 0

    def rows(self, role: int) -> Longs:
        """Of records in a role that may have a partner."""
        return np.flatnonzero(self.whole & ((self.roles & role) > 0))

    def every(self) -> Pairs:
        """All pairs of the pool."""
        return self.pairs(self.rows(AS_LEFT), self.rows(AS_RIGHT))

    def pairs(self, left: Longs, right: Longs) -> Pairs:
        """Pairs of some records for which the condition holds."""
        found = [(left[:0], right[:0])]
        for some, others in self._near(left, right):
            self.compared += len(some)
            holds = self._holds(some, others)
            found.append((some[holds], others[holds]))
        lefts, rights = zip(*found, strict=True)
        return np.concatenate(lefts), np.concatenate(rights)

    def _near(self, left: Longs, right: Longs) -> Iterator[Pairs]:
        """Candidates: equal keys, near in time, and not one record twice."""
        instants = np.unique(self.times[right])
        there = np.searchsorted(instants, self.times[right])
        base = len(instants) + 1
        codes = self.keys[right] * base + there
        order = np.argsort(codes, kind="stable")
        codes, right = codes[order], right[order]
        aim, mine = back(self.times[left], self.step.shift), self.keys[left] * base
        first = np.searchsorted(instants, aim - self.step.before)
        last = np.searchsorted(instants, aim + self.step.after, "right")
        low, high = (np.searchsorted(codes, mine + each) for each in (first, last))
        counts = high - low
        ends = np.cumsum(counts)
        begin = 0
        while begin < len(left):
            done = ends[begin - 1] if begin else 0
            end = max(int(np.searchsorted(ends, done + TOGETHER, "right")), begin + 1)
            count = counts[begin:end]
            some = np.repeat(left[begin:end], count)
            offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            others = right[np.repeat(low[begin:end], count) + offset]
            two = some != others
            yield some[two], others[two]
            begin = end

    def _holds(self, left: Longs, right: Longs) -> Bools:
        columns = {"": pa.chunked_array([left])}
        for side, rows in ((LEFT, left), (RIGHT, right)):
            for column in self.step.compared(side):
                values = self.pool[column.name].take(pa.array(rows))
                columns[f"{side}.{column.name}"] = values.cast(ARROW[column.type])
        holds: Bools = np.asarray(true_for(self.step.condition, pa.table(columns)))
        return holds
