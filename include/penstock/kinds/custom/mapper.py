"""Map: records to states of one record each."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.expressions import rows_where, rows_with
from penstock.columns.groups import hash_keys
from penstock.columns.marks import Marks
from penstock.columns.types import fields_of
from penstock.kinds.classes import Classes
from penstock.kinds.custom.poison import without_poison
from penstock.kinds.custom.spec import WHEN, WHICH, CustomSpec
from penstock.kinds.custom.wire import COUNTED, REDUCED, SPAN, STATE, Wire
from penstock.kinds.frame import NONE_EXCLUDED
from penstock.kinds.keyed.runs import HASH, SEQ, TIME
from penstock.kinds.side import Sides, looked_up


def columns_of(step: CustomSpec) -> list[str]:
    """Columns of ``events`` the mapper reads."""
    return [WHICH.name, WHEN.name, *step.columns]


def selected(step: CustomSpec, events: pa.Table, more: Sequence[str] = ()) -> pa.Table:
    """The records that the step takes, with the columns that the code reads, and more of them."""
    events = rows_with((column.name for column in step.required), rows_where(step.where, events))
    names = [*(column.name for column in step.required), *(column.name for column in step.read)]
    return _plain(events.select([WHICH.name, WHEN.name, *names, *more]))


def taken(step: CustomSpec, events: pa.Table, sides: Sides) -> pa.Table:
    """The records that the step takes, as the code gets them."""
    records = selected(step, events)
    columns = dict(zip(records.column_names, records.columns, strict=True))
    seqs = np.asarray(records[WHICH.name])
    for join in step.sides:
        if records.num_rows:
            columns |= looked_up(join, columns, seqs, sides)
        else:
            columns |= {f.name: pa.chunked_array([], f.type) for f in fields_of(join.found)}
    return pa.table(columns)


class Mapper:
    """One step's states of some records."""

    def __init__(self, step: CustomSpec, marks: Marks, seed: int | None, sides: Sides) -> None:
        del seed  # none is late
        self.marks = marks
        self.step, self.wire, self.classes, self.sides = step, Wire(step), Classes(), sides
        self.mapped, self.excluded = [self.wire.parts.empty_table()], NONE_EXCLUDED

    def take(self, records: pa.Table) -> None:
        """Add records; those on which the code fails are left out."""
        records = taken(self.step, records.select(columns_of(self.step)), self.sides)
        if not records.num_rows:
            return
        records, found, excluded = without_poison(self.wire.calls, records)
        self.excluded = pa.concat_tables([self.excluded, excluded])
        if found is not None:
            self.mapped.append(self._rows(records, *found))

    def _rows(self, records: pa.Table, mapped: pa.Table, states: pa.Table) -> pa.Table:
        every, seqs = (np.asarray(each[WHICH.name]) for each in (records, mapped))
        order = np.argsort(every)
        at = order[np.searchsorted(every[order], seqs)]
        counted = np.zeros(len(seqs), np.int64)
        counted[np.unique(seqs, return_index=True)[1]] = 1
        inner = self.wire.to_inner(mapped)
        columns = {
            HASH: hash_keys(inner, self.step.key_names),
            **{key: inner[key] for key in self.step.key_names},
            TIME: pc.cast(records[WHEN.name], pa.int64()).take(pa.array(at)),
            SEQ: seqs,
            REDUCED: np.ones(len(seqs), np.int64),
            COUNTED: counted,
            SPAN: self.wire.spans.of(self.marks, seqs),
            **{f"{STATE}{name}": states[name] for name in states.column_names},
        }
        rows = pa.table(columns).select(self.wire.parts.names).cast(self.wire.parts)
        if nothing := len(every) - int(counted.sum()):
            rows = pa.concat_tables([rows, self._uncounted(nothing)])
        return rows

    def _uncounted(self, records: int) -> pa.Table:
        """A row that stands for records of which the code made nothing."""
        row = {field.name: _nothing(field.type) for field in self.wire.parts} | {COUNTED: records}
        return pa.Table.from_pylist([row], schema=self.wire.parts)

    def parts(self) -> pa.Table:
        """All of them."""
        return pa.concat_tables(self.mapped)


def _nothing(kind: pa.DataType) -> object:
    if pa.types.is_string(kind):
        return ""
    return False if pa.types.is_boolean(kind) else pa.scalar(0).cast(kind).as_py()


def _plain(table: pa.Table) -> pa.Table:
    """Without dictionaries: code need not know them."""
    fields = [
        f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f
        for f in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()
