"""Conditions over the two records of a pair, as texts."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from penstock.config.expression import parse_where
from penstock.config.step import Given
from penstock.core.expression import Column, Expression, Literal, Operation, Operator
from penstock.core.measure import ColumnType
from penstock.kinds.join.spec import LEFT, RIGHT, JoinSpec

Types: TypeAlias = Mapping[str, ColumnType]


def sides_of(given: Given) -> tuple[Types, Types]:
    """Types of the columns of left records, and of right ones."""
    some = given.of or (given.types,)
    return some[0], some[-1]


def read(text: str, left: Types, right: Types) -> Expression:
    """Read a condition over ``left.x`` and ``right.x``.

    Args:
        text: the condition.
        left: types of the columns that left records have.
        right: of those that right records have.

    Raises:
        ValueError: it cannot be read; says why, and the remedy.
    """
    both = ((LEFT, left), (RIGHT, right))
    return parse_where(
        text, {f"{s}.{name}": kind for s, some in both for name, kind in some.items()}
    )


@lru_cache(maxsize=1_024)
def query(step: JoinSpec, text: str) -> Expression:
    """Read a query: it may ask for what the state holds."""
    held = {column.name: column.type for column in (*step.keys, *step.observed)}
    return read(text, held, held)


def plain(expression: Expression) -> str:
    """An expression for people."""
    match expression:
        case Column(name=name):
            return name
        case Literal(value=value):
            return f"{value:g}" if isinstance(value, float) else repr(value)
        case Operation(operator=Operator.ABS, arguments=(inner,)):
            return f"abs({plain(inner)})"
        case Operation(operator=operator, arguments=arguments):
            return f"({f' {operator.value} '.join(map(plain, arguments))})"
