"""Which parts of a condition find partners by themselves: equality by keys, one range by order.

What a part finds may be more than fits, and never less: the whole condition is asked of every
candidate. Source: S2J (hash index for equality, ordered index for <, >, <=, >=); differences and
their sizes are ours [D].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isinf

from penstock.core.expression import Expression, Literal, Operation, Operator, columns_of, type_of
from penstock.core.measure import ColumnType
from penstock.kinds.join.spec import LEFT, RIGHT

NUMERIC = {ColumnType.LONG, ColumnType.DOUBLE}
BELOW = {Operator.LESS, Operator.LESS_EQUAL}
ABOVE = {Operator.GREATER, Operator.GREATER_EQUAL}
MIRRORED = {
    Operator.LESS: Operator.GREATER, Operator.LESS_EQUAL: Operator.GREATER_EQUAL,
    Operator.GREATER: Operator.LESS, Operator.GREATER_EQUAL: Operator.LESS_EQUAL,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Equal:
    """An expression over the left record and one over the right one that must be equal."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Ranged:
    """Numbers of both records, and how far the right one may lie from the left one.

    Attributes:
        left, right: what they are.
        apart: from where to where, above the left one.
    """

    left: Expression
    right: Expression
    apart: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Index:
    """What partners are found by, besides keys and time."""

    equal: tuple[Equal, ...]
    ranged: Ranged | None


def index_of(condition: Expression | None) -> Index:
    """What a condition gives."""
    equal, ranged = list[Equal](), list[Ranged]()
    for part in _conjuncts(condition):
        if not isinstance(part, Operation):
            continue
        if part.operator is Operator.EQUAL and (sides := _sided(*part.arguments)):
            equal.append(Equal(*sides))
        elif part.operator in MIRRORED and (found := _ranged(part.operator, *part.arguments)):
            ranged.append(found)
    ranged.sort(key=lambda each: any(isinf(edge) for span in each.apart for edge in span))
    return Index(tuple(equal), ranged[0] if ranged else None)


def _conjuncts(condition: Expression | None) -> Iterator[Expression]:
    if isinstance(condition, Operation) and condition.operator is Operator.AND:
        for argument in condition.arguments:
            yield from _conjuncts(argument)
    elif condition is not None:
        yield condition


def _side(expression: Expression) -> str:
    """Whose columns alone an expression reads; empty: of both, or none."""
    sides = {name.partition(".")[0] for name in columns_of(expression)}
    return sides.pop() if len(sides) == 1 else ""


def _sided(one: Expression, other: Expression) -> tuple[Expression, Expression] | None:
    """One of the left record and one of the right one, in this order; none: they are not."""
    both = {_side(one): one, _side(other): other}
    return (both[LEFT], both[RIGHT]) if both.keys() == {LEFT, RIGHT} else None


def _ranged(operator: Operator, one: Expression, other: Expression) -> Ranged | None:
    if isinstance(one, Literal):
        operator, one, other = MIRRORED[operator], other, one
    if not {type_of(one), type_of(other)} <= NUMERIC:
        return None
    if sides := _sided(one, other):
        below = operator in (BELOW if sides[0] is one else ABOVE)
        return Ranged(*sides, ((0.0, inf) if below else (-inf, 0.0),))
    if not isinstance(other, Literal) or not isinstance(one, Operation):
        return None
    size, most = one.operator is Operator.ABS, float(other.value)
    inner = one.arguments[0] if size else one
    if not isinstance(inner, Operation) or inner.operator is not Operator.SUBTRACT:
        return None
    sides = _sided(*inner.arguments)
    if sides is None:
        return None
    if size:
        apart = ((-most, most),) if operator in BELOW else ((-inf, -most), (most, inf))
    else:  # of (left - right) < most the right one is above left - most
        forward = sides[0] is inner.arguments[0]
        above = (operator in BELOW) == forward
        edge = -most if forward else most
        apart = ((edge, inf),) if above else ((-inf, edge),)
    return Ranged(*sides, apart)


def shared(own: Index, others: Sequence[Index]) -> Index:
    """What finds partners for whoever needs a pair that one of several others fits, and its own.

    Args:
        own: of what must hold.
        others: of what some of must hold; none: nothing more must.
    """
    if not others:
        return own
    equal = [each for each in others[0].equal if all(each in other.equal for other in others)]
    found = [other.ranged for other in others if other.ranged is not None]
    ranged = own.ranged
    if len(found) == len(others) and len({(each.left, each.right) for each in found}) == 1:
        ranged = Ranged(found[0].left, found[0].right, _union([s for r in found for s in r.apart]))
    return Index(tuple(dict.fromkeys((*own.equal, *equal))), ranged)


def _union(spans: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    found = list[tuple[float, float]]()
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        elif low <= high:
            found.append((low, high))
    return tuple(found)
