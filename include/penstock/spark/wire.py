"""What travels between source, reducer and sink: one flat schema for every kind of row."""

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.measure import ColumnType
from penstock.core.step import StepSpec
from penstock.lake.tables import ARROW
from penstock.spark.layout import Layout

PARTIAL, PUNCTUATION = 0, 1
ANSWER, LATE, STATUS = 2, 3, 4
DEFAULTS = {pa.string(): "", pa.int64(): 0, pa.bool_(): False, pa.float64(): 0.0}


@dataclass(frozen=True)
class Wire:
    """Schemas of a step's rows on the way; instants as keys travel as whole microseconds."""

    step: StepSpec

    @cached_property
    def inner(self) -> StepSpec:
        """The step with key types that pandas keeps exactly."""
        keys = tuple(
            replace(k, type=ColumnType.LONG) if k.type is ColumnType.TIMESTAMP else k
            for k in self.step.keys
        )
        return replace(self.step, keys=keys)

    @cached_property
    def layout(self) -> Layout:
        """Of the inner step."""
        return Layout(self.inner)

    @cached_property
    def panes(self) -> pa.Schema:
        """A partials table as it comes from the source and lies in the state."""
        return self.layout.schema("pane", "closed")

    @cached_property
    def incoming(self) -> pa.Schema:
        """Rows of the source."""
        head = [
            pa.field("shard", pa.int64()),
            pa.field("kind", pa.int64()),
            pa.field("seed", pa.int64()),
            pa.field("meta", pa.string()),
        ]
        return pa.schema([*head, *self.panes])

    @cached_property
    def outgoing(self) -> pa.Schema:
        """Rows of the reducer: answers, late pairs and one status a shard."""
        head = [pa.field("kind", pa.int64()), pa.field("meta", pa.string())]
        return pa.schema([*head, *self.layout.schema("window_start")])

    def to_inner(self, partials: pa.Table) -> pa.Table:
        """Cast instants among the keys of a partials table."""
        for key in self.step.keys:
            if key.type is ColumnType.TIMESTAMP:
                at = partials.schema.get_field_index(key.name)
                values = pc.cast(partials[key.name], pa.int64())
                partials = partials.set_column(at, key.name, values)
        return partials

    def keys_of(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        """The key columns with their declared types."""
        return {k.name: pc.cast(table[k.name], ARROW[k.type]) for k in self.step.keys}


def filled(schema: pa.Schema, rows: int, **columns: object) -> pa.Table:
    """A table of a schema: given columns, else the default of the type."""
    out = {}
    for field in schema:
        value = columns.get(field.name, DEFAULTS[field.type])
        if isinstance(value, pa.ChunkedArray | pa.Array) or hasattr(value, "__array__"):
            out[field.name] = value
        else:
            out[field.name] = pa.repeat(pa.scalar(value, field.type), rows)
    return pa.table(out).cast(schema)
