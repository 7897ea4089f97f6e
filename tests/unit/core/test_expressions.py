"""One meaning of an expression in every layer: vectorised, as SQL, and in plain Python."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.columns.expressions import evaluate, rows_where
from penstock.config.expression import parse_measure, parse_where
from penstock.core.expression import to_sql
from penstock.core.measure import ColumnType

TYPES = {
    "x": ColumnType.DOUBLE,
    "n": ColumnType.LONG,
    "s": ColumnType.STRING,
    "b": ColumnType.BOOLEAN,
    "t": ColumnType.TIMESTAMP,
}
ROWS = [
    {"x": x, "n": n, "s": s, "b": b, "t": t}
    for (x, n), s, (b, t) in itertools.product(
        [(None, 1), (0.0, None), (-0.0, 0), (1.5, 2), (1e308, 10**15), (-3.0, -3)],
        [None, "a'b", "\\", "Zürich"],
        [(None, None), (True, 0), (False, 1)],
    )
]
TABLE = pa.Table.from_pylist(
    ROWS,
    pa.schema({"x": pa.float64(), "n": pa.int64(), "s": pa.string(), "b": pa.bool_(),
               "t": pa.timestamp("us", "UTC")}.items()),
)  # fmt: skip


def and_(*values: bool | None) -> bool | None:
    return False if False in values else None if None in values else True


def or_(*values: bool | None) -> bool | None:
    return True if True in values else None if None in values else False


def not_(value: bool | None) -> bool | None:
    return None if value is None else not value


def compared(a: Any, b: Any, test: Callable[[Any, Any], bool]) -> bool | None:
    return None if a is None or b is None else test(a, b)


Row = dict[str, Any]
WHERES: list[tuple[str, Callable[[Row], bool | None]]] = [
    ("x > 0", lambda r: compared(r["x"], 0, lambda a, b: a > b)),
    ("x >= 0", lambda r: compared(r["x"], 0, lambda a, b: a >= b)),
    ("x = 0", lambda r: compared(r["x"], 0, lambda a, b: a == b)),
    ("x <> n", lambda r: compared(r["x"], r["n"], lambda a, b: a != b)),
    ("n <= 1.5", lambda r: compared(r["n"], 1.5, lambda a, b: a <= b)),
    ("abs(x - n) > 1", lambda r: compared(r["x"], r["n"], lambda a, b: abs(a - b) > 1)),
    ("abs(n) = 2", lambda r: compared(r["n"], 2, lambda a, b: abs(a) == b)),
    ("NOT n < 1", lambda r: not_(compared(r["n"], 1, lambda a, b: a < b))),
    (r"s = 'a\'b'", lambda r: compared(r["s"], "a'b", lambda a, b: a == b)),
    ("s IN ('Zürich', 'x')", lambda r: compared(r["s"], ("Zürich", "x"), lambda a, b: a in b)),
    ("s NOT IN ('Zürich')", lambda r: compared(r["s"], "Zürich", lambda a, b: a != b)),
    ("n IN (1, 2.0, x)", lambda r: or_(*(compared(r["n"], v, lambda a, b: a == b)
                                        for v in (1, 2.0, r["x"])))),
    ("b", lambda r: r["b"]),
    ("NOT b", lambda r: not_(r["b"])),
    ("b = TRUE", lambda r: compared(r["b"], True, lambda a, b: a == b)),
    ("b AND x > 0", lambda r: and_(r["b"], compared(r["x"], 0, lambda a, b: a > b))),
    ("b OR x > 0", lambda r: or_(r["b"], compared(r["x"], 0, lambda a, b: a > b))),
    ("s IS NULL", lambda r: r["s"] is None),
    ("t IS NOT NULL AND (x IS NULL OR n IS NULL)",
     lambda r: r["t"] is not None and (r["x"] is None or r["n"] is None)),
    ("TRUE", lambda r: True),
    ("1 > 2", lambda r: False),
    ("s < 'b'", lambda r: compared(r["s"], "b", lambda a, b: a < b)),
]  # fmt: skip


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def divided(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None or b == 0 else finite(a / b)


def calculated(*values: Any, by: Callable[..., float]) -> float | None:
    return None if None in values else finite(by(*(float(v) for v in values)))


SUMS: list[tuple[str, Callable[[Row], float | None]]] = [
    ("sum(x + n)", lambda r: calculated(r["x"], r["n"], by=lambda a, b: a + b)),
    ("sum(x * x)", lambda r: calculated(r["x"], r["x"], by=lambda a, b: a * b)),
    ("sum(n / 2)", lambda r: divided(r["n"], 2.0)),
    ("sum(1 / n)", lambda r: divided(1.0, r["n"])),
    ("sum(-x)", lambda r: calculated(r["x"], by=lambda a: 0.0 - a)),
    ("sum((x - n) / (n - 2))", lambda r: divided(
        calculated(r["x"], r["n"], by=lambda a, b: a - b),
        calculated(r["n"], by=lambda a: a - 2.0))),
    ("sum(x * 10 * x)", lambda r: calculated(
        calculated(r["x"], by=lambda a: a * 10), r["x"], by=lambda a, b: a * b)),
]  # fmt: skip


def in_duckdb(sql: str) -> list[Any]:
    """DuckDB reads the text that Spark gets, apart from the marks around names and strings."""
    text = sql.replace("`", '"').replace("\\'", "''").replace("\\\\", "\\")
    with duckdb.connect() as connection:
        connection.register("rows", TABLE)
        return [v for (v,) in connection.sql(f"SELECT {text} FROM rows").fetchall()]


@pytest.mark.parametrize(("text", "plain"), WHERES, ids=[t for t, _ in WHERES])
def test_a_condition_means_the_same_everywhere(text: str, plain: Callable[[Row], Any]) -> None:
    condition = parse_where(text, TYPES)
    wanted = [plain(row) for row in ROWS]
    found = evaluate(condition, TABLE)
    values = [found.as_py()] * len(ROWS) if isinstance(found, pa.Scalar) else found.to_pylist()
    assert values == wanted
    assert in_duckdb(to_sql(condition)) == wanted
    kept = rows_where(condition, TABLE)
    assert kept.num_rows == sum(v is True for v in wanted)


@pytest.mark.parametrize(("text", "plain"), SUMS, ids=[t for t, _ in SUMS])
def test_arithmetic_means_the_same_everywhere(text: str, plain: Callable[[Row], Any]) -> None:
    over = parse_measure("m", text, TYPES).over
    assert over is not None
    wanted = [plain(row) for row in ROWS]
    assert evaluate(over, TABLE).to_pylist() == wanted
    assert in_duckdb(to_sql(over)) == wanted


@pytest.mark.parametrize(("text", "said"), [
    ("x", "'x' is not a condition: compare it"),
    ("x > ", "cannot read 'x > '"),
    ("y > 0", "column y is not declared: add it under columns .declared: b, n, s, t, x"),
    ("s > 1", "compares string with number: make them alike"),
    ("s + 1 > 0", "needs numbers, found string and number"),
    ("abs(s) > 1", "needs numbers, found string"),
    ("x AND b", "needs conditions, found number and boolean"),
    ("t = t", "instants can only be tested with IS NULL"),
    ("s LIKE 'a%'", "is not supported: use columns, constants"),
    ("lower(s) = 'a'", "is not supported"),
    ("b IS TRUE", "is not supported"),
    ("x BETWEEN 1 AND 2", "is not supported"),
])  # fmt: skip
def test_a_wrong_condition_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_where(text, TYPES)


@pytest.mark.parametrize(("text", "said"), [
    ("x", "'x' is not a measure: write count"),
    ("stddev(x)", "is not a measure"),
    ("count(distinct s)", "only one plain argument can be merged"),
    ("max(x, n)", "only one plain argument"),
    ("sum(s)", "sum needs numbers, this is a string"),
    ("min(t)", "min needs numbers, this is a timestamp"),
    ("avg(b)", "avg needs numbers, this is a boolean"),
    ("count(*) + 1", "is not a measure"),
])  # fmt: skip
def test_a_wrong_measure_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_measure("m", text, TYPES)


@pytest.mark.parametrize(("text", "kind"), [
    ("count(*)", ColumnType.LONG), ("count", ColumnType.LONG), ("count(s)", ColumnType.LONG),
    ("sum(n)", ColumnType.LONG), ("sum(x)", ColumnType.DOUBLE), ("avg(n)", ColumnType.DOUBLE),
    ("min(n)", ColumnType.LONG), ("max(n + 0)", ColumnType.DOUBLE),
])  # fmt: skip
def test_the_type_of_a_measure(text: str, kind: ColumnType) -> None:
    assert parse_measure("m", text, TYPES).type is kind


BROKEN = [
    ("x IN (SELECT 1)", "a subquery has no list of values"),
    ("b < TRUE", "truth values have no order"),
    ("x < 1e999", "a constant beyond the doubles"),
]


@pytest.mark.parametrize("text", [t for t, _ in BROKEN], ids=[why for _, why in BROKEN])
def test_what_no_layer_can_compute_is_refused_when_the_file_is_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_where(text, TYPES)
