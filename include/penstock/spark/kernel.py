"""Grouped, exact sums on numpy arrays: the vectorised form of ``penstock.core.measure``.

``ids`` numbers the group of each row, shape (n,), values in [0, groups).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

WORD = np.int64(32)
MASK = np.int64(0xFFFF_FFFF)
TOP_EXPONENT = 1_000


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


def exact_sum(ids: Longs, groups: int, parts: Sequence[Doubles]) -> tuple[Doubles, Doubles]:
    """Sum of several columns per group as an unevaluated pair (high, low).

    Each pass cuts the leading bits off every value, so few that their sums are exact; what is
    left over goes into the next pass. Only adding the passes rounds, at 2**-104.
    Source: extraction as in Rump, Ogita and Oishi 2008 (AccSum), grouped [D].
    """
    high, low = np.zeros(groups), np.zeros(groups)
    for part in parts:
        left = part
        while len(left):
            greatest = float(np.max(np.abs(left)))
            if greatest == 0.0:
                break
            exponent = int(np.frexp(greatest)[1]) + len(left).bit_length()
            if exponent > TOP_EXPONENT:  # so near the largest double that plain sums must do
                high, low = add_pairs(high, low, _plain(ids, left, groups), 0.0)
                break
            anchor = np.ldexp(1.5, exponent)
            lead = (left + anchor) - anchor
            high, low = add_pairs(high, low, _plain(ids, lead, groups), 0.0)
            left = left - lead
    return high, low


def _plain(ids: Longs, values: Doubles, groups: int) -> Doubles:
    return np.bincount(ids, weights=values, minlength=groups)


def add_pairs(
    high: Doubles, low: Doubles, other_high: Doubles | float, other_low: Doubles | float
) -> tuple[Doubles, Doubles]:
    """Add two double-double numbers (Knuth's two-sum, Dekker's renormalisation)."""
    total = high + other_high
    shift = total - high
    rest = (high - (total - shift)) + (other_high - shift) + low + other_low
    out = total + rest
    return out, rest - (out - total)


def exact_sum_longs(ids: Longs, groups: int, high: Longs, low: Longs) -> tuple[Longs, Longs]:
    """Sum of 96-bit integers ``high * 2**32 + low`` per group, normalised."""
    out_high, out_low = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    np.add.at(out_high, ids, high)
    np.add.at(out_low, ids, low)
    return out_high + (out_low >> WORD), out_low & MASK


def split_longs(values: Longs) -> tuple[Longs, Longs]:
    """An integer as ``high * 2**32 + low``, low in [0, 2**32)."""
    return values >> WORD, values & MASK


def hash_rows(columns: Sequence[pa.ChunkedArray], rows: int) -> Longs:
    """A stable hash of each row in [0, 2**31): the same in every process and version."""
    mixed = np.zeros(rows, np.uint64)
    for column in columns:
        encoded = encoded_of(column)
        values = encoded.dictionary.to_pandas()
        if values.dtype.kind in "Mb":
            values = values.astype("int64")
        hashed = pd.util.hash_array(values.to_numpy(), categorize=False)
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + hashed[np.asarray(encoded.indices)]
    return ((mixed >> np.uint64(17)) & np.uint64(0x7FFF_FFFF)).astype(np.int64)
