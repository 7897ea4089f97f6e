"""Reduce: each record is compared with those before it that are kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Bools, Longs
from penstock.columns.types import INSTANT
from penstock.columns.windows import panes_of
from penstock.kinds.classes import Classes
from penstock.kinds.frame import Advance, Reduced, State, Stays, unmoved
from penstock.kinds.join.reach import counted, kept, left_kept, right_kept
from penstock.kinds.join.search import Pairs, Search
from penstock.kinds.join.spec import QUERIES, SEQS, TIMES, JoinSpec
from penstock.kinds.join.wire import AS_LEFT, AS_RIGHT, AT_HOME, ROLES, Wire
from penstock.kinds.keyed.late import late_records
from penstock.kinds.keyed.runs import HASH, SEQ, TIME
from penstock.kinds.keyed.state import KeyedState
from penstock.kinds.side import Sides

TWO = 2
"""Records of a pair."""


class Reducer:
    """A join's state, one shard at a time."""

    def __init__(self, step: JoinSpec, state: State, folder: Path, sides: Sides) -> None:
        self.step, self.wire, self.sides, self.mark = step, Wire(step), sides, 0
        self.state = KeyedState(state, folder, self._kept)

    def reduce(self, advance: Advance, parts: pa.Table, seed: pa.Table) -> Reduced:
        """Compare a micro-batch's records, and keep them.

        Args:
            advance: of the micro-batch.
            parts: its records.
            seed: the records before its generation that are kept.
        """
        self.mark = advance.since
        manifest = self.state.begun(advance, seed)
        if self.step.keys:
            hashes = np.unique(np.asarray(parts[HASH]))
            before = self.state.found(manifest, hashes, self.wire.parts)
        else:
            before = self.state.rows(manifest, self.wire.parts)
        before = self._kept(before)
        pool = pa.concat_tables([before, parts])
        search, known = Search(self.step, pool, self.sides), before.num_rows
        marks = counted(self.step.window, advance.marks.at(search.seqs[known:]))
        found = self._timely(search, known, marks)
        self.mark = advance.watermark
        held = self.state.add(advance, manifest, parts).rows
        home = (search.roles[known:] & AT_HOME) > 0
        missed = home & search.whole[known:] & (search.times[known:] < marks)
        late = known + np.flatnonzero(missed)
        shed = advance.marks.is_shed(search.seqs[late])
        classes, count = Classes(), int(home.sum())
        classes.count(count, search.times[late], int(shed.sum()))
        return Reduced(
            late_records(self.wire, pool, late, shed), pairs(self.wire, pool, found),
            0, len(late), count - len(late), classes, search.compared, int(shed.sum()),
            kept=held,
        )  # fmt: skip

    def give(self, advance: Advance, stays: Stays) -> tuple[pa.Table, Reduced]:
        """Keep no more what belongs to another shard from now on."""
        self.mark = advance.watermark
        moved, held = self.state.give(advance, self.wire.parts, stays)
        return self._kept(moved), replace(unmoved(self.wire, 0, held), compared=0)

    def _timely(self, search: Search, known: int, marks: Longs) -> Pairs:
        """Pairs with a record from row ``known`` on: the one before is kept where it stands."""
        left, right = search.rows(AS_LEFT), search.rows(AS_RIGHT)
        fresh = search.pairs(left[left >= known], right)
        former = search.pairs(left[left < known], right[right >= known])
        found = Pairs.of([fresh, former])
        return found.where(self._told(search, known, marks, found.left, found.right))

    def _told(self, search: Search, known: int, marks: Longs, left: Longs, right: Longs) -> Bools:
        forward = search.seqs[left] > search.seqs[right]
        mark = marks[np.where(forward, left, right) - known]
        told: Bools = np.where(
            forward,
            right_kept(self.step, search.times[right], mark),
            left_kept(self.step, search.times[left], mark),
        )
        return told

    def _kept(self, rows: pa.Table) -> pa.Table:
        mine = kept(self.step, np.asarray(rows[TIME]), np.asarray(rows[ROLES]), self.mark)
        return rows.filter(pa.array(mine))


def pairs(wire: Wire, pool: pa.Table, found: Pairs) -> pa.Table:
    """Pairs as they leave the reducer."""
    sides = [pool.take(pa.array(rows)) for rows in (found.left, found.right)]
    left, right = sides
    columns = {
        **{key: left[key] for key in wire.step.key_names},
        **{column.name: side[SEQ] for column, side in zip(SEQS, sides, strict=True)},
        "window_start": panes_of(wire.step.window, np.asarray(left[TIME])),
        "n_records": np.full(left.num_rows, TWO),
        "last_seq": pc.max_element_wise(left[SEQ], right[SEQ]),
        **{c.name: pc.cast(side[TIME], INSTANT) for c, side in zip(TIMES, sides, strict=True)},
    }
    both = {"left": left, "right": right}
    columns |= {f"{side}_{c.name}": both[side][c.name] for side, c in wire.step.selected}
    columns |= {} if found.said is None else {QUERIES.name: found.said}
    return pa.table(columns).select(wire.answers.names).cast(wire.answers)
