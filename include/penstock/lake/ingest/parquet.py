"""Rows of Parquet files: those of a part, with types that Arrow computes with."""

import json
from collections.abc import Collection
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.lake.ingest.item import Item
from penstock.lake.ingest.reading import SourceFile
from penstock.lake.ingest.text import with_kernels

INT96: dict[str, Any] = {"coerce_int96_timestamp_unit": "us"}
"""Arrow reads Spark's old instants as nanoseconds, which wrap around beyond 1677 to 2262."""
MANY = 16_384
"""Records from which a dictionary saves more than it takes."""
PLAIN = 4
"""Bytes that a plain text takes beside itself."""


def rows_of(footer: pq.FileMetaData) -> int:
    """Records of a Parquet file.

    Raises:
        pa.ArrowInvalid: its footer contradicts itself; one bit that turned there can hide all.
    """
    groups = sum(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
    if groups != footer.num_rows:
        raise pa.ArrowInvalid(
            f"its footer counts {footer.num_rows:,} records, and {groups:,} in its row groups"
        )
    return groups


def rows_of_part(item: Item, stream: SourceFile) -> pa.Table:
    """The rows of an item; only the row groups that hold them are read.

    Raises:
        pa.ArrowInvalid: nothing can be made of the file.
    """
    footer = pq.read_metadata(pa.PythonFile(stream, mode="r"))
    total = rows_of(footer)
    end = total if item.end < 0 else item.end
    encoded = _encoded(footer)
    file = pq.ParquetFile(
        pa.PythonFile(stream, mode="r"), metadata=footer, read_dictionary=encoded, **INT96
    )
    names = file.schema_arrow.names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise pa.ArrowInvalid(f"columns of it have the same name: {twice}")
    groups, before = _groups(footer, item.first, end)
    table = readable(file.read_row_groups(groups), encoded)
    return table.slice(item.first - before, end - item.first)


def _groups(footer: pq.FileMetaData, first: int, end: int) -> tuple[list[int], int]:
    """The row groups that hold rows [first, end), and the rows before them."""
    groups, before, at = [], 0, 0
    for number in range(footer.num_row_groups):
        following = at + footer.row_group(number).num_rows
        if following <= first:
            before = following
        elif at < end:
            groups.append(number)
        at = following
    return groups, before


def _encoded(footer: pq.FileMetaData) -> list[str]:
    """Text columns that are few values, many times: they stay so, which saves most of their time.

    Where a value takes less than any plain text would, they are numbers of a dictionary.
    """
    if footer.num_rows < MANY:
        return []
    found = []
    for at in range(footer.num_columns):
        column = footer.schema.column(at)
        if column.logical_type.type != "STRING" or column.path != column.name:
            continue
        groups = (footer.row_group(i).column(at) for i in range(footer.num_row_groups))
        if sum(group.total_uncompressed_size for group in groups) < PLAIN * footer.num_rows:
            found.append(column.name)
    return found


def readable(table: pa.Table, encoded: Collection[str] = ()) -> pa.Table:
    """With types that Arrow computes with, and bytes in place of text that is not UTF-8.

    Arrow takes the writer's word for what is UTF-8.

    Args:
        table: as it was read.
        encoded: columns that keep their dictionaries.
    """
    for at, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type) and _is_utf8(column, table.field(at).name, encoded):
            continue
        if pa.types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)  # noqa: PLW2901  checked as it is read
        known = with_kernels(column.type)
        try:
            column.validate(full=True)
            if known != column.type:
                table = table.set_column(at, table.field(at).name, column.cast(known))
        except pa.ArrowInvalid:
            if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
                raise
            table = table.set_column(at, table.field(at).name, pc.cast(column, pa.large_binary()))
    return table


def _is_utf8(column: pa.ChunkedArray, name: str, encoded: Collection[str]) -> bool:
    """Whether a dictionary is kept, and holds no other bytes."""
    if name not in encoded:
        return False
    try:
        column.validate(full=True)
        for chunk in column.chunks:
            chunk.dictionary.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def with_parts(table: pa.Table, item: Item) -> pa.Table:
    """Records of a file with the columns by which files are divided, which do not stand in them."""
    values = json.loads(item.values) if item.values else _hive(item.path)
    for name, text in values.items():
        if name not in table.column_names:
            table = table.append_column(name, pa.repeat(pa.scalar(text, pa.string()), len(table)))
    return table


def _hive(path: str) -> dict[str, str | None]:
    """What a path says, as day=2024-01-01/."""
    parts = (part.partition("=") for part in path.split("/")[:-1])
    return {
        name: None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
        for name, found, value in parts
        if found
    }
