"""User code over the whole log, for the audit: record by record, by update, in another order.

The stream lifts each record to a state and merges; here a state takes one record after the other,
of all keys at once, and merges only where a key has many. Long runs of a key are cut into pieces,
which are reduced beside each other first.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.groups import group
from penstock.columns.types import fields_of
from penstock.core.expression import Column, read_by
from penstock.kinds.custom.calls import Calls
from penstock.kinds.custom.cuts import Cuts
from penstock.kinds.custom.mapper import columns_of, selected
from penstock.kinds.custom.poison import without_poison
from penstock.kinds.custom.spec import WHEN, WHICH, CustomSpec

KEY, FAILS = "key$", "fails$"
TOTAL = "n_records"
Batches = Iterator[pa.RecordBatch]


def routed_schema(step: CustomSpec) -> pa.Schema:
    """Of records with the keys that they are about; of one on which the code fails it has none."""
    read = {c.name: c for c in (WHICH, WHEN, *step.own, *step.read, *read_by(step.where))}
    keys = [f.with_name(key_of(f.name)) for f in fields_of(step.keys)]
    beside = [f.with_name(plain(f.name)) for f in fields_of(_beside(step))]
    fails = pa.field(FAILS, pa.bool_())
    return pa.schema([*fields_of(read[name] for name in columns_of(step)), *beside, *keys, fails])


def key_of(name: str) -> str:
    """The column with what a record is about, where a record has a column of the key's name."""
    return f"{KEY}{name}"


def _beside(step: CustomSpec) -> list[Column]:
    """Columns of side data, which the audit joined to the records."""
    return [column for join in step.sides for column in join.found]


def plain(name: str) -> str:
    """A column's name as Spark passes it to Arrow: it takes no dot."""
    return name.replace(".", "$")


def _names(step: CustomSpec) -> list[str]:
    return [*columns_of(step), *(plain(column.name) for column in _beside(step))]


def _taken(step: CustomSpec, records: pa.Table) -> pa.Table:
    named = {plain(column.name): column.name for column in _beside(step)}
    found = selected(step, records, [*named])
    return found.rename_columns([named.get(name, name) for name in found.column_names])


def routing(step: CustomSpec, schema: pa.Schema) -> Callable[[Batches], Batches]:
    """What a task does first: each record with each key that the code makes of it."""
    which = pa.schema([schema.field(n) for n in (WHICH.name, *map(key_of, step.key_names))])

    def routed(batches: Batches) -> Batches:
        calls = Calls(step)
        for batch in batches:
            records = pa.Table.from_batches([batch]).select(_names(step))
            records = records.cast(pa.schema([schema.field(n) for n in records.column_names]))
            _, lifted, excluded = without_poison(calls, _taken(step, records))
            rows = [which.empty_table(), excluded.select([WHICH.name])]
            if lifted is not None:
                mine = lifted.rows.select([WHICH.name, *step.key_names])
                rows.append(mine.rename_columns(which.names))
            known = pa.concat_tables(rows, promote_options="default")
            fails = pc.is_in(known[WHICH.name], excluded[WHICH.name])
            both = known.append_column(FAILS, fails).join(records, WHICH.name)
            yield from both.select(schema.names).cast(schema).to_batches()

    return routed


def said_schema(step: CustomSpec) -> pa.Schema:
    """Of what is said: keys, position, values, and how many records of the key there were."""
    columns = (*step.identity, *step.values)
    return pa.schema([*fields_of(columns), pa.field(TOTAL, pa.int64())])


def replaying(step: CustomSpec, schema: pa.Schema, cuts: Cuts) -> Callable[[pa.Table], pa.Table]:
    """What a task does then: all records of some keys, one after the other."""

    def replayed(routed: pa.Table) -> pa.Table:
        routed = routed.select(schema.names).cast(schema)
        keys = [*step.key_names]
        mine = routed.select([WHICH.name, *map(key_of, keys)])
        mine = mine.rename_columns([WHICH.name, *keys])
        records = routed.select(_names(step))
        _, first = group([records[WHICH.name]], records.num_rows)
        order = np.sort(first)[::-1]  # the newest first: what map says hangs on no order
        calls = Calls(step)
        mapped = calls.map(_taken(step, records.take(pa.array(order))))
        mapped = mapped.append_column("row$", pa.array(np.arange(mapped.num_rows)))
        there = mapped.select([*keys, WHICH.name, "row$"]).join(mine, [*keys, WHICH.name],
                                                                join_type="left semi")  # fmt: skip
        mapped = mapped.take(there["row$"])
        return _said(step, calls, mapped, records, cuts)

    return replayed


def _said(
    step: CustomSpec, calls: Calls, mapped: pa.Table, records: pa.Table, cuts: Cuts
) -> pa.Table:
    schema = said_schema(step)
    if not mapped.num_rows:
        return schema.empty_table()
    ids, _ = group([mapped[key] for key in step.key_names], mapped.num_rows)
    seqs = np.asarray(mapped[WHICH.name])
    order = np.lexsort((seqs, ids))
    mapped, ids, seqs = mapped.take(pa.array(order)).combine_chunks(), ids[order], seqs[order]
    said = calls.finish(_prefixes(calls, mapped, ids))
    ends = np.flatnonzero((np.diff(ids, append=-1) != 0) | (np.diff(seqs, append=-1) != 0))
    said, ids, seqs = said.take(pa.array(ends)), ids[ends], seqs[ends]
    begins = np.flatnonzero(np.diff(ids, prepend=-1))
    nth = np.arange(len(ids)) - np.repeat(begins, np.diff(begins, append=len(ids)))
    rows, spans, told, last = said.to_pylist(), cuts.of(seqs), list[int](), None
    for at, row in enumerate(rows):
        goes_on = at + 1 < len(rows) and nth[at + 1] > 0 and spans[at + 1] == spans[at]
        if goes_on or spans[at] == cuts.open:
            continue
        if last is None or ids[last] != ids[at] or row != rows[last]:
            told.append(at)
        last = at
    some = pa.array(told, pa.int64())
    keys = mapped.take(pa.array(ends)).select([*step.key_names]).take(some)
    when = dict(zip(records[WHICH.name].to_pylist(), records[WHEN.name].to_pylist(), strict=True))
    columns = {
        **{key: keys[key] for key in step.key_names},
        WHICH.name: seqs[told],
        WHEN.name: pa.array([when[seq] for seq in seqs[told].tolist()], fields_of([WHEN])[0].type),
        **{column.name: said[column.name].take(some) for column in step.said},
        TOTAL: nth[told] + 1,
    }
    return pa.table(columns).select(schema.names).cast(schema)


def _prefixes(calls: Calls, mapped: pa.Table, ids: Longs) -> pa.Table:
    """The state after each row, rows of a key one after the other."""
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    longest = int(np.diff(starts, append=len(ids)).max())
    piece = max(1, int(np.ceil(np.sqrt(longest))))
    place = np.arange(len(ids)) - np.repeat(starts, np.diff(starts, append=len(ids)))
    pieces = np.cumsum((place % piece) == 0) - 1
    within = place % piece
    count, heads = int(pieces[-1]) + 1, np.flatnonzero(within == 0)
    totals = calls.init(count)
    for at in range(int(within.max()) + 1):
        rows = np.flatnonzero(within == at)
        states = calls.update(totals.take(pa.array(pieces[rows])), mapped.take(pa.array(rows)))
        totals = _with(totals, pieces[rows], states)
    which = place[heads] // piece
    before = calls.init(count)
    for at in range(1, int(which.max()) + 1):  # all before a piece: the other way round
        mine = np.flatnonzero(which == at)
        states = calls.merge(totals.take(pa.array(mine - 1)), before.take(pa.array(mine - 1)))
        before = _with(before, mine, states)
    found, states = calls.init(len(ids)), before
    for at in range(int(within.max()) + 1):
        rows = np.flatnonzero(within == at)
        after = calls.update(states.take(pa.array(pieces[rows])), mapped.take(pa.array(rows)))
        states, found = _with(states, pieces[rows], after), _with(found, rows, after)
    return found


def _with(states: pa.Table, rows: Longs, others: pa.Table) -> pa.Table:
    which = np.arange(states.num_rows)
    which[rows] = states.num_rows + np.arange(len(rows))
    return pa.concat_tables([states, others]).take(pa.array(which)).combine_chunks()
