"""Instants of a source: ISO 8601, a declared form, counts since 1970, readings of a local clock.

A reading that two instants have, or none, is decided by the pipeline's ``ambiguous`` and marked.
"""

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import INSTANT
from penstock.config.intake import Ambiguous
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.ingest.text import is_text, matching, trimmed

ZONED = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)$"
NAIVE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?$"
COUNT = r"^[+-]?\d{1,18}(\.\d*)?$"
POWER = r"^[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})[eE][+-]?\d{1,4}$"
FINE_PAST = r"^-\d{1,18}\.\d{7,30}$"
"""Cutting off its digits would round towards 1970."""
COUNTED = {"s": 10**6, "ms": 10**3, "us": 1}
"""Microseconds of a unit."""
EXACT = pa.decimal128(25, 6)
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6}
SECONDS_LIMIT = 9_200_000_000_000
"""Microseconds of it fit 64 bits, and a zone's offset with them."""
YEAR_1, YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000
"""Of other years Python and many readers know nothing."""
EARLIER, LATER, SHIFTED = "earlier", "later", "shifted"

Micros = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LocalTime:
    """How readings without a zone are understood.

    Attributes:
        zone: of the clock.
        ambiguous: what a reading of a repeated hour means.
        newest: newest event time before these records, us; by order.
        latest: nothing is later than this, us, of all records or shape (n,); by order.
    """

    zone: ZoneInfo
    ambiguous: Ambiguous = Ambiguous.EARLIER
    newest: int = BEGINNING
    latest: int | Micros = FOREVER


@dataclass(frozen=True, slots=True)
class Instants:
    """A column of instants.

    Attributes:
        values: null where there is none, shape (n,).
        read_as: earlier, later, shifted where a clock's reading did not say it; else null.
    """

    values: pa.Array
    read_as: pa.Array


def read_instants(array: pa.Array, local: LocalTime, form: str = "") -> Instants:
    """Read a column.

    Args:
        array: any type, shape (n,).
        local: of readings without a zone.
        form: s, ms, us since 1970, or as ``strptime`` writes it; empty: ISO 8601.
    """
    zoned, naive = _readings(array, form)
    placed = _placed(naive, zoned, local)
    found = pc.coalesce(zoned, placed.values)
    counts = pc.cast(found, pa.int64())
    known = pc.and_(pc.greater_equal(counts, YEAR_1), pc.less(counts, YEAR_10000))
    return Instants(pc.if_else(known, found, pa.scalar(None, INSTANT)), placed.read_as)


def _readings(array: pa.Array, form: str) -> tuple[pa.Array, pa.Array]:
    """Instants that carry their zone, and readings that do not."""
    kind = array.type
    nothing = pa.nulls(len(array), INSTANT), pa.nulls(len(array), pa.timestamp("us"))
    if pa.types.is_timestamp(kind):
        micros = pc.cast(_floored(_inside(array)), pa.timestamp("us", kind.tz), safe=False)
        return (pc.cast(micros, INSTANT), nothing[1]) if kind.tz else (nothing[0], micros)
    if pa.types.is_date(kind):
        seconds = pc.cast(array, pa.timestamp("s"))
        return nothing[0], pc.cast(_inside(seconds), pa.timestamp("us"))
    if form and _is_number(kind):
        array = pc.cast(array, pa.string())
    if not is_text(array):
        return nothing
    text = trimmed(array)
    if form in COUNTED:
        return _counted(text, COUNTED[form]), nothing[1]
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    if form:
        return _written(text, form)
    zoned = _parsed(matching(text, ZONED), INSTANT)
    return zoned, _parsed(matching(text, NAIVE), pa.timestamp("us"))


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _counted(text: pa.Array, micros: int) -> pa.Array:
    """Numbers since 1970, exactly; fractions of a microsecond are cut off."""
    plain = pc.replace_substring_regex(matching(text, COUNT), r"(\.\d{6})\d+", r"\1")
    plain = pc.replace_substring_regex(plain, r"^\+|\.$", "")
    number = pc.cast(plain, EXACT)
    powers = matching(text, f"{POWER}|{FINE_PAST}")
    if powers.null_count < len(powers):
        number = pc.coalesce(pa.array([_exact(v) for v in powers.to_pylist()], EXACT), number)
    total = pc.floor(pc.multiply(number, pa.scalar(Decimal(micros), pa.decimal128(7, 0))))
    limit = pa.scalar(Decimal(YEAR_10000), pa.decimal128(38, 0))
    total = pc.cast(total, pa.decimal128(38, 0), safe=False)
    inside = pc.fill_null(pc.less(pc.abs(total), limit), False)
    return pc.cast(pc.cast(pc.if_else(inside, total, None), pa.int64()), INSTANT)


def _exact(text: str | None) -> Decimal | None:
    number = Decimal(text or 0)
    if text is None or number.adjusted() >= 18:  # noqa: PLR2004  digits before the point
        return None
    return number.quantize(Decimal("0.000001"), ROUND_FLOOR)


def _written(text: pa.Array, form: str) -> tuple[pa.Array, pa.Array]:
    """Read by a declared form; DuckDB's reader is quick and knows no locale."""
    if "%z" in form:
        text = pc.replace_substring_regex(text, "[zZ]$", "+0000")
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("rows", pa.table({"t": text}))
        got = connection.execute("SELECT try_strptime(t, ?) AS i FROM rows", [form])
        column = got.to_arrow_table()["i"].combine_chunks()
    found = pc.cast(column, pa.timestamp("us", column.type.tz))
    if column.type.tz is None and form.endswith(("Z", "UTC", "GMT")):
        found = pc.assume_timezone(found, "UTC")
    if found.type.tz is not None:
        return pc.cast(found, INSTANT), pa.nulls(len(text), pa.timestamp("us"))
    return pa.nulls(len(text), INSTANT), found


def _inside(instants: pa.Array) -> pa.Array:
    """Without those that microseconds cannot hold: they would wrap around to some other time."""
    if instants.type.unit not in PER_SECOND:
        return instants
    limit = PER_SECOND[instants.type.unit] * SECONDS_LIMIT
    counts = pc.cast(instants, pa.int64())
    inside = pc.and_(pc.less(counts, limit), pc.greater(counts, -limit))
    return pc.if_else(inside, instants, pa.scalar(None, instants.type))


def _floored(instants: pa.Array) -> pa.Array:
    """Nanoseconds of whole microseconds, cut off towards the past also before 1970."""
    if instants.type.unit != "ns":
        return instants
    counts = pc.cast(instants, pa.int64())
    whole = pc.divide(counts, 1_000)
    past = pc.and_(pc.less(counts, 0), pc.not_equal(pc.multiply(whole, 1_000), counts))
    whole = pc.subtract(whole, pc.cast(past, pa.int64()))
    return pc.cast(whole, pa.timestamp("us", instants.type.tz))


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


def _placed(naive: pa.Array, zoned: pa.Array, local: LocalTime) -> Instants:
    """Readings of a local clock as instants."""
    key, nowhere = local.zone.key, pa.nulls(len(naive), pa.string())
    early = pc.assume_timezone(naive, key, ambiguous="earliest", nonexistent="earliest")
    if naive.null_count == len(naive) or key == "UTC":
        return Instants(pc.cast(early, INSTANT), nowhere)
    late = pc.assume_timezone(naive, key, ambiguous="latest", nonexistent="earliest")
    shown = _counts(pc.local_timestamp(early))
    first, second, read = _counts(early), _counts(late), _counts(naive)
    skipped, twice = shown != read, first != second
    if not skipped.any() and not twice.any():
        return Instants(pc.cast(early, INSTANT), nowhere)
    values = np.where(skipped, read - (shown - first), first)  # the offset before the gap
    is_second = np.zeros(len(values), bool)
    if local.ambiguous is Ambiguous.LATER:
        is_second = twice
    elif local.ambiguous is Ambiguous.BY_ORDER:
        others = np.where(np.asarray(pc.is_valid(zoned)), _counts(zoned), values)
        others[np.asarray(pc.and_(pc.is_null(naive), pc.is_null(zoned)))] = BEGINNING
        is_second = _second_pass(first, second, others, twice, local)
    values = np.where(is_second, second, values)
    said = np.full(len(values), None, dtype=object)
    said[twice], said[is_second], said[skipped] = EARLIER, LATER, SHIFTED
    found = pa.array(values, mask=np.asarray(pc.is_null(naive))).cast(INSTANT)
    return Instants(found, pa.array(said, pa.string()))


def _second_pass(
    first: Micros, second: Micros, others: Micros, twice: npt.NDArray[np.bool_], local: LocalTime
) -> npt.NDArray[np.bool_]:
    """By order: which readings of a repeated hour belong to its second pass.

    Those whose first instant would lie more than half the repeated span before the newest time so
    far, if their second is possible at all.
    """
    known = np.where(twice | (others > local.latest), BEGINNING, others)
    before = np.maximum.accumulate(np.append(local.newest, known))[:-1]
    possible = second <= local.latest
    out, decided = np.zeros(len(first), bool), BEGINNING
    for row in np.flatnonzero(twice):
        newest, span = max(int(before[row]), decided), int(second[row] - first[row])
        out[row] = possible[row] and first[row] < newest - span // 2
        decided = max(decided, int(second[row] if out[row] else first[row]))
    return out


def _counts(instants: pa.Array) -> Micros:
    return np.asarray(pc.fill_null(pc.cast(instants, pa.int64()), 0))
