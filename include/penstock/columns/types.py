"""Types of columns: Arrow's for the pipeline file's."""

from collections.abc import Iterable

import pyarrow as pa

from penstock.columns.arrays import Longs
from penstock.core.expression import Column
from penstock.core.measure import ColumnType

INSTANT = pa.timestamp("us", tz="UTC")
ARROW: dict[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.LONG: pa.int64(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.TIMESTAMP: INSTANT,
}


def fields_of(columns: Iterable[Column]) -> list[pa.Field]:
    """Fields of some columns, by their declared types."""
    return [pa.field(column.name, ARROW[column.type]) for column in columns]


def instants(micros: Longs) -> pa.Array:
    """Instants of microseconds since the epoch."""
    return pa.array(micros, pa.int64()).cast(INSTANT)
