"""Reads the expressions of a pipeline file: ``avg(delay / 60)``, ``kind = 'dep' and delay > 0``.

The text is SQL; sqlglot parses it, and only what ``penstock.core.expression`` gives a meaning in
every layer is let through.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Self

import sqlglot
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

from penstock.core.expression import (
    ARITHMETIC,
    Column,
    Expression,
    Literal,
    MeasureSpec,
    Operation,
    Operator,
    QuantileSpec,
    type_of,
)
from penstock.core.measure import ColumnType, Function

NUMERIC = {ColumnType.LONG, ColumnType.DOUBLE}
BINARY: dict[type[sql.Expr], Operator] = {
    sql.Add: Operator.ADD,
    sql.Sub: Operator.SUBTRACT,
    sql.Mul: Operator.MULTIPLY,
    sql.Div: Operator.DIVIDE,
    sql.EQ: Operator.EQUAL,
    sql.NEQ: Operator.NOT_EQUAL,
    sql.LT: Operator.LESS,
    sql.LTE: Operator.LESS_EQUAL,
    sql.GT: Operator.GREATER,
    sql.GTE: Operator.GREATER_EQUAL,
    sql.And: Operator.AND,
    sql.Or: Operator.OR,
}
UNARY: dict[type[sql.Expr], Operator] = {
    sql.Neg: Operator.SUBTRACT,
    sql.Not: Operator.NOT,
    sql.Is: Operator.IS_NULL,
    sql.In: Operator.IN,
    sql.Abs: Operator.ABS,
}
ORDER = {Operator.LESS, Operator.LESS_EQUAL, Operator.GREATER, Operator.GREATER_EQUAL}
FUNCTIONS: dict[type[sql.Expr], Function] = {
    sql.Count: Function.COUNT,
    sql.Sum: Function.SUM,
    sql.Avg: Function.AVG,
    sql.Min: Function.MIN,
    sql.Max: Function.MAX,
    sql.Median: Function.QUANTILE,
    sql.Quantile: Function.QUANTILE,
}
TEXTS = 1024
"""Expressions that a process keeps: files are read again and again, and seldom say anything new."""
MEASURE_FORMS = "count(*), count(x), sum(x), avg(x), min(x), max(x), median(x) or quantile(x, 0.9)"


def parse_where(text: str, columns: Mapping[str, ColumnType]) -> Expression:
    """Read a condition.

    Raises:
        ValueError: not SQL, an unknown column, or not a condition; says what and the remedy.
    """
    where = _convert(_parse(text), columns)
    if type_of(where) is not ColumnType.BOOLEAN:
        raise ValueError(f"'{text}' is not a condition: compare it with something, as in x > 0")
    return where


def parse_measure(name: str, text: str, columns: Mapping[str, ColumnType]) -> MeasureSpec:
    """Read a measure such as ``avg(delay)``.

    Raises:
        ValueError: not a mergeable aggregate over known columns; says what and the remedy.
    """
    node = _parse("count(*)" if text.strip().lower() == "count" else text)
    function = FUNCTIONS.get(type(node))
    if function is None:
        raise ValueError(f"'{text}' is not a measure: write {MEASURE_FORMS}")
    inner = node.this
    if isinstance(inner, sql.Distinct) or node.args.get("expressions"):
        raise ValueError(f"'{text}': only one plain argument can be merged over panes: write x")
    if function is Function.COUNT and (inner is None or isinstance(inner, sql.Star)):
        return MeasureSpec(name, function, None, ColumnType.LONG)
    over = _convert(inner, columns)
    over_type = type_of(over)
    if function is not Function.COUNT and over_type not in NUMERIC:
        raise ValueError(f"'{text}': {function.value} needs numbers, this is a {over_type.value}")
    if function is Function.COUNT:
        return MeasureSpec(name, function, over, ColumnType.LONG)
    if function is Function.QUANTILE:
        return QuantileSpec(name, function, over, over_type, _phi(node, text))
    result = ColumnType.DOUBLE if function is Function.AVG else over_type
    return MeasureSpec(name, function, over, result)


def _phi(node: sql.Expr, text: str) -> float:
    if isinstance(node, sql.Median):
        return 0.5
    share = node.args["quantile"]
    if isinstance(share, sql.Literal) and not share.is_string and 0 < float(share.this) < 1:
        return float(share.this)
    raise ValueError(f"'{text}': the share must be a number between 0 and 1, as in 0.9")


@lru_cache(maxsize=TEXTS)
def _parse(text: str) -> sql.Expr:
    """Nobody changes what it gives: whoever reads the same text again is given the same."""
    try:
        return sqlglot.parse_one(text, dialect="spark")
    except SqlglotError as broken:
        said = re.sub(" for <class [^>]*>", "", str(broken).splitlines()[0])
        raise ValueError(f"cannot read '{text}': {said}") from broken


def _convert(node: sql.Expr, columns: Mapping[str, ColumnType]) -> Expression:
    if isinstance(node, sql.Paren):
        return _convert(node.this, columns)
    leaf = _leaf(node, columns)
    if leaf is not None:
        return leaf
    operator = UNARY.get(type(node)) or BINARY.get(type(node))
    subquery = isinstance(node, sql.In) and not node.expressions
    other_is = isinstance(node, sql.Is) and not isinstance(node.args["expression"], sql.Null)
    if operator is None or subquery or other_is:
        raise ValueError(
            f"'{node.sql(dialect='spark')}' is not supported: use columns, constants, + - * /,"
            " abs(x), comparisons, IN, IS NULL, AND, OR, NOT"
        )
    sides = [node.this]
    if isinstance(node, sql.In):
        sides += node.expressions
    elif type(node) in BINARY:
        sides.append(node.args["expression"])
    arguments = tuple(_convert(side, columns) for side in sides)
    if isinstance(node, sql.Neg):
        arguments = (Literal(0.0), *arguments)
    return _checked(operator, arguments, node)


def _leaf(node: sql.Expr, columns: Mapping[str, ColumnType]) -> Expression | None:
    if isinstance(node, sql.Column):
        return _column(".".join(part.name for part in node.parts), columns)
    if isinstance(node, sql.Boolean):
        return Literal(bool(node.this))
    if isinstance(node, sql.Literal):
        value = str(node.this) if node.is_string else float(node.this)
        if value in (float("inf"), float("-inf")):
            raise ValueError(f"{node.this} is beyond the largest double: write a smaller number")
        return Literal(value)
    return None


class NoColumn(str):
    """Says that a column is not there, in a file that declares its own.

    Where columns come from another file or step, ``wrong_steps`` says so instead: here nobody
    knows.
    """

    __slots__ = ("column", "known")
    column: str
    known: list[str]

    def __new__(cls, said: str, column: str, known: Iterable[str]) -> Self:
        """Which column, and those that there are."""
        found = super().__new__(cls, said)
        found.column, found.known = column, sorted(known)
        return found

    @property
    def meant(self) -> str:
        """The one that was probably meant; empty: none is near."""
        return "".join(difflib.get_close_matches(self.column, self.known, 1, 0.75))


def _column(name: str, columns: Mapping[str, ColumnType]) -> Column:
    if name not in columns:
        same = [known for known in columns if known.endswith(f".{name}")]
        if same:
            raise ValueError(f"column {name} is not known here: write {' or '.join(same)}")
        meant, there = NoColumn("", name, columns).meant, ", ".join(sorted(columns)) or "none"
        remedy = f"did you mean {meant}?" if meant else "add it under columns"
        said = f"column {name} is not declared: {remedy} (declared: {there})"
        raise ValueError(NoColumn(said, name, columns))
    return Column(name, columns[name])


def _checked(operator: Operator, arguments: tuple[Expression, ...], node: sql.Expr) -> Operation:
    kinds = ["number" if type_of(a) in NUMERIC else type_of(a).value for a in arguments]
    text = node.sql(dialect="spark")
    if operator in ARITHMETIC and set(kinds) != {"number"}:
        raise ValueError(f"'{text}' needs numbers, found {' and '.join(kinds)}")
    if operator in {Operator.AND, Operator.OR, Operator.NOT} and set(kinds) != {"boolean"}:
        raise ValueError(f"'{text}' needs conditions, found {' and '.join(kinds)}")
    if len(set(kinds)) > 1:
        raise ValueError(
            f"'{text}' compares {' with '.join(dict.fromkeys(kinds))}: make them alike"
        )
    if operator in ORDER and "boolean" in kinds:
        raise ValueError(f"'{text}': truth values have no order. Compare with = or <>")
    if "timestamp" in kinds and operator is not Operator.IS_NULL:
        raise ValueError(f"'{text}': instants can only be tested with IS NULL")
    return Operation(operator, arguments)
