"""A name for what a small table holds, whatever file it came from: equal names, equal rows."""

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def content_name(rows: pa.Table, keys: Sequence[str]) -> str:
    """Names the content of a table: neither the order of its rows nor of its columns counts.

    It is taken from values that are written out here, so that it is the same in every release.

    Args:
        rows: of columns of declared types, each combination of keys once.
        keys: columns without nulls that tell rows apart.
    """
    order = pc.sort_indices(rows, sort_keys=[(key, "ascending") for key in sorted(keys)])
    digest = hashlib.sha256(str(rows.num_rows).encode())
    for name in sorted(rows.column_names):
        column = rows[name].take(order).combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        for part in (name.encode(), str(column.type).encode(), *_parts(column)):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()[:16]


def _parts(column: pa.Array) -> list[bytes]:
    """Which values are there, and the values."""
    there = np.packbits(np.asarray(pc.is_valid(column))).tobytes()
    if pa.types.is_string(column.type):
        text = pc.fill_null(column, "")
        lengths = np.asarray(pc.binary_length(text)).astype("<i8").tobytes()
        return [there, lengths, "".join(text.to_pylist()).encode()]
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.int64())
    values = np.asarray(pc.fill_null(column, False if pa.types.is_boolean(column.type) else 0))
    if values.dtype.kind == "f":
        values = values + 0.0  # -0.0 is 0.0
    return [there, values.astype({"f": "<f8", "i": "<i8", "b": "u1"}[values.dtype.kind]).tobytes()]
