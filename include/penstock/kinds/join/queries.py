"""Which queries a pair satisfies: of those in force where its later record stands.

All queries of a join share its state, its channels and its search: partners are looked up by what
they have in common, and each pair found is tagged. Source: S2J (shared streams); the tags are ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.columns.arrays import Longs
from penstock.columns.expressions import Values, true_for
from penstock.core.expression import Expression
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
    codes, texts = np.full(len(newer), -1), list[str]()
    for number in np.unique(which).tolist():
        mine, said = np.flatnonzero(which == number), asked[number]
        some = pairs.take(pa.array(mine)) if len(asked) > 1 else pairs
        known = dict[Expression, Values]()
        holds = np.array([np.asarray(true_for(c, some, known)) for c in said.conditions])
        packed = np.ascontiguousarray(np.packbits(holds, axis=0).T)
        rows = packed.view([("", np.void, packed.shape[1])]).ravel()
        kinds, first, of = np.unique(rows, return_index=True, return_inverse=True)
        told = [",".join(n for n, held in zip(said.names, holds[:, at], strict=True) if held)
                for at in first.tolist()]  # fmt: skip
        begin = len(texts)
        texts += told
        there = np.array([begin + n if text else -1 for n, text in enumerate(told)], np.int64)
        codes[mine] = there[of] if len(kinds) else codes[mine]
    indices = pa.array(codes, mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string())).cast(pa.string())
