"""Values that no answer can use: refused one by one, with reason and place."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.gates import Gate, T

GOOD = {"event_time": T, "site": "x", "delay": 1.0}


def send(gate: Gate, *records: Any, name: str = "a.jsonl") -> int:
    lines = (r if isinstance(r, str) else json.dumps(r) for r in records)
    gate.write(name, "".join(f"{line}\n" for line in lines))
    return gate.take()


def send_parquet(gate: Gate, name: str = "a.parquet", **columns: Any) -> int:
    count = max((len(c) for c in columns.values()), default=1)
    whole = {name: [value] * count for name, value in GOOD.items()} | columns
    path = gate.home / "live" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(whole), path)
    return gate.take()


@pytest.mark.parametrize("value", [None, "", "   ", "\t\u2003"])
def test_a_null_or_empty_key_is_refused(tmp_path: Path, value: str | None) -> None:
    gate = Gate(tmp_path, "jsonl")
    without = {k: v for k, v in GOOD.items() if k != "site"}
    assert send(gate, GOOD, GOOD | {"site": value}, without) == 3
    lines = [("missing key", f"live/a.jsonl: line {n}") for n in (2, 3)]
    assert gate.reasons() == lines
    assert gate.conserved() == (1, 2)


@pytest.mark.parametrize(("value", "reason"), [
    ("2199-01-01T00:00:00Z", "event time ahead of arrival"),
    ("9999-12-31T23:59:59.999999Z", "event time ahead of arrival"),
    ("10000-01-01T00:00:00Z", "not castable"),
    ("99999999-01-01T00:00:00Z", "not castable"),
    ("1899-12-31T23:59:59Z", "event time before not_before"),
    ("0001-01-01T00:00:00Z", "event time before not_before"),
    ("0000-01-01T00:00:00Z", "not castable"),
    ("-0044-03-15T12:00:00Z", "not castable"),
    ("2024-02-30T00:00:00Z", "not castable"),
    ("2024-03-01T24:00:00Z", "not castable"),
    ("2024-03-01T12:00:60Z", "not castable"),
    (1_709_294_400, "not castable"),
    ({}, "not castable"),
    (None, "missing event time"),
])  # fmt: skip
def test_an_event_time_that_cannot_be_is_refused(tmp_path: Path, value: Any, reason: str) -> None:
    gate = Gate(tmp_path, "jsonl")
    assert send(gate, GOOD | {"event_time": value}, GOOD) == 2
    assert gate.reasons() == [(reason, "live/a.jsonl: line 1")]
    assert gate.conserved() == (1, 1)


def test_an_arrival_beyond_the_plans_instant_and_skew_is_refused_and_closes_nothing(
    tmp_path: Path,
) -> None:
    gate = Gate(tmp_path, "jsonl", arrival_time="came")
    now = gate.clock.now()
    far, edge = "2099-01-01T00:00:00Z", (now + timedelta(minutes=5)).isoformat()
    beyond = (now + timedelta(minutes=5, microseconds=1)).isoformat()
    assert send(
        gate,
        {"event_time": far, "came": far, "site": "x"},
        {"event_time": edge, "came": edge, "site": "x"},
        {"event_time": T, "came": beyond, "site": "x"},
        GOOD | {"came": None},
    ) == 4  # fmt: skip
    assert gate.reasons() == [
        ("arrival time ahead of ingest", "live/a.jsonl: line 1"),
        ("arrival time ahead of ingest", "live/a.jsonl: line 3"),
    ]
    assert gate.conserved() == (2, 2)
    assert gate.rows("blocks")[0]["t_max"] == now + timedelta(minutes=5)


WRAPPED = 1_709_294_400_000 + 2**61
"""Milliseconds of which the microseconds would be, modulo 2^64, those of a plausible instant."""


@pytest.mark.parametrize(("unit", "value"), [
    ("ms", 2**62), ("ms", -(2**62)), ("ms", WRAPPED), ("us", 2**63 - 1), ("us", -(2**63) + 1),
])  # fmt: skip
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_an_instant_beyond_microseconds_is_refused_and_does_not_wrap_around(
    tmp_path: Path, unit: str, value: int, zone: str | None
) -> None:
    gate = Gate(tmp_path, "parquet", zone="Europe/Vienna")
    good = 1_709_294_400 * {"ms": 10**3, "us": 10**6}[unit]
    column = pa.array([value, good, None], pa.int64()).cast(pa.timestamp(unit, zone))
    path = gate.home / "live" / "a.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"event_time": column, "site": ["x"] * 3}), path)
    assert gate.take() == 3
    assert [r["arrival_seq"] for r in gate.rows("events")] == [1]
    assert gate.reasons() == [
        ("not castable", "live/a.parquet: row 1"),
        ("missing event time", "live/a.parquet: row 3"),
    ]
    gate.conserved()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", '"nan"', '"-inf"', "1e999"])
def test_nan_and_infinity_are_refused_as_numbers_and_as_text(tmp_path: Path, value: str) -> None:
    gate = Gate(tmp_path, "jsonl")
    assert send(gate, f'{{"event_time": "{T}", "site": "x", "delay": {value}}}', GOOD) == 2
    assert gate.reasons() == [("NaN or infinity", "live/a.jsonl: line 1")]
    assert gate.conserved() == (1, 1)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()])
def test_nan_and_infinity_are_refused_in_parquet(tmp_path: Path, kind: pa.DataType) -> None:
    gate = Gate(tmp_path, "parquet")
    values = pa.array([float("nan"), float("inf"), float("-inf"), -0.0, None]).cast(kind)
    assert send_parquet(gate, delay=values) == 5
    assert [r for r, _ in gate.reasons()] == ["NaN or infinity"] * 3
    assert gate.conserved() == (2, 3)
    zero = gate.rows("events")[0]["delay"]
    assert str(zero) == "0.0", "a negative zero is zero"


def test_duplicates_are_records_like_any_other_without_a_declared_id(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    assert send(gate, GOOD, GOOD) == 2
    assert send(gate, GOOD, name="b.jsonl") == 1
    assert gate.conserved() == (3, 0)


def test_of_duplicates_with_a_declared_id_the_first_good_one_counts(tmp_path: Path) -> None:
    columns = {"site": "string", "delay": "double", "bags": "long", "uid": "string"}
    gate = Gate(tmp_path, "jsonl", columns=columns, id={"column": "uid", "horizon": "PT1H"})
    first = [
        GOOD | {"uid": "a", "delay": "much"},
        GOOD | {"uid": "a", "bags": 1},
        GOOD | {"uid": "a", "bags": 2},
        GOOD | {"uid": 7},
        GOOD | {"uid": "7"},
        GOOD | {"uid": ""},
        GOOD,
    ]
    assert send(gate, *first) == 7
    assert send(gate, GOOD | {"uid": "a"}, name="b.jsonl") == 1
    assert [(r["uid"], r["bags"]) for r in gate.rows("events")] == [("a", 1), ("7", None)]
    assert [r for r, _ in gate.reasons()] == [
        "not castable", "repeated id", "repeated id", "missing key", "missing key", "repeated id",
    ]  # fmt: skip
    assert gate.conserved() == (2, 6)


def test_a_column_that_changes_its_type_from_file_to_file_is_cast_where_it_can_be(
    tmp_path: Path,
) -> None:
    gate = Gate(tmp_path, "parquet")
    versions: list[Any] = [
        [1.5, 2.0], ["3.5", "four"], [5, 6], [Decimal("7.25"), None], [True, False],
        [b"8", b"\xff"], [[9.0], []], [{"a": 1}, None], [datetime(2024, 3, 1, tzinfo=UTC), None],
        pa.array(["10", "x"]).dictionary_encode(), pa.nulls(2),
    ]  # fmt: skip
    for number, values in enumerate(versions):
        assert send_parquet(gate, f"{number:02}.parquet", delay=values) == 2
    found = [r["delay"] for r in gate.rows("events")]
    assert found == [1.5, 2.0, 3.5, 5.0, 6.0, 7.25, None, None, None, 10.0, None, None]
    assert {reason for reason, _ in gate.reasons()} == {"not castable"}
    assert gate.conserved() == (12, 10)


def test_columns_that_come_and_go_are_kept_or_null(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "parquet")
    assert send_parquet(gate, "0.parquet", colour=["red", None]) == 2
    assert send_parquet(gate, "1.parquet", delay=pa.nulls(1), extra=[7], arrival_seq=[99]) == 1
    pq.write_table(pa.table({"event_time": [T], "delay": [2.0]}), tmp_path / "live" / "2.parquet")
    pq.write_table(pa.table({"site": ["x"], "delay": [2.0]}), tmp_path / "live" / "3.parquet")
    pq.write_table(pa.table({}), tmp_path / "live" / "4.parquet")
    assert gate.take() == 2
    first, second, third = gate.kept()
    assert [row["extra"] for row in (first, second, third)] == [None] * 3
    assert [row["typed"] for row in (first, second, third)] == [
        {"colour": "red"}, {}, {"extra": 7, "arrival_seq": 99},
    ]  # fmt: skip
    assert (third["arrival_seq"], third["delay"]) == (2, None)
    assert [reason for reason, _ in gate.reasons()] == ["missing key", "missing event time"]
    assert gate.conserved() == (3, 2)


def test_columns_that_stand_twice_in_a_file_make_it_unreadable(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "parquet")
    twice = pa.table([pa.array([T]), pa.array(["x"]), pa.array(["y"])],
                     names=["event_time", "site", "site"])  # fmt: skip
    (tmp_path / "live").mkdir()
    pq.write_table(twice, tmp_path / "live" / "a.parquet")
    assert gate.take() == 1
    assert gate.reasons() == [("unreadable", "live/a.parquet")]
    gate.conserved()


def not_utf8(kind: pa.DataType) -> pa.Array:
    """Three texts of which the second is not UTF-8, whatever its type claims."""
    raw = pa.array([b"abc", b"a\xffc", None], pa.large_binary())
    if pa.types.is_large_string(kind):
        return pa.Array.from_buffers(kind, 3, raw.buffers())
    return pa.Array.from_buffers(kind, 3, raw.cast(pa.binary()).buffers())


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_of_parquet_that_is_not_utf8_is_refused_row_by_row(
    tmp_path: Path, kind: pa.DataType
) -> None:
    gate = Gate(tmp_path, "parquet")
    assert send_parquet(gate, site=not_utf8(kind), more=not_utf8(kind)) == 3
    assert gate.reasons() == [
        ("not castable", "live/a.parquet: row 2"), ("missing key", "live/a.parquet: row 3"),
    ]  # fmt: skip
    assert gate.conserved() == (1, 2)
    assert gate.rows("events")[0]["site"] == "abc"


@pytest.mark.parametrize("column", ["site", "more"])
@pytest.mark.parametrize("made", [
    pytest.param(lambda: pa.array([b"abc", b"a\xffc", None], pa.binary(3)), id="fixed size"),
    pytest.param(lambda: not_utf8(pa.string()).dictionary_encode(), id="dictionary"),
    pytest.param(lambda: pa.StructArray.from_arrays([not_utf8(pa.string())], ["a"]), id="struct"),
])  # fmt: skip
def test_bytes_in_other_clothes_lose_no_record(tmp_path: Path, made: Any, column: str) -> None:
    gate = Gate(tmp_path, "parquet")
    received = send_parquet(gate, **{column: made()})
    accepted, refused = gate.conserved()
    assert received == accepted + refused
    assert all(reason in {"not castable", "missing key", "unreadable"} for reason, _
               in gate.reasons())  # fmt: skip
    assert gate.take() == 0


@pytest.mark.parametrize("line", [
    pytest.param(b'{"event_time": "%s", "site": "a\xff"}', id="a stray byte"),
    pytest.param(b'{"event_time": "%s", "site": "\xed\xa0\x80"}', id="half a surrogate pair"),
    pytest.param(b'{"event_time": "%s", "site": "\\udc00"}', id="the same, escaped"),
    pytest.param(b'{"event_time": "%s", "\\ud800": 1, "site": "x"}', id="in a name"),
    pytest.param('{"event_time": "%s", "site": "é"}'.encode("latin-1"), id="Latin-1"),
])  # fmt: skip
def test_json_that_is_not_utf8_is_one_refused_record(tmp_path: Path, line: bytes) -> None:
    gate = Gate(tmp_path, "jsonl")
    gate.write("a.jsonl", line.replace(b"%s", T.encode()) + b"\n" + json.dumps(GOOD).encode())
    assert gate.take() == 2
    assert gate.reasons() == [("malformed", "live/a.jsonl: line 1")]
    assert gate.conserved() == (1, 1)


def test_json_in_utf16_is_refused_line_by_line(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    gate.write("a.jsonl", (json.dumps(GOOD) + "\n").encode("utf-16"))
    gate.take()
    assert gate.conserved()[0] == 0
    assert {reason for reason, _ in gate.reasons()} == {"malformed"}


@pytest.mark.parametrize("values", [
    pytest.param(pa.array([1, None]).cast(pa.decimal256(60, 10)), id="decimal of 256 bits"),
    pytest.param(pa.array([1.5, None]).cast(pa.float16()), id="half-precision number"),
    pytest.param(pa.array([2**62, None]).cast(pa.timestamp("ms")), id="instant of no calendar"),
    pytest.param(pa.array([[2**62], None], pa.list_(pa.int64())).cast(
        pa.list_(pa.timestamp("ms"))), id="list of such"),
    pytest.param(pa.array([1, None], pa.duration("us")), id="duration"),
    pytest.param(pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())), id="map"),
])  # fmt: skip
@pytest.mark.parametrize("wrong_time", [False, True])
def test_values_of_strange_types_are_kept_as_json(
    tmp_path: Path, values: pa.Array, wrong_time: bool
) -> None:
    gate = Gate(tmp_path, "parquet")
    columns = {"event_time": ["soon", "now"]} if wrong_time else {}
    assert send_parquet(gate, more=values, **columns) == 2
    assert gate.conserved() == ((0, 2) if wrong_time else (2, 0))
    rows = gate.rows("quarantine" if wrong_time else "events")
    first, second = (json.loads(row["raw" if wrong_time else "extra"]) for row in rows)
    assert first["more"] is not None
    assert second["more"] is None


def test_names_that_differ_only_in_case_or_are_empty_lose_no_record(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    assert send(gate, GOOD | {"Site": "y", "MORE": 1, "more": 2, "": 3, "a\u0000": 4}, GOOD) == 2
    assert gate.conserved() == (2, 0)
    assert [r["site"] for r in gate.rows("events")] == ["x", "x"]
