"""A one-time query: a join of the same two streams, asked once of a past period."""

from dataclasses import replace

from penstock.config.step import Given
from penstock.core.expression import Column, columns_of
from penstock.kinds.join.conditions import read, sides_of
from penstock.kinds.join.spec import JoinSpec


def asked(step: JoinSpec, where: str | None, given: Given) -> JoinSpec:
    """The join with another condition, in place of its own and of its queries.

    Args:
        step: whose keys, reach and columns are asked for.
        where: the condition over ``left.x`` and ``right.x``, of any declared column; none: none.
        given: what the pipeline gives it.

    Raises:
        ValueError: the condition cannot be read; says why, and the remedy.
    """
    condition = None if where is None else read(where, *sides_of(given))
    names = {name.partition(".")[2] for name in columns_of(condition)}
    names |= {column.name for _, column in step.selected}
    observed = tuple(Column(n, given.types[n]) for n in sorted(names - {*step.key_names}))
    return replace(step, condition=condition, queries=(), observed=observed)
