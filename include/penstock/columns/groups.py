"""Rows with the same values in some columns: numbered, and hashed."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from penstock.columns.arrays import Longs

HASHES = 1 << 31
"""So many hashes there are, from 0 on."""


def group(columns: Sequence[pa.ChunkedArray | Longs], rows: int) -> tuple[Longs, Longs]:
    """Number the distinct combinations of some columns.

    The first column orders the groups, where the combinations are not sparse: rows of one time
    lie together then, and a reader skips the rest.

    Returns:
        ``ids`` of each row, and the first row of each group, shape (groups,).
    """
    code: Longs = np.zeros(rows, np.int64)
    product = 1
    for column in columns:
        inner, card = _codes(column)
        if product * card >= 2**62:
            code, uniques = pd.factorize(code)
            product = len(uniques)
        code = code * card + inner
        product *= card
    if product <= 4 * rows + 65_536:
        present = np.zeros(product, bool)
        present[code] = True
        ids = (np.cumsum(present) - 1)[code]
        groups = int(present.sum())
    else:
        ids, uniques = pd.factorize(code)
        groups = len(uniques)
    first = np.zeros(groups, np.int64)
    first[ids[::-1]] = np.arange(rows - 1, -1, -1)
    return ids, first


def _codes(column: pa.ChunkedArray | Longs) -> tuple[Longs, int]:
    if isinstance(column, np.ndarray):
        if not len(column):
            return column, 1
        low, high = int(column.min()), int(column.max())
        if high - low < 2**20:
            return column - low, high - low + 1
        codes, uniques = pd.factorize(column, sort=True)
        return codes.astype(np.int64), len(uniques)
    encoded = encoded_of(column)
    return np.asarray(encoded.indices).astype(np.int64), max(len(encoded.dictionary), 1)


def encoded_of(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """A column as numbers into a dictionary; a null has a number of its own."""
    if pa.types.is_dictionary(column.type) and not column.null_count:
        column = column.unify_dictionaries()
    else:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        column = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column


def hash_keys(table: pa.Table, keys: Sequence[str]) -> Longs:
    """``hash_rows`` of some columns of a table."""
    return hash_rows([table[key] for key in keys], table.num_rows)


def hash_rows(columns: Sequence[pa.ChunkedArray], rows: int) -> Longs:
    """A stable hash of each row in [0, ``HASHES``): the same in every process and version.

    It hangs on no other row: of whole numbers beside a null, too.
    """
    mixed = np.zeros(rows, np.uint64)
    for column in columns:
        encoded = encoded_of(column)
        known = encoded.dictionary
        if pa.types.is_integer(known.type) or pa.types.is_boolean(known.type):
            known = known.fill_null(pa.scalar(0).cast(known.type))  # pandas has no null of these
        values = known.to_pandas()
        if values.dtype.kind in "Mb":
            values = values.astype("int64")
        hashed = pd.util.hash_array(values.to_numpy(), categorize=False)
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + hashed[np.asarray(encoded.indices)]
    return ((mixed >> np.uint64(17)) & np.uint64(HASHES - 1)).astype(np.int64)
