"""Which pairs there are among some records.

State and correction ask here alike. Candidates are found by keys, by time, and by what the
condition gives (``index``); then it is asked of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isinf
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Bools, Longs
from penstock.columns.expressions import evaluate, true_for
from penstock.columns.groups import group
from penstock.columns.types import ARROW
from penstock.core.expression import Expression, columns_of
from penstock.kinds.join.candidates import Doubles, Runs, Sorted, numbers
from penstock.kinds.join.queries import in_force, index_with, tags
from penstock.kinds.join.reach import back
from penstock.kinds.join.spec import LEFT, RIGHT, JoinSpec
from penstock.kinds.join.wire import ROLES
from penstock.kinds.keyed.runs import SEQ, TIME
from penstock.kinds.side import Sides

TOGETHER = 1 << 20
"""So many candidates are looked at at once."""
WIDER = 2.0**-50
"""Of a range of numbers, by their size: the condition itself decides at its edges."""
Both: TypeAlias = tuple[Longs, Longs]
"""Rows of left records, and of the right ones beside them."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of a pool.

    Attributes:
        left, right: rows of both records.
        said: queries that each satisfies; of a join without queries none.
    """

    left: Longs
    right: Longs
    said: pa.ChunkedArray | None

    @classmethod
    def of(cls, parts: Sequence["Pairs"]) -> "Pairs":
        """All of them."""
        left, right = (np.concatenate([getattr(p, n) for p in parts]) for n in ("left", "right"))
        said = [part.said for part in parts if part.said is not None]
        chunks = [chunk for each in said for chunk in each.chunks]
        return cls(left, right, pa.chunked_array(chunks, pa.string()) if said else None)

    def where(self, kept: Bools) -> "Pairs":
        """Some of them."""
        said = None if self.said is None else self.said.filter(pa.array(kept))
        return Pairs(self.left[kept], self.right[kept], said)


class Search:
    """Compares records of a pool.

    Args:
        step: the join.
        pool: records as runs hold them.
        sides: side data: its queries.

    Attributes:
        times, seqs: of the pool.
        whole: whether a record has all keys: others have no partner.
        compared: candidates that were looked at.
    """

    def __init__(self, step: JoinSpec, pool: pa.Table, sides: Sides) -> None:
        self.step, self.pool = step, pool
        self.times, self.seqs, self.roles = (np.asarray(pool[n]) for n in (TIME, SEQ, ROLES))
        self.keys, _ = group([pool[key] for key in step.key_names], pool.num_rows)
        self.whole = np.ones(pool.num_rows, bool)
        for key in step.key_names:
            self.whole &= np.asarray(pool[key].is_valid())
        self.asked = in_force(step, self.seqs, sides)
        self.index = index_with(step, self.asked)
        conditions = (step.condition, *(c for each in self.asked for c in each.conditions))
        read = frozenset[str]().union(*map(columns_of, conditions))
        held = (*step.keys, *step.observed)
        self.needed = {s: [c for c in held if f"{s}.{c.name}" in read] for s in (LEFT, RIGHT)}
        self.compared = 0

    def rows(self, role: int) -> Longs:
        """Of records in a role that may have a partner."""
        return np.flatnonzero(self.whole & ((self.roles & role) > 0))

    def pairs(self, left: Longs, right: Longs) -> Pairs:
        """Pairs of some records for which the condition holds."""
        none = pa.chunked_array([], pa.string()) if self.step.queries else None
        found, sides = [Pairs(left[:0], right[:0], none)], self._sides(left, right)
        numbers = [self._by_row(side) for side in sides]
        for some, others in self._candidates(*sides):
            self.compared += len(some)
            two = (some != others) & self._in_range(numbers, some, others)
            found.append(self._holding(some[two], others[two]))
        return Pairs.of(found)

    def _by_row(self, side: "_Side") -> Doubles | None:
        """Numbers that have a range, by row of the pool."""
        if side.numbers is None:
            return None
        found = np.full(self.pool.num_rows, np.nan)
        found[side.all] = side.numbers
        return found

    def _in_range(self, numbers: Sequence[Doubles | None], left: Longs, right: Longs) -> Bools:
        """Of candidates, which lie in the range: one look, before all queries are asked."""
        one, other = numbers
        if one is None or other is None or self.index.ranged is None:
            return np.ones(len(left), bool)
        ours, apart = one[left], other[right] - one[left]
        found = np.zeros(len(left), bool)
        for low, high in self.index.ranged.apart:
            found |= (apart >= low - _spare(ours, low)) & (apart <= high + _spare(ours, high))
        return found

    def _sides(self, left: Longs, right: Longs) -> tuple["_Side", "_Side"]:
        """What is compared of each; without records of which something is null."""
        keys, kept = (
            (self.keys[left], self.keys[right]),
            [np.ones(len(r), bool) for r in (left, right)],
        )
        for each in self.index.equal:
            both = self._values(each.left, left), self._values(each.right, right)
            kept = [fits & np.asarray(one.is_valid()) for fits, one in zip(kept, both, strict=True)]
            keys = _equal(keys, both)
        some: list[Doubles | None] = [None, None]
        if (ranged := self.index.ranged) is not None:
            some = [self._numbers(ranged.left, left), self._numbers(ranged.right, right)]
            kept = [fits & np.isfinite(one) for fits, one in zip(kept, some, strict=True)]
        one = _Side(left, keys[0], back(self.times[left], self.step.shift), some[0])
        other = _Side(right, keys[1], self.times[right], some[1])
        return one.where(kept[0]), other.where(kept[1])

    def _numbers(self, what: Expression, rows: Longs) -> Doubles:
        """Of an expression, for some rows; NaN where it is null."""
        values = pc.cast(self._values(what, rows), pa.float64(), safe=False)
        return np.asarray(pc.fill_null(values, np.nan))

    def _values(self, what: Expression, rows: Longs) -> pa.ChunkedArray:
        """Of an expression over one side, for some rows."""
        names = {name: name.partition(".")[2] for name in columns_of(what)}
        some = self.pool.select([*{*names.values()}]).take(pa.array(rows))
        table = pa.table({name: some[column] for name, column in names.items()})
        found: pa.ChunkedArray = evaluate(what, table)
        return found

    def _candidates(self, left: "_Side", right: "_Side") -> Iterator[Both]:
        """The fewer are asked for, the more are looked up."""
        before, after = self.step.before, self.step.after
        swapped = len(right.all) < len(left.all)
        asked, known = (right, left) if swapped else (left, right)
        before, after = (after, before) if swapped else (before, after)
        since, until = asked.instants - before, asked.instants + after
        ranges = self._ranges(asked, swapped=swapped)
        known = known.where(_fits_any(known, since, until, ranges))
        there = Sorted(known.all, known.keys, known.instants, known.numbers)
        near = there.near(np.arange(len(asked.all)), asked.keys, since, until)
        for found in there.found(near, ranges):
            for places, of in _cut(found.runs):
                mine, theirs = asked.all[of], found.rows[places]
                yield (theirs, mine) if swapped else (mine, theirs)

    def _ranges(self, asked: "_Side", *, swapped: bool) -> list[tuple[Doubles, Doubles]] | None:
        """Of numbers, for each record; a little wider, as sums are rounded."""
        if asked.numbers is None or self.index.ranged is None:
            return None
        found = []
        apart = self.index.ranged.apart
        for edges in [(-high, -low) for low, high in reversed(apart)] if swapped else apart:
            spare = [_spare(asked.numbers, edge) for edge in edges]
            found.append((asked.numbers + edges[0] - spare[0], asked.numbers + edges[1] + spare[1]))
        return found

    def _holding(self, left: Longs, right: Longs) -> Pairs:
        """Of candidates those for which the condition holds, and a query if there are any."""
        columns = {"": pa.chunked_array([left])}
        for side, rows in ((LEFT, left), (RIGHT, right)):
            for column in self.needed[side]:
                values = self.pool[column.name].take(pa.array(rows))
                columns[f"{side}.{column.name}"] = values.cast(ARROW[column.type])
        beside = pa.table(columns)
        if self.step.condition is not None:
            holds = true_for(self.step.condition, beside)
            left, right = (rows[np.asarray(holds)] for rows in (left, right))
            beside = beside.filter(holds)
        if not self.step.queries:
            return Pairs(left, right, None)
        newer = np.maximum(self.seqs[left], self.seqs[right])
        said = pa.chunked_array([tags(self.asked, beside, newer)])
        return Pairs(left, right, said).where(np.asarray(said.is_valid()))


@dataclass(frozen=True, slots=True)
class _Side:
    """Records on one side: rows, keys, where they lie in time, and numbers that have a range."""

    all: Longs
    keys: Longs
    instants: Longs
    numbers: Doubles | None

    def where(self, kept: Bools) -> "_Side":
        """Some of them."""
        numbers = None if self.numbers is None else self.numbers[kept]
        return _Side(self.all[kept], self.keys[kept], self.instants[kept], numbers)


def _fits_any(
    known: _Side,
    since: Longs,
    until: Longs,
    ranges: Sequence[tuple[Doubles, Doubles]] | None,
) -> Bools:
    """Which may be near to any that is asked for, by the ends of all: the others are not sorted."""
    if not len(since):
        return np.zeros(len(known.all), bool)
    fits: Bools = (known.instants >= since.min()) & (known.instants <= until.max())
    if ranges is None or known.numbers is None:
        return fits
    some = np.zeros(len(known.all), bool)
    for low, high in ranges:
        some |= (known.numbers >= low.min()) & (known.numbers <= high.max())
    return fits & some


def _spare(numbers: Doubles, edge: float) -> Doubles:
    """By how much a range from there to an edge is widened."""
    found: Doubles = WIDER * (np.abs(numbers) + (0.0 if isinf(edge) else abs(edge)))
    return found


def _equal(keys: Both, values: tuple[pa.ChunkedArray, pa.ChunkedArray]) -> Both:
    """Keys of both sides that are one only if these values are equal, too."""
    one, other = values
    if pa.types.is_floating(one.type) or pa.types.is_floating(other.type):
        doubles = (pc.cast(each, pa.float64(), safe=False) for each in values)
        one, other = (pc.add(each, 0.0) for each in doubles)  # zero has one sign then
    cut, rows = len(keys[0]), len(keys[0]) + len(keys[1])
    both = pa.chunked_array([*one.chunks, *other.chunks], one.type)
    found, _ = group([np.concatenate(keys), both], rows)
    return found[:cut], found[cut:]


def _cut(runs: Runs) -> Iterator[tuple[Longs, Longs]]:
    """Places of some runs, at most about ``TOGETHER`` at once, and whose they are."""
    counts = runs.counts
    ends, begin = np.cumsum(counts), 0
    while begin < len(counts):
        done = ends[begin - 1] if begin else 0
        end = max(int(np.searchsorted(ends, done + TOGETHER, "right")), begin + 1)
        count = counts[begin:end]
        yield numbers(runs.low[begin:end], count), np.repeat(runs.who[begin:end], count)
        begin = end
