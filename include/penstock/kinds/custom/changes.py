"""Which records change what is said of their keys: a function of the log, wherever it is cut."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Bools, Longs
from penstock.columns.groups import group
from penstock.columns.marks import NO_MARKS, Marks
from penstock.columns.types import INSTANT
from penstock.columns.windows import panes_of
from penstock.kinds.custom.calls import RecordError, UserCodeError
from penstock.kinds.custom.scan import reduced, running
from penstock.kinds.custom.spec import WHEN, WHICH
from penstock.kinds.custom.wire import COUNTED, REDUCED, SPAN, Wire
from penstock.kinds.keyed.runs import SEQ, TIME


def merged(wire: Wire, rows: pa.Table, *apart: str) -> pa.Table:
    """One state for each key.

    Args:
        wire: of the step.
        rows: as its ``parts``.
        apart: further columns by which states stay apart.
    """
    rows = rows.filter(pc.greater(rows[REDUCED], 0))
    if not rows.num_rows:
        return rows
    rows, ids = _in_order(wire, rows, apart)
    ends = np.flatnonzero(np.diff(ids, append=-1))
    states = reduced(wire.calls.merge, wire.states(rows), ids)
    counts = np.add.reduceat(np.asarray(rows[REDUCED]), np.append(0, ends[:-1] + 1))
    rows = wire.with_states(rows.take(pa.array(ends)), states)
    for name, values in ((REDUCED, counts), (COUNTED, np.zeros(len(ends), np.int64))):
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(values))
    return rows.cast(wire.parts)


def changes(wire: Wire, before: pa.Table, parts: pa.Table, marks: Marks = NO_MARKS) -> pa.Table:
    """Answers of records, as ``answers`` of the wire: of those that change what is said.

    Args:
        wire: of the step.
        before: what is kept of their keys, merged: one row a key.
        parts: of the records, which all came later; their spans have ended.
        marks: under which they have; none: whenever that was.
    """
    count = before.num_rows
    parts = parts.filter(pc.greater(parts[REDUCED], 0))
    rows = pa.concat_tables([before, parts])
    if not rows.num_rows:
        return wire.answers.empty_table()
    new = np.arange(rows.num_rows) >= count
    rows, ids, new = _sorted(wire, rows, new)
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    first = np.repeat(starts, np.diff(starts, append=len(ids)))
    ends = _last_of_spans(ids, np.asarray(rows[SPAN]))
    try:
        states = running(wire.calls.merge, wire.states(rows), first)
        said = wire.calls.finish(states.take(pa.array(ends)))
    except RecordError as failed:
        raise UserCodeError(f"{failed}{_blamed(wire, rows, ids)}") from failed
    of_key = np.diff(ids[ends], prepend=-1) != 0
    told = np.flatnonzero(new[ends] & (of_key | _differs(said)))
    totals = np.cumsum(np.asarray(rows[REDUCED]))
    totals -= (totals - np.asarray(rows[REDUCED]))[first]
    some = pa.array(ends[told])
    return _answers(wire, rows.take(some), said.take(pa.array(told)), totals[ends[told]], marks)


def _last_of_spans(ids: Longs, spans: Longs) -> Longs:
    """Of rows by key the last of each span."""
    same = (ids[1:] == ids[:-1]) & (spans[1:] == spans[:-1])
    return np.flatnonzero(np.append(~same, True))


def _blamed(wire: Wire, rows: pa.Table, ids: Longs) -> str:
    """Of which key, and after which record, states cannot be merged or finished."""
    for mine in np.split(np.arange(len(ids)), np.flatnonzero(np.diff(ids)) + 1):
        some = rows.take(pa.array(mine))
        every, after = wire.states(some), wire.states(some.slice(0, 1))
        for at in range(len(mine)):
            try:
                if at:
                    after = wire.calls.merge(after, every.slice(at, 1))
                wire.calls.finish(after)
            except RecordError:
                keys = ", ".join(f"{key}={some[key][at]}" for key in wire.step.key_names)
                return f", of {keys} at record {some[SEQ][at]}"
    return ""


def _answers(wire: Wire, rows: pa.Table, said: pa.Table, totals: Longs, marks: Marks) -> pa.Table:
    seqs = np.asarray(rows[SEQ])
    columns = {
        **{key: rows[key] for key in wire.step.key_names},
        WHICH.name: seqs,
        "window_start": panes_of(wire.step.window, np.asarray(rows[TIME])),
        "n_records": totals,
        "last_seq": wire.spans.through(marks, np.asarray(rows[SPAN]), seqs),
        WHEN.name: pc.cast(rows[TIME], INSTANT),
        **{column.name: said[column.name] for column in wire.step.said},
    }
    return pa.table(columns).select(wire.answers.names).cast(wire.answers)


def _differs(said: pa.Table) -> Bools:
    """Where a row says something else than the one before it."""
    found = np.zeros(said.num_rows, bool)
    for column in said.columns:
        one, other = column.combine_chunks()[1:], column.combine_chunks()[:-1]
        alike = pc.fill_null(pc.equal(one, other), False)
        both = pc.and_(pc.is_null(one), pc.is_null(other))
        found[1:] |= ~np.asarray(pc.or_(alike, both))
    return found


def _in_order(wire: Wire, rows: pa.Table, apart: Sequence[str]) -> tuple[pa.Table, Longs]:
    rows, ids, _ = _sorted(wire, rows, np.ones(rows.num_rows, bool), apart)
    return rows, ids


def _sorted(
    wire: Wire, rows: pa.Table, new: Bools, apart: Sequence[str] = ()
) -> tuple[pa.Table, Longs, Bools]:
    """By key, then by position."""
    ids, _ = group([rows[key] for key in (*wire.step.key_names, *apart)], rows.num_rows)
    order = np.lexsort((np.asarray(rows[SEQ]), ids))
    return rows.take(pa.array(order)).combine_chunks(), ids[order], new[order]
