"""What a record holds beside the declared columns: in its own type, else as JSON.

The fields of the column ``undeclared`` of ``events`` grow with the records that are accepted, and
never change. Which there are before a record follows from the log alone, so a replay keeps the same
record in the same way. What has no type that every Delta reader knows, contradicts a field that is
there, or comes when there are too many, is kept as JSON in ``extra``, as is what comes as text.
"""

import re
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import decoded
from penstock.columns.types import INSTANT
from penstock.lake.ingest.received import as_json
from penstock.lake.storage.drafts import PREFIX
from penstock.lake.storage.spec import UNDECLARED

MOST = 1_000
"""Fields; a source that invents a column a day would fill the table's log with their names."""
NAME = re.compile(r"[\w-]{1,255}")
"""Names that mean the same to every reader of Delta tables and of Parquet."""
WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
"""Delta has no unsigned numbers."""
SAME = (
    pa.types.is_boolean, pa.types.is_int8, pa.types.is_int16, pa.types.is_int32, pa.types.is_int64,
    pa.types.is_float32, pa.types.is_float64, pa.types.is_string, pa.types.is_binary,
    pa.types.is_date32,
)  # fmt: skip


class Undeclared:
    """The fields that there are, by the log before some records.

    Attributes:
        types: of each field.
    """

    def __init__(self, types: dict[str, pa.DataType] | None = None) -> None:
        self.types = dict(types or {})
        self._spelled = {name.casefold(): name for name in self.types}

    @classmethod
    def of(cls, schema: pa.Schema) -> Self:
        """Those of the table ``events`` as it stands."""
        there = UNDECLARED in schema.names
        fields = schema.field(UNDECLARED).type if there else ()
        return cls({field.name: field.type for field in fields})

    def parted(self, others: pa.Table) -> tuple[dict[str, pa.ChunkedArray], pa.Array]:
        """Columns that are kept in their own types, by their names in a row, and the rest as JSON.

        Args:
            others: of a typed source, without those that the pipeline file names.
        """
        typed: dict[str, pa.ChunkedArray] = {}
        rest, spelled, room = [], set[str](), MOST - len(self.types)
        for at, field in enumerate(others.schema):
            if pa.types.is_null(field.type) and field.name in self.types:
                continue  # it says nothing, and a field that says nothing is null
            values = self._as_field(field.name, others.column(at), room)
            if values is None or field.name.casefold() in spelled:
                rest.append(at)
            else:
                typed[f"{PREFIX}{field.name}"] = values
                spelled.add(field.name.casefold())
                room -= field.name not in self.types
        return typed, as_json(decoded(others.select(rest)))

    def grow(self, rows: pa.Table) -> None:
        """Take note of the fields of records that were accepted."""
        for field in rows.schema if rows.num_rows else ():
            if field.name.startswith(PREFIX):
                name = field.name.removeprefix(PREFIX)
                self.types.setdefault(name, _plain(field.type))
                self._spelled.setdefault(name.casefold(), name)

    def _as_field(self, name: str, values: pa.ChunkedArray, room: int) -> pa.ChunkedArray | None:
        """A column as the field of its name; none: it cannot be one."""
        kind, known = held(_plain(values.type)), self._spelled.get(name.casefold())
        if kind is None or not NAME.fullmatch(name):
            return None
        if known is None and room <= 0:
            return None
        if known is not None and (known != name or self.types[name] != kind):
            return None
        if kind == _plain(values.type):
            return values
        try:
            return pc.cast(values, kind)
        except pa.ArrowInvalid:  # an instant beyond 64 bits of microseconds, 2 GB of text at once
            return None


def held(kind: pa.DataType) -> pa.DataType | None:
    """The type of the same values in a Delta table; none: it has none that every reader knows."""
    if any(is_same(kind) for is_same in SAME):
        return kind
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return kind
    if pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit != "ns":
        return INSTANT
    return WIDER.get(kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without its dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind
