"""Casting source columns to declared types: vectorised, and a bad value never stops the others.

The same text gives the same value from every file format. What cannot be cast is marked, not
raised. Numbers are decimal text, instants are ISO 8601; an instant without a zone is read in the
pipeline's.
"""

import json
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.measure import ColumnType
from penstock.lake.tables import ARROW, INSTANT

Mask = npt.NDArray[np.bool_]

NUMBER = r"^[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|(?i:nan|inf|infinity))$"
WHOLE = r"^[+-]?\d{1,19}(\.0*)?$"
ZONED = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)$"
NAIVE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$"
LONG_LIMIT = 2.0**63
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6}
SECONDS_LIMIT = 9_200_000_000_000
"""Microseconds of it fit 64 bits, and a zone's offset with them."""
YEAR_1, YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000
"""Of other years Python and many readers know nothing."""


def from_python(values: Sequence[Any]) -> pa.Array:
    """An array of parsed JSON values; a mixed column becomes text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, pa.ArrowNotImplementedError):
        return pa.array([_text(v) for v in values], pa.string())


def cast(array: pa.Array, kind: ColumnType, zone: ZoneInfo) -> tuple[pa.Array, Mask]:
    """Cast a column.

    Args:
        array: any type, shape (n,).
        kind: the declared type.
        zone: of instants that carry none.

    Returns:
        The column, null where it was null or could not be cast, and where it could not be cast.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    out = CASTS[kind](array, zone)
    said = pc.is_valid(_trimmed(array) if _is_text(array) else array)  # empty text is null
    return out, np.asarray(pc.and_(pc.is_null(out), said), dtype=bool)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _nothing(array: pa.Array, kind: ColumnType) -> pa.Array:
    return pa.nulls(len(array), ARROW[kind])


def _is_text(array: pa.Array) -> bool:
    return pa.types.is_string(array.type) or pa.types.is_large_string(array.type)


def _trimmed(array: pa.Array) -> pa.Array:
    text = pc.utf8_trim_whitespace(pc.cast(array, pa.string()))
    return pc.if_else(pc.equal(text, ""), None, text)


def _matching(text: pa.Array, pattern: str) -> pa.Array:
    matches = pc.fill_null(pc.match_substring_regex(text, pattern), False)
    return pc.if_else(matches, text, None)


def _to_string(array: pa.Array, _zone: ZoneInfo) -> pa.Array:
    if _is_text(array):
        text = pc.cast(array, pa.string())
        return pc.if_else(pc.equal(pc.utf8_trim_whitespace(text), ""), None, text)
    if _is_bytes(array.type):
        return pa.array([_decoded(v) for v in array.to_pylist()], pa.string())
    if pa.types.is_nested(array.type):
        return pa.array([_text(v) for v in array.to_pylist()], pa.string())
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
    if _is_text(array):
        text = _matching(_trimmed(array), NUMBER)
        return pc.cast(pc.replace_substring_regex(text, r"^\+", ""), pa.float64())
    if _is_number(array.type):
        return pc.cast(array, pa.float64(), safe=False)
    return _nothing(array, ColumnType.DOUBLE)


def _to_long(array: pa.Array, _zone: ZoneInfo) -> pa.Array:
    if _is_text(array):
        text = _matching(_trimmed(array), WHOLE)
        text = pc.replace_substring_regex(text, r"\.0*$", "")
        wide = pc.cast(pc.replace_substring_regex(text, r"^\+", ""), pa.decimal128(38, 0))
        return _narrow(wide)
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


def _narrow(wide: pa.Array) -> pa.Array:
    low, high = (pa.scalar(v, pa.decimal128(38, 0)) for v in (-(2**63), 2**63 - 1))
    inside = pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high))
    return pc.cast(pc.if_else(pc.fill_null(inside, False), wide, None), pa.int64())


def _to_boolean(array: pa.Array, _zone: ZoneInfo) -> pa.Array:
    if pa.types.is_boolean(array.type):
        return array
    if _is_text(array):
        text = pc.utf8_lower(_trimmed(array))
        known = pc.is_in(text, pa.array(["true", "false", "1", "0"]))
        yes = pc.is_in(text, pa.array(["true", "1"]))
        return pc.if_else(known, yes, None)
    return _nothing(array, ColumnType.BOOLEAN)


def _to_instant(array: pa.Array, zone: ZoneInfo) -> pa.Array:
    found = _instants(array, zone)
    counts = pc.cast(found, pa.int64())
    known = pc.and_(pc.greater_equal(counts, YEAR_1), pc.less(counts, YEAR_10000))
    return pc.if_else(known, found, pa.scalar(None, INSTANT))


def _instants(array: pa.Array, zone: ZoneInfo) -> pa.Array:
    kind = array.type
    if pa.types.is_timestamp(kind):
        micros = pc.cast(_inside(array), pa.timestamp("us", kind.tz), safe=False)
        return pc.cast(micros, INSTANT) if kind.tz else _in_zone(micros, zone)
    if pa.types.is_date(kind):
        seconds = pc.cast(array, pa.timestamp("s"))
        return _in_zone(pc.cast(_inside(seconds), pa.timestamp("us")), zone)
    if not _is_text(array):
        return _nothing(array, ColumnType.TIMESTAMP)
    text = pc.replace_substring_regex(_trimmed(array), r"(\.\d{6})\d+", r"\1")
    zoned = _parsed(_matching(text, ZONED), INSTANT)
    naive = _parsed(_matching(text, NAIVE), pa.timestamp("us"))
    return pc.coalesce(zoned, _in_zone(naive, zone))


def _inside(instants: pa.Array) -> pa.Array:
    """Without those that microseconds cannot hold: they would wrap around to some other time."""
    if instants.type.unit not in PER_SECOND:
        return instants
    limit = PER_SECOND[instants.type.unit] * SECONDS_LIMIT
    counts = pc.cast(instants, pa.int64())
    inside = pc.and_(pc.less(counts, limit), pc.greater(counts, -limit))
    return pc.if_else(inside, instants, pa.scalar(None, instants.type))


def _parsed(text: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:  # some date that does not exist, as 30 February
        return pa.concat_arrays([_parsed_one(v, kind) for v in text])


def _parsed_one(value: pa.Scalar, kind: pa.DataType) -> pa.Array:
    try:
        return pa.array([value]).cast(kind)
    except pa.ArrowInvalid:
        return pa.nulls(1, kind)


def _in_zone(naive: pa.Array, zone: ZoneInfo) -> pa.Array:
    aware = pc.assume_timezone(naive, zone.key, ambiguous="earliest", nonexistent="earliest")
    return pc.cast(aware, INSTANT)


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


CASTS = {
    ColumnType.STRING: _to_string,
    ColumnType.LONG: _to_long,
    ColumnType.DOUBLE: _to_double,
    ColumnType.BOOLEAN: _to_boolean,
    ColumnType.TIMESTAMP: _to_instant,
}
