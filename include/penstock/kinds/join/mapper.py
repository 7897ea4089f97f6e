"""Map: records to what a join keeps of them, and to the cells in which they meet."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.groups import hash_keys
from penstock.columns.marks import Marks
from penstock.core.step import STREAM
from penstock.kinds.classes import Classes
from penstock.kinds.frame import NONE_EXCLUDED, by_hash
from penstock.kinds.join.reach import kept
from penstock.kinds.join.spec import JoinSpec
from penstock.kinds.join.wire import AS_LEFT, AS_RIGHT, AT_HOME, ROLES, Wire
from penstock.kinds.keyed.runs import HASH, SEQ, TIME
from penstock.kinds.side import Sides

READ = ("arrival_seq", "event_time")


def columns_of(step: JoinSpec) -> list[str]:
    """Columns of ``events`` the mapper reads."""
    return [*READ, *step.columns, *([STREAM] if len(step.streams) > 1 else [])]


def _roles(step: JoinSpec, events: pa.Table) -> Longs:
    """What each record is: in a join of one stream with itself both, a left and a right one."""
    if len(step.streams) <= 1:
        return np.full(events.num_rows, AS_LEFT | AS_RIGHT | AT_HOME)
    left = np.asarray(pc.equal(pc.cast(events[STREAM], pa.string()), step.streams[0]))
    return AT_HOME | np.where(left, AS_LEFT, AS_RIGHT)


def cells(step: JoinSpec, parts: pa.Table, count: int) -> Sequence[pa.Table]:
    """Which records meet in which of some cells: each pair meets in one of them.

    With keys, all records of a key meet in one. Without, the cells are a matrix: a left record is
    in all cells of a row, and a right one in all of a column. Source: Okcan and Riedewald 2011
    (1-Bucket-Theta).
    """
    if step.keys:
        return by_hash(step, parts, count)
    rows = next(n for n in range(int(count**0.5), 0, -1) if not count % n)
    columns = count // rows
    seqs, roles = np.asarray(parts[SEQ]), np.asarray(parts[ROLES])
    row, column = seqs % rows, seqs // rows % columns
    found = []
    for nth in range(count):
        mine = np.where(row == nth // columns, roles & AS_LEFT, 0)
        mine |= np.where(column == nth % columns, roles & AS_RIGHT, 0)
        mine |= np.where(row * columns + column == nth, roles & AT_HOME, 0)
        there = parts.set_column(parts.schema.get_field_index(ROLES), ROLES, pa.array(mine))
        found.append(there.filter(pa.array(mine > 0)))
    return found


class Mapper:
    """One step's part of some records."""

    excluded = NONE_EXCLUDED

    def __init__(self, step: JoinSpec, marks: Marks, seed: int | None, sides: Sides) -> None:
        del sides
        self.marks = marks  # of what is shed; the state tells what is late
        self.step, self.seed, self.wire, self.classes = step, seed, Wire(step), Classes()
        self.mapped = [self.wire.parts.empty_table()]

    def take(self, records: pa.Table) -> None:
        """Add records."""
        events = self.wire.to_inner(records.select(columns_of(self.step)))
        roles = _roles(self.step, events)
        shed = self.marks.is_shed(np.asarray(events["arrival_seq"]))
        roles = np.where(shed, AT_HOME, roles)
        times = np.asarray(pc.cast(events["event_time"], pa.int64()))
        columns = {
            HASH: hash_keys(events, self.step.key_names),
            TIME: times,
            SEQ: events["arrival_seq"],
            ROLES: roles,
        }
        names = self.wire.parts.names
        whole = pa.table({n: columns[n] if n in columns else events[n] for n in names})
        if self.seed is not None:
            whole = whole.filter(pa.array(kept(self.step, times, roles, self.seed)))
        self.mapped.append(whole.cast(self.wire.parts))

    def parts(self) -> pa.Table:
        """All of them."""
        return pa.concat_tables(self.mapped)
