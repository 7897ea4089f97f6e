"""Evaluates a step's expressions over Arrow columns, with the meaning of ``core.expression``."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import ARROW
from penstock.core.expression import Column, Expression, Literal, Operation, Operator
from penstock.core.measure import ColumnType

ARITHMETIC = {
    Operator.ADD: pc.add,
    Operator.SUBTRACT: pc.subtract,
    Operator.MULTIPLY: pc.multiply,
    Operator.DIVIDE: pc.divide,
    Operator.ABS: pc.abs,
}
COMPARISON = {
    Operator.EQUAL: pc.equal,
    Operator.NOT_EQUAL: pc.not_equal,
    Operator.LESS: pc.less,
    Operator.LESS_EQUAL: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.GREATER_EQUAL: pc.greater_equal,
    Operator.AND: pc.and_kleene,
    Operator.OR: pc.or_kleene,
}

Values = pa.ChunkedArray | pa.Scalar


def evaluate(
    expression: Expression, table: pa.Table, known: dict[Expression, Values] | None = None
) -> Values:
    """Values of an expression for each row, or one scalar for all of them.

    Args:
        expression: what is asked.
        table: the rows.
        known: what sums and the like came to, for other expressions over the same rows.
    """
    match expression:
        case Column(name=name):
            values = table[name]
            plain = not pa.types.is_dictionary(values.type)
            return values if plain else values.cast(values.type.value_type)
        case Literal(value=bool(value)):
            return pa.scalar(value, pa.bool_())
        case Literal(value=str(value)):
            return pa.scalar(value, pa.string())
        case Literal(value=value):
            return pa.scalar(float(value), ARROW[ColumnType.DOUBLE])
        case Operation(operator=operator, arguments=arguments):
            if known is None or operator not in ARITHMETIC:
                return _operate(operator, [evaluate(a, table, known) for a in arguments])
            if expression not in known:
                known[expression] = _operate(
                    operator, [evaluate(a, table, known) for a in arguments]
                )
            return known[expression]


def _operate(operator: Operator, values: list[Values]) -> Values:
    if operator in ARITHMETIC:
        result = ARITHMETIC[operator](*(pc.cast(v, pa.float64(), safe=False) for v in values))
        return pc.if_else(pc.is_finite(result), result, pa.scalar(None, pa.float64()))
    if operator is Operator.NOT:
        return pc.invert(values[0])
    if operator is Operator.IS_NULL:
        return pc.is_null(values[0])
    if operator is Operator.IN:
        out = _compare(Operator.EQUAL, values[0], values[1])
        for item in values[2:]:
            out = pc.or_kleene(out, _compare(Operator.EQUAL, values[0], item))
        return out
    return _compare(operator, values[0], values[1])


def _compare(operator: Operator, left: Values, right: Values) -> Values:
    if left.type != right.type:  # a long beside a double
        left, right = (pc.cast(v, pa.float64(), safe=False) for v in (left, right))
    return COMPARISON[operator](left, right)


def true_for(
    condition: Expression | None,
    table: pa.Table,
    known: dict[Expression, Values] | None = None,
) -> pa.Array:
    """For which rows a condition is true; without one for all. Null is not true."""
    kept = pa.scalar(True) if condition is None else evaluate(condition, table, known)
    if isinstance(kept, pa.Scalar):
        return pa.repeat(bool(kept.as_py()), table.num_rows)
    return pc.fill_null(kept, False)


def rows_with(keys: Iterable[str], table: pa.Table) -> pa.Table:
    """The rows that have all of some keys: others came before a key's column was declared.

    The door refuses such a record from then on; the audit leaves it out likewise.
    """
    for key in keys:
        if table[key].null_count:
            table = table.filter(pc.is_valid(table[key]))
    return table


def rows_where(condition: Expression | None, table: pa.Table) -> pa.Table:
    """The rows for which a condition is true."""
    return table if condition is None else table.filter(true_for(condition, table))
