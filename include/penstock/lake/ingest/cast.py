"""Casting source columns to declared types: vectorised, and a bad value never stops the others.

The same text gives the same value from every file format. What cannot be cast is marked, not
raised. Numbers are decimal text, instants are ISO 8601; an instant without a zone is read in the
pipeline's.
"""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import ARROW
from penstock.core.measure import ColumnType
from penstock.lake.ingest.instants import POWER, LocalTime, read_instants
from penstock.lake.ingest.text import is_text, matching, plain, trimmed

Mask = npt.NDArray[np.bool_]

NUMBER = r"^[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|(?i:nan|inf|infinity))$"
WHOLE = r"^[+-]?\d{1,19}(\.0*)?$"
WIDEST = 19
"""Digits of the largest number of 64 bits."""
LONG_LIMIT = 2.0**63


def from_json(values: Sequence[bytes | None]) -> pa.Array:
    """The text of JSON values, so that a value is its own text's, whatever stands beside it.

    Args:
        values: as they are written, UTF-8; none where there is none.

    Returns:
        Strings without quotes and escapes, null for null, everything else as it is written.
    """
    raw = pa.array(values, pa.binary()).cast(pa.string())
    quoted = pc.starts_with(raw, '"')
    text = pc.if_else(quoted, pc.utf8_slice_codeunits(raw, 1, -1), raw)
    text = pc.if_else(pc.equal(raw, "null"), None, text)
    escaped = pc.fill_null(pc.and_(quoted, pc.match_substring(raw, "\\")), False)
    if pc.any(escaped).as_py():
        unescaped = [json.loads(v) for v in raw.filter(escaped).to_pylist()]
        text = pc.replace_with_mask(text, escaped, pa.array(unescaped, pa.string()))
    return text


def cast(array: pa.Array, kind: ColumnType, zone: ZoneInfo) -> tuple[pa.Array, Mask]:
    """Cast a column.

    Args:
        array: any type, shape (n,).
        kind: the declared type.
        zone: of instants that carry none.

    Returns:
        The column, null where it was null or could not be cast, and where it could not be cast.
    """
    if pa.types.is_dictionary(array.type):
        return _of_few(array, kind, zone)
    array = plain(array)
    out = CASTS[kind](array, zone)
    return out, failed(array, out)


def _of_few(
    array: pa.Array | pa.ChunkedArray, kind: ColumnType, zone: ZoneInfo
) -> tuple[pa.Array, Mask]:
    """Each value of a dictionary once; text stays a dictionary."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    out, bad = cast(array.dictionary, kind, zone)
    if pa.types.is_string(out.type) and not out.null_count:
        values = pa.DictionaryArray.from_arrays(array.indices, out)
    else:
        values = out.take(array.indices)
    if not bad.any():
        return values, np.zeros(len(array), dtype=bool)
    return values, np.asarray(pc.fill_null(pa.array(bad).take(array.indices), False), dtype=bool)


def failed(array: pa.Array, out: pa.Array) -> Mask:
    """Where something was said of which nothing could be made."""
    said = pc.is_valid(trimmed(array) if is_text(array) else array)  # empty text is null
    return np.asarray(pc.and_(pc.is_null(out), said), dtype=bool)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=_leaf)


def _leaf(value: Any) -> str:
    """What JSON has no form for, as text: instants, decimals, bytes."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _nested(array: pa.Array) -> list[str | None]:
    try:
        return [_text(v) for v in array.to_pylist()]
    except (ValueError, OverflowError):  # an instant that Python cannot hold
        return [_text_of(v) for v in array]


def _text_of(one: pa.Scalar) -> str | None:
    try:
        return _text(one.as_py())
    except (ValueError, OverflowError):
        return None


def _nothing(array: pa.Array, kind: ColumnType) -> pa.Array:
    return pa.nulls(len(array), ARROW[kind])


def _to_string(array: pa.Array, _zone: ZoneInfo) -> pa.Array:
    if is_text(array):
        text = pc.cast(array, pa.string())
        return pc.if_else(pc.equal(pc.utf8_trim_whitespace(text), ""), None, text)
    if _is_bytes(array.type):
        return pa.array([_decoded(v) for v in array.to_pylist()], pa.string())
    if pa.types.is_nested(array.type):
        return pa.array(_nested(array), pa.string())
    return pc.cast(array, pa.string())


def _is_bytes(kind: pa.DataType) -> bool:
    fixed = pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind)
    return bool(fixed or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _to_double(array: pa.Array, _zone: ZoneInfo) -> pa.Array:
    if is_text(array):
        text = matching(trimmed(array), NUMBER)
        return pc.cast(pc.replace_substring_regex(text, r"^\+", ""), pa.float64())
    if _is_number(array.type):
        return pc.cast(array, pa.float64(), safe=False)
    return _nothing(array, ColumnType.DOUBLE)


def _to_long(array: pa.Array, _zone: ZoneInfo) -> pa.Array:
    if is_text(array):
        said = trimmed(array)
        text = pc.replace_substring_regex(matching(said, WHOLE), r"\.0*$", "")
        digits = pc.cast(pc.replace_substring_regex(text, r"^\+", ""), pa.decimal128(38, 0))
        powers = matching(said, POWER)
        if powers.null_count == len(powers):
            return _narrow(digits)
        whole = pa.array([_whole(v) for v in powers.to_pylist()], pa.decimal128(38, 0))
        return _narrow(pc.coalesce(digits, whole))
    if pa.types.is_decimal(array.type) or pa.types.is_uint64(array.type):
        whole = pc.floor(array) if pa.types.is_decimal(array.type) else array
        array = pc.if_else(pc.equal(whole, array), array, None)
        return _narrow(pc.cast(array, pa.decimal128(38, 0), safe=False))
    if pa.types.is_floating(array.type):
        wide = pc.cast(array, pa.float64())
        inside = pc.and_(pc.less(wide, LONG_LIMIT), pc.greater_equal(wide, -LONG_LIMIT))
        whole = pc.and_(inside, pc.equal(pc.floor(wide), wide))
        return pc.cast(pc.if_else(pc.fill_null(whole, False), wide, None), pa.int64())
    if pa.types.is_integer(array.type):
        return pc.cast(array, pa.int64())
    return _nothing(array, ColumnType.LONG)


def _whole(text: str | None) -> Decimal | None:
    """A number with an exponent, exactly, if it is whole and not far beyond 64 bits."""
    if text is None:
        return None
    number = Decimal(text)
    digits, exponent = len(number.as_tuple().digits), int(number.as_tuple().exponent)
    if not number:
        return Decimal(0)
    if digits + exponent > WIDEST or exponent < -digits or number % 1:
        return None
    return number.quantize(Decimal(1))


def _narrow(wide: pa.Array) -> pa.Array:
    low, high = (pa.scalar(v, pa.decimal128(38, 0)) for v in (-(2**63), 2**63 - 1))
    inside = pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high))
    return pc.cast(pc.if_else(pc.fill_null(inside, False), wide, None), pa.int64())


def _to_boolean(array: pa.Array, _zone: ZoneInfo) -> pa.Array:
    if pa.types.is_boolean(array.type):
        return array
    if is_text(array):
        text = pc.utf8_lower(trimmed(array))
        known = pc.is_in(text, pa.array(["true", "false", "1", "0"]))
        yes = pc.is_in(text, pa.array(["true", "1"]))
        return pc.if_else(known, yes, None)
    return _nothing(array, ColumnType.BOOLEAN)


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _to_instant(array: pa.Array, zone: ZoneInfo) -> pa.Array:
    return read_instants(array, LocalTime(zone)).values


CASTS = {
    ColumnType.STRING: _to_string,
    ColumnType.LONG: _to_long,
    ColumnType.DOUBLE: _to_double,
    ColumnType.BOOLEAN: _to_boolean,
    ColumnType.TIMESTAMP: _to_instant,
}
