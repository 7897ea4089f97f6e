"""Expressions as values: their types, their columns, and the SQL that Spark is given."""

import pytest

from penstock.core.expression import (
    Column,
    Expression,
    Literal,
    MeasureSpec,
    Operation,
    Operator,
    QuantileSpec,
    columns_of,
    phi_of,
    to_sql,
    type_of,
)
from penstock.core.measure import ColumnType, Function

X, S, B = (
    Column(name, kind)
    for name, kind in (
        ("x", ColumnType.LONG), ("s s", ColumnType.STRING), ("b", ColumnType.BOOLEAN)
    )
)  # fmt: skip


def op(operator: Operator, *arguments: Expression) -> Operation:
    return Operation(operator, arguments)


@pytest.mark.parametrize("operator", Operator)
def test_arithmetic_gives_numbers_and_all_else_truth_values(operator: Operator) -> None:
    number = operator.value in ("+", "-", "*", "/", "ABS")
    kind = ColumnType.DOUBLE if number else ColumnType.BOOLEAN
    assert type_of(op(operator, X, X)) is kind


def test_a_constant_has_the_type_of_its_value() -> None:
    kinds = [type_of(Literal(value)) for value in (True, False, "x", 1, 1.5)]
    boolean, double = ColumnType.BOOLEAN, ColumnType.DOUBLE
    assert kinds == [boolean, boolean, ColumnType.STRING, double, double]
    assert [type_of(each) for each in (X, S)] == [ColumnType.LONG, ColumnType.STRING]


def test_the_columns_an_expression_reads() -> None:
    assert columns_of(None) == columns_of(Literal(1)) == frozenset()
    inner = op(Operator.OR, B, op(Operator.EQUAL, S, Literal("x")))
    assert columns_of(op(Operator.AND, inner, op(Operator.LESS, X, X))) == {"x", "s s", "b"}


FINITE = ("NULLIF(NULLIF(NULLIF({}, CAST('Infinity' AS DOUBLE)), CAST('-Infinity' AS DOUBLE)),"
          " CAST('NaN' AS DOUBLE))")  # fmt: skip


@pytest.mark.parametrize(("expression", "text"), [
    (S, "`s s`"),
    (Literal(True), "TRUE"),
    (Literal(False), "FALSE"),
    (Literal("a'b\\c"), r"'a\'b\\c'"),
    (Literal(1.5), "CAST(1.5 AS DOUBLE)"),
    (op(Operator.NOT, B), "(NOT `b`)"),
    (op(Operator.IS_NULL, X), "(`x` IS NULL)"),
    (op(Operator.ABS, X), FINITE.format("abs(CAST(`x` AS DOUBLE))")),
    (op(Operator.IN, X, Literal(1), Literal(2)),
     "(`x` IN (CAST(1 AS DOUBLE), CAST(2 AS DOUBLE)))"),
    (op(Operator.GREATER_EQUAL, X, Literal(0)), "(`x` >= CAST(0 AS DOUBLE))"),
    (op(Operator.AND, B, B), "(`b` AND `b`)"),
    (op(Operator.ADD, X, X), FINITE.format("(CAST(`x` AS DOUBLE) + CAST(`x` AS DOUBLE))")),
    (op(Operator.DIVIDE, X, X),
     FINITE.format("(CAST(`x` AS DOUBLE) / NULLIF(CAST(`x` AS DOUBLE), 0))")),
])  # fmt: skip
def test_the_sql_of_an_expression(expression: Expression, text: str) -> None:
    assert to_sql(expression) == text


def test_a_measure_knows_what_it_is_taken_over() -> None:
    rows = MeasureSpec("n", Function.COUNT, None, ColumnType.LONG)
    total = MeasureSpec("t", Function.SUM, X, ColumnType.LONG)
    assert rows.over_type is None
    assert total.over_type is ColumnType.LONG


def test_a_quantile_is_the_median_unless_it_says_otherwise() -> None:
    median = QuantileSpec("m", Function.QUANTILE, X, ColumnType.LONG)
    assert phi_of(median) == 0.5
    assert phi_of(QuantileSpec("m", Function.QUANTILE, X, ColumnType.LONG, 0.9)) == 0.9
    assert phi_of(MeasureSpec("n", Function.COUNT, None, ColumnType.LONG)) == 0.5


def test_values_that_are_shared_cannot_be_changed() -> None:
    values = [X, Literal(1), op(Operator.NOT, B), QuantileSpec("m", Function.QUANTILE, X, X.type)]
    for value, name in zip(values, ["name", "value", "operator", "phi"], strict=True):
        with pytest.raises(AttributeError):
            setattr(value, name, 1)
        assert value in {value}, "and can be kept in sets"
