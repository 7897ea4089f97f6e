"""Columns of Parquet as other writers make them: no wrong value, no wait for ever, no traceback."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.gates import Gate

AT = datetime(2024, 3, 1, 12, tzinfo=UTC)


def gate_of(home: Path, values: pa.Array, kind: str, **written: Any) -> Gate:
    gate = Gate(home, "parquet", columns={"site": "string", "v": kind, "code": "long",
                                          "delay": "double", "bags": "long"})  # fmt: skip
    place = home / "live"
    place.mkdir(parents=True, exist_ok=True)
    rows = {"event_time": pa.array([AT] * len(values)), "site": pa.array(["a"] * len(values))}
    pq.write_table(pa.table(rows | {"v": values, "other": values}), place / "a.parquet", **written)
    return gate


YEARS = [datetime(y, 1, 2, 3, 4, 5, 678901, tzinfo=UTC) for y in (1, 1600, 1969, 2300, 9999)]


def test_int96_holds_every_year(tmp_path: Path) -> None:
    """Spark's default for years; 9999 for 'never' became 1816."""
    values = pa.array(YEARS, pa.timestamp("us", "UTC"))
    gate = gate_of(tmp_path, values, "timestamp", use_deprecated_int96_timestamps=True)
    assert gate.take() == len(YEARS)
    assert [row["v"] for row in gate.rows("events")] == YEARS


def test_int96_of_long_ago_is_not_ahead_of_the_clock(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "parquet")
    (tmp_path / "live").mkdir(exist_ok=True)
    old = pa.array([datetime(1600, 1, 1)] * 9, pa.timestamp("us"))  # noqa: DTZ001
    rows = pa.table({"event_time": old, "site": ["a"] * 9})
    pq.write_table(rows, tmp_path / "live" / "a.parquet", use_deprecated_int96_timestamps=True)
    assert gate.take() == 9
    assert {reason for _, reason, _, _ in gate.refused()} == {"event time before not_before"}


KINDS: dict[str, tuple[pa.Array, dict[str, list[Any]]]] = {
    "text by view": (
        pa.array(["1", "x", None], pa.string_view()),
        {"long": [1, "refused", None], "string": ["1", "x", None]},
    ),
    "bytes by view": (
        pa.array([b"1", b"\xff"], pa.binary_view()),
        {"string": ["1", "refused"], "double": ["refused", "refused"]},
    ),
    "short decimals": (
        pa.array([Decimal("2.00"), Decimal("1.50")], pa.decimal32(5, 2)),
        {"long": [2, "refused"], "double": [2.0, 1.5], "string": ["2.00", "1.50"]},
    ),
    "instants and decimals inside": (
        pa.array([{"at": AT, "price": Decimal("1.50"), "raw": b"\xff"}, None]),
        {"string": ['{"at": "2024-03-01 12:00:00+00:00", "price": "1.50", "raw": "\\\\xff"}', None],
         "long": ["refused", None]},
    ),
    "an instant inside that Python cannot hold": (
        pa.array([{"at": 2**62}, {"at": 0}], pa.struct([("at", pa.timestamp("us"))])),
        {"string": ["refused", '{"at": "1970-01-01 00:00:00"}'], "long": ["refused"] * 2},
    ),
    "nanoseconds before 1970": (
        pa.array([-1, -1_000, 1_999], pa.timestamp("ns", "UTC")),
        {"timestamp": [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)] * 2
         + [datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n, (_, k) in KINDS.items() for k in k])
def test_columns_of_other_writers_are_read(tmp_path: Path, name: str, kind: str) -> None:
    values, expected = KINDS[name]
    gate = gate_of(tmp_path, values, kind)
    assert gate.take() == len(values)
    found = {row["arrival_seq"]: row["v"] for row in gate.rows("events")}
    found |= {row[0]: "refused" for row in gate.refused()}
    assert [found[i] for i in range(len(values))] == expected[kind]


def test_a_column_without_a_name_is_kept(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "csv")
    gate.write("a.csv", f"event_time,site,\n{'2024-03-01T12:00:00Z'},a,left over\n")
    assert gate.take() == 1
    assert "left over" in gate.rows("events")[0]["extra"]
