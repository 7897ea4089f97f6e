"""Simple expressions over a record's columns: the meaning, apart from how they are written.

Arithmetic is done in doubles; a division by zero, or a result that is not finite, is null; null
spreads; a comparison with null is neither true nor false, and a ``where`` keeps only what is true.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.core.measure import ColumnType, Function


class Operator(StrEnum):
    """What an ``Operation`` does with its arguments, named as in SQL."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    AND = "AND"
    OR = "OR"
    NOT = "NOT"
    IS_NULL = "IS NULL"
    IN = "IN"
    ABS = "ABS"


ARITHMETIC = frozenset(
    {Operator.ADD, Operator.SUBTRACT, Operator.MULTIPLY, Operator.DIVIDE, Operator.ABS}
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the record."""

    name: str
    type: ColumnType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: number, text or truth value."""

    value: float | str | bool


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator with its arguments."""

    operator: Operator
    arguments: tuple["Expression", ...]


Expression = Column | Literal | Operation


@dataclass(frozen=True, slots=True)
class MeasureSpec:
    """One measure of a step: its name, its function and what it is taken over (none: rows)."""

    name: str
    function: Function
    over: Expression | None
    type: ColumnType

    @property
    def over_type(self) -> ColumnType | None:
        """Type of the values the measure is taken over."""
        return None if self.over is None else type_of(self.over)


@dataclass(frozen=True, slots=True)
class QuantileSpec(MeasureSpec):
    """A quantile; ``phi`` in (0, 1), of the median 0.5."""

    phi: float = 0.5


def phi_of(measure: MeasureSpec) -> float:
    """Phi of a quantile."""
    return measure.phi if isinstance(measure, QuantileSpec) else 0.5


def type_of(expression: Expression) -> ColumnType:
    """Type of an expression that was checked when it was parsed."""
    match expression:
        case Column(type=column_type):
            return column_type
        case Literal(value=bool()):
            return ColumnType.BOOLEAN
        case Literal(value=str()):
            return ColumnType.STRING
        case Literal():
            return ColumnType.DOUBLE
        case Operation(operator=operator):
            return ColumnType.DOUBLE if operator in ARITHMETIC else ColumnType.BOOLEAN


def columns_of(expression: Expression | None) -> frozenset[str]:
    """Names of the columns an expression reads."""
    return frozenset(column.name for column in read_by(expression))


def read_by(expression: Expression | None) -> frozenset[Column]:
    """The columns an expression reads."""
    match expression:
        case None | Literal():
            return frozenset()
        case Column():
            return frozenset({expression})
        case Operation(arguments=arguments):
            return frozenset().union(*map(read_by, arguments))


def to_sql(expression: Expression) -> str:
    """SQL as Spark reads it."""
    match expression:
        case Column(name=name):
            return f"`{name}`"
        case Literal(value=bool(value)):
            return "TRUE" if value else "FALSE"
        case Literal(value=str(value)):
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case Literal(value=value):
            return f"CAST({value!r} AS DOUBLE)"
        case Operation(operator=operator, arguments=arguments):
            return _operation_sql(operator, [to_sql(a) for a in arguments])


def _operation_sql(operator: Operator, texts: list[str]) -> str:
    if operator is Operator.ABS:
        return finite(f"abs(CAST({texts[0]} AS DOUBLE))")
    if operator in ARITHMETIC:
        left, right = (f"CAST({t} AS DOUBLE)" for t in texts)
        right = f"NULLIF({right}, 0)" if operator is Operator.DIVIDE else right
        return finite(f"({left} {operator.value} {right})")
    if operator is Operator.NOT:
        return f"(NOT {texts[0]})"
    if operator is Operator.IS_NULL:
        return f"({texts[0]} IS NULL)"
    if operator is Operator.IN:
        return f"({texts[0]} IN ({', '.join(texts[1:])}))"
    return f"({texts[0]} {operator.value} {texts[1]})"


def finite(text: str) -> str:
    """SQL for a double that is null unless it is finite; in Spark NaN equals NaN."""
    for strange in ("Infinity", "-Infinity", "NaN"):
        text = f"NULLIF({text}, CAST('{strange}' AS DOUBLE))"
    return text
