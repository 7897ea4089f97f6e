"""Conditions over the two records of a pair, as texts."""

from collections.abc import Mapping

from penstock.config.expression import parse_where
from penstock.core.expression import Column, Expression, Literal, Operation, Operator
from penstock.core.measure import ColumnType
from penstock.kinds.join.spec import LEFT, RIGHT, JoinSpec


def read(text: str, types: Mapping[str, ColumnType]) -> Expression:
    """Read a condition over ``left.x`` and ``right.x``.

    Args:
        text: the condition.
        types: of the columns that both have.

    Raises:
        ValueError: it cannot be read; says why, and the remedy.
    """
    seen = {f"{side}.{name}": kind for side in (LEFT, RIGHT) for name, kind in types.items()}
    return parse_where(text, seen)


def query(step: JoinSpec, text: str) -> Expression:
    """Read a query: it may ask for what the state holds."""
    held: tuple[Column, ...] = (*step.keys, *step.observed)
    return read(text, {column.name: column.type for column in held})


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
