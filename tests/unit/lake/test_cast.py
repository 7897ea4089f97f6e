"""The same text gives the same value from every format; a bad value never spoils the others."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from penstock.core.measure import ColumnType
from penstock.lake.ingest.cast import cast, from_json

VIENNA = ZoneInfo("Europe/Vienna")
HERE = ZoneInfo("UTC")
BAD = object()
C = ColumnType


def one(value: Any, kind: ColumnType, zone: ZoneInfo = HERE) -> Any:
    """A value cast between two others that are fine; BAD where it could not be."""
    array = value if isinstance(value, pa.Array) else pa.array([value])
    out, bad = cast(array, kind, zone)
    assert len(out) == len(bad) == len(array)
    return BAD if bad[0] else out[0].as_py()


TEXTS = [
    (C.DOUBLE, "1.5", 1.5), (C.DOUBLE, " 1.5 ", 1.5), (C.DOUBLE, "+1.5", 1.5),
    (C.DOUBLE, "-1.", -1.0), (C.DOUBLE, ".5", 0.5), (C.DOUBLE, "1e3", 1000.0),
    (C.DOUBLE, "", None), (C.DOUBLE, "  ", None), (C.DOUBLE, "1,5", BAD), (C.DOUBLE, "0x10", BAD),
    (C.DOUBLE, "abc", BAD), (C.DOUBLE, "1e", BAD), (C.DOUBLE, "Infinity", float("inf")),
    (C.DOUBLE, "-inf", -float("inf")), (C.DOUBLE, "1_000", BAD),
    (C.LONG, "12", 12), (C.LONG, "-12", -12), (C.LONG, "+12", 12), (C.LONG, "12.0", 12),
    (C.LONG, "12.", 12), (C.LONG, "12.5", BAD), (C.LONG, "1e3", 1000), (C.LONG, "", None),
    (C.LONG, "1.5e1", 15), (C.LONG, "-1.2E+3", -1200), (C.LONG, "1e-1", BAD),
    (C.LONG, "10e-1", 1), (C.LONG, "0e99", 0), (C.LONG, "1e19", BAD), (C.LONG, "1e9999", BAD),
    (C.LONG, "9.223372036854775807e18", 2**63 - 1), (C.LONG, "9.223372036854775808e18", BAD),
    (C.LONG, "9223372036854775807", 2**63 - 1), (C.LONG, "9223372036854775808", BAD),
    (C.LONG, "-9223372036854775808", -(2**63)), (C.LONG, "9" * 25, BAD), (C.LONG, "true", BAD),
    (C.BOOLEAN, "true", True), (C.BOOLEAN, "FALSE", False), (C.BOOLEAN, "1", True),
    (C.BOOLEAN, "0", False), (C.BOOLEAN, "yes", BAD), (C.BOOLEAN, "", None),
    (C.STRING, "x", "x"), (C.STRING, " x ", " x "), (C.STRING, "", None),
    (C.STRING, "Zürich", "Zürich"),
    (C.TIMESTAMP, "2024-02-29T12:00:00Z", datetime(2024, 2, 29, 12, tzinfo=UTC)),
    (C.TIMESTAMP, "2024-02-29 12:00:00", datetime(2024, 2, 29, 12, tzinfo=UTC)),
    (C.TIMESTAMP, "2024-02-29T12:00", datetime(2024, 2, 29, 12, tzinfo=UTC)),
    (C.TIMESTAMP, "2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
    (C.TIMESTAMP, "2024-02-29T12:00:00.123456789Z", datetime(2024, 2, 29, 12, 0, 0, 123456, UTC)),
    (C.TIMESTAMP, "2024-02-29T12:00:00.5+02:00", datetime(2024, 2, 29, 10, 0, 0, 500000, UTC)),
    (C.TIMESTAMP, "2024-02-29T12:00:00+0200", datetime(2024, 2, 29, 10, tzinfo=UTC)),
    (C.TIMESTAMP, "2024-02-29T12:00:00-02", datetime(2024, 2, 29, 14, tzinfo=UTC)),
    (C.TIMESTAMP, "2023-02-29T12:00:00Z", BAD), (C.TIMESTAMP, "2024-02-29T25:00:00Z", BAD),
    (C.TIMESTAMP, "29.02.2024", BAD), (C.TIMESTAMP, "1709208000", BAD), (C.TIMESTAMP, "", None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "wanted"), TEXTS)
def test_text(kind: ColumnType, text: str, wanted: Any) -> None:
    assert one(text, kind) == wanted
    other = "@@" if kind is not C.STRING else "ok"
    together, bad = cast(pa.array([other, text, None]), kind, HERE)
    assert bad.tolist() == [kind is not C.STRING, wanted is BAD, False]
    assert together[2].as_py() is None


ARROWS = [
    (C.DOUBLE, pa.array([3], pa.int8()), 3.0), (C.DOUBLE, pa.array([0.5], pa.float32()), 0.5),
    (C.DOUBLE, pa.array([Decimal("1.25")]), 1.25), (C.DOUBLE, pa.array([True]), BAD),
    (C.DOUBLE, pa.array([2**53 + 1]), float(2**53)), (C.DOUBLE, pa.array([[1.0]]), BAD),
    (C.LONG, pa.array([3], pa.uint8()), 3), (C.LONG, pa.array([2**64 - 1], pa.uint64()), BAD),
    (C.LONG, pa.array([2.0]), 2), (C.LONG, pa.array([2.5]), BAD), (C.LONG, pa.array([1e19]), BAD),
    (C.LONG, pa.array([float("nan")]), BAD), (C.LONG, pa.array([2.0], pa.float32()), 2),
    (C.LONG, pa.array([Decimal("7.00")]), 7), (C.LONG, pa.array([Decimal("7.50")]), BAD),
    (C.LONG, pa.array([False]), BAD),
    (C.BOOLEAN, pa.array([True]), True), (C.BOOLEAN, pa.array([1]), BAD),
    (C.STRING, pa.array([7]), "7"), (C.STRING, pa.array([True]), "true"),
    (C.STRING, pa.array([b"abc"]), "abc"), (C.STRING, pa.array([b"\xff"]), BAD),
    (C.STRING, pa.array([[1, 2]]), "[1, 2]"), (C.STRING, pa.array([{"a": None}]), '{"a": null}'),
    (C.STRING, pa.array(["a"]).dictionary_encode(), "a"),
    (C.STRING, pa.array(["a"], pa.large_string()), "a"),
    (C.LONG, pa.array(["12"], pa.large_string()), 12),
    (C.LONG, pa.array([None], pa.null()), None), (C.STRING, pa.array([None], pa.null()), None),
    (C.TIMESTAMP, pa.array([None], pa.null()), None),
    (C.DOUBLE, pa.array([None], pa.null()), None), (C.BOOLEAN, pa.array([None], pa.null()), None),
    (C.TIMESTAMP, pa.array([date(2024, 7, 1)]), datetime(2024, 7, 1, tzinfo=UTC)),
    (C.TIMESTAMP, pa.array([1_719_792_000_000_000_999], pa.timestamp("ns")),
     datetime(2024, 7, 1, tzinfo=UTC)),
    (C.TIMESTAMP, pa.array([1_719_792_000], pa.timestamp("s", "America/New_York")),
     datetime(2024, 7, 1, tzinfo=UTC)),
    (C.TIMESTAMP, pa.array([1_719_792_000]), BAD),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "array", "wanted"), ARROWS)
def test_arrow(kind: ColumnType, array: pa.Array, wanted: Any) -> None:
    assert one(array, kind) == wanted


def test_an_instant_without_zone_is_read_in_the_pipelines() -> None:
    summer = datetime(2024, 7, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert one("2024-07-01T12:00:00", C.TIMESTAMP, VIENNA) == summer
    assert one(pa.array([datetime(2024, 7, 1, 12)]), C.TIMESTAMP, VIENNA) == summer  # noqa: DTZ001
    assert one("2024-07-01T12:00:00Z", C.TIMESTAMP, VIENNA) == summer + timedelta(hours=2)


def test_a_repeated_hour_is_its_first_and_a_skipped_one_keeps_its_distance() -> None:
    first = datetime(2024, 10, 27, 0, 30, tzinfo=UTC)
    assert one("2024-10-27T02:30:00", C.TIMESTAMP, VIENNA) == first
    shifted = datetime(2024, 3, 31, 1, 30, tzinfo=UTC)
    assert one("2024-03-31T02:30:00", C.TIMESTAMP, VIENNA) == shifted


@pytest.mark.parametrize(("values", "kind", "wanted"), [
    ([1, 2.5, None], C.DOUBLE, [1.0, 2.5, None]),
    ([1, "2"], C.LONG, [1, 2]),
    ([True, "false"], C.BOOLEAN, [True, False]),
    ([True, 1, 0, 2, "1"], C.BOOLEAN, [True, True, False, BAD, True]),
    ([1_234_567_890_123_456, 1.5, True, None, "null"], C.STRING,
     ["1234567890123456", "1.5", "true", None, "null"]),
    ([2**63 - 1, 2.0, 1e16, 1e-3], C.LONG, [2**63 - 1, 2, 10**16, BAD]),
    (['a"b\\\n\u00e9\U0001f600', "\\", ""], C.STRING, ['a"b\\\n\u00e9\U0001f600', "\\", None]),
    ([2**70, 1], C.LONG, [BAD, 1]),
    ([2**70, 1], C.DOUBLE, [2.0**70, 1.0]),
    ([2**53 + 1, 0.5], C.LONG, [2**53 + 1, BAD]),
    ([{"a": 1}, 3], C.STRING, ['{"a": 1}', "3"]),
    (["x", {"a": [1]}], C.STRING, ["x", '{"a": [1]}']),
    (["2024-01-01T00:00:00Z", 5], C.TIMESTAMP, [datetime(2024, 1, 1, tzinfo=UTC), BAD]),
])  # fmt: skip
def test_json_values(values: list[Any], kind: ColumnType, wanted: list[Any]) -> None:
    for ascii_only in (True, False):
        texts = [json.dumps(v, ensure_ascii=ascii_only).encode() for v in values]
        out, bad = cast(from_json(texts), kind, ZoneInfo("UTC"))
        assert [BAD if b else v for v, b in zip(out.to_pylist(), bad, strict=True)] == wanted


@pytest.mark.parametrize("kind", list(ColumnType))
def test_nothing_at_all(kind: ColumnType) -> None:
    for empty in (pa.array([], pa.string()), pa.array([], pa.null()), pa.array([], pa.int32())):
        out, bad = cast(empty, kind, VIENNA)
        assert len(out) == len(bad) == 0
