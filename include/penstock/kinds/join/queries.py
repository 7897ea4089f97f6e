"""Which queries a pair satisfies: of those in force where its later record stands.

All queries of a join share its state, its channels and its search: partners are looked up by what
they have in common, and each pair found is tagged. Source: S2J (shared streams); the tags are ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.expressions import true_for
from penstock.core.expression import Expression
from penstock.kinds.join.bands import kinds_of
from penstock.kinds.join.conditions import query
from penstock.kinds.join.index import Index, index_of, shared
from penstock.kinds.join.spec import JoinSpec
from penstock.kinds.side import Sides, version_of


@dataclass(frozen=True, slots=True)
class Asked:
    """The queries from a position on: names in order, and their conditions."""

    first: int
    names: tuple[str, ...]
    conditions: tuple[Expression, ...]


def in_force(step: JoinSpec, seqs: Longs, sides: Sides) -> Sequence[Asked]:
    """The queries that are in force at some positions, version by version; none: it has none."""
    if not step.queries or not len(seqs):
        return ()
    found = []
    for version in sides(step.asked, seqs):
        said = zip(*(version.rows[name].to_pylist() for name in step.asked.names), strict=True)
        names, texts = zip(*sorted(said), strict=True)
        found.append(Asked(version.first, names, tuple(query(step, text) for text in texts)))
    return found


def index_with(step: JoinSpec, asked: Sequence[Asked]) -> Index:
    """What partners are looked up by: the condition, and what all queries have in common."""
    return shared(
        index_of(step.condition), [index_of(c) for each in asked for c in each.conditions]
    )


def tags(asked: Sequence[Asked], pairs: pa.Table, newer: Longs) -> pa.Array:
    """Names of the queries that each pair satisfies, with commas between; null: none.

    Args:
        asked: the queries, version by version.
        pairs: columns ``left.x`` and ``right.x``.
        newer: positions of their later records.
    """
    which = version_of(newer, np.array([each.first for each in asked]))
    codes, texts = np.zeros(len(newer), np.int64), list[str]()
    for number in np.unique(which).tolist():
        mine, said = np.flatnonzero(which == number), asked[number]
        some = pairs.take(pa.array(mine)) if len(asked) > 1 else pairs
        kinds, first = kinds_of(said.conditions, some)
        one = some.take(pa.array(first))
        holds = np.array([np.asarray(true_for(each, one)) for each in said.conditions])
        codes[mine] = kinds + len(texts)
        texts += [",".join(compress(said.names, held)) for held in holds.T]
    named = pa.array(texts, pa.string())
    told = pc.if_else(pc.equal(named, ""), None, named)
    return told.take(pa.array(codes))
