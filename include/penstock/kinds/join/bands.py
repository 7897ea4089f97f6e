"""Which pairs no condition tells apart: one of each kind is asked, and speaks for the others.

Conditions are built of comparisons. One with a constant cuts the numbers that it compares into
bands; many such constants for one expression cut it once, and cost a bisection. Pairs with the
same bands, and the same outcome of the other comparisons, fit the same conditions. Source: the
predicate index of many queries over one stream (Madden et al. 2002, CACQ, section 3.2); ours is
made for a table at once.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.expressions import Values, evaluate
from penstock.columns.groups import group
from penstock.core.expression import Expression, Literal, Operation, Operator, columns_of, type_of
from penstock.core.measure import ColumnType

BUILT = frozenset({Operator.AND, Operator.OR, Operator.NOT})
ORDER = frozenset({
    Operator.EQUAL, Operator.NOT_EQUAL, Operator.LESS, Operator.LESS_EQUAL,
    Operator.GREATER, Operator.GREATER_EQUAL,
})  # fmt: skip


def kinds_of(conditions: Sequence[Expression], pairs: pa.Table) -> tuple[Longs, Longs]:
    """Kinds of pairs that no condition tells apart.

    Returns:
        number of each pair's kind, and the first pair of each, shape (kinds,).
    """
    known = dict[Expression, Values]()
    edges, others = dict[Expression, set[float]](), dict[Expression, None]()
    for leaf in dict.fromkeys(leaf for each in conditions for leaf in _leaves(each)):
        if (found := _banded(leaf)) is None:
            others[leaf] = None
        else:
            edges.setdefault(found[0], set()).add(found[1])
    columns = [
        *(_bands(evaluate(what, pairs, known), some) for what, some in edges.items()),
        *(_outcome(evaluate(leaf, pairs, known), pairs.num_rows) for leaf in others),
    ]
    return group(columns, pairs.num_rows)


def _leaves(condition: Expression) -> Iterator[Expression]:
    """What a condition is built of."""
    if isinstance(condition, Operation) and condition.operator in BUILT:
        for argument in condition.arguments:
            yield from _leaves(argument)
    else:
        yield condition


def _banded(leaf: Expression) -> tuple[Expression, float] | None:
    """The double that a comparison cuts, and where; none: it is another one."""
    if not isinstance(leaf, Operation) or leaf.operator not in ORDER:
        return None
    for what, edge in (leaf.arguments, leaf.arguments[::-1]):
        number = isinstance(edge, Literal) and not isinstance(edge.value, str | bool)
        if number and type_of(what) is ColumnType.DOUBLE and columns_of(what):
            return what, float(edge.value)
    return None


def _bands(values: Values, edges: set[float]) -> Longs:
    """In which band each value lies: below, on, or above an edge; null and NaN have their own."""
    cuts, numbers = np.array(sorted(edges)), np.asarray(pc.fill_null(values, np.nan))
    found: Longs = np.searchsorted(cuts, numbers) + np.searchsorted(cuts, numbers, "right")
    last = 2 * len(cuts) + 1
    found[np.isnan(numbers)] = last
    if values.null_count:
        found[np.asarray(pc.is_null(values))] = last + 1
    return found


def _outcome(values: Values, rows: int) -> Longs:
    """Whether a comparison is true, false, or null, as a number."""
    if isinstance(values, pa.Scalar):
        return np.zeros(rows, np.int64)
    found: Longs = np.asarray(pc.fill_null(pc.cast(values, pa.int8()), 2)).astype(np.int64)
    return found
