"""Pairs that no condition tells apart are one kind: each fits what the first of its kind fits."""

import random

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns.expressions import true_for
from penstock.core.expression import Expression
from penstock.core.measure import ColumnType
from penstock.kinds.join.bands import kinds_of
from penstock.kinds.join.conditions import read
from penstock.kinds.join.queries import Asked, tags

TYPES = {"v": ColumnType.LONG, "x": ColumnType.DOUBLE, "s": ColumnType.STRING}
EDGES = [*range(4), 0.5, -1.5]
NUMBERS = [
    "left.x",
    "left.x - right.x",
    "abs(right.x - left.v)",
    "left.v + right.v",
    "left.x / right.v",
]
COMPARED = ["<", "<=", ">", ">=", "=", "<>"]
LEAVES = ["left.s = right.s", "left.s in ('a', 'b')", "left.v = 2", "left.v < right.v",
          "left.x is null", "left.x = right.x", "2 > 1"]  # fmt: skip


def pairs_of(draw: random.Random, count: int) -> pa.Table:
    values = {
        "v": [None, *range(4)], "s": ["a", "b", "c", None],
        "x": [None, 0.0, -0.0, float("nan"), float("inf"), *EDGES,
              *(draw.random() for _ in range(4))],
    }  # fmt: skip
    types = {"v": pa.int64(), "x": pa.float64(), "s": pa.string()}
    return pa.table({
        f"{side}.{name}": pa.array([draw.choice(some) for _ in range(count)], types[name])
        for side in ("left", "right") for name, some in values.items()
    })  # fmt: skip


def condition(draw: random.Random, depth: int = 2) -> str:
    if depth and draw.random() < 0.6:
        one, other = condition(draw, depth - 1), condition(draw, depth - 1)
        return draw.choice([f"({one}) and ({other})", f"({one}) or ({other})", f"not ({one})"])
    if draw.random() < 0.3:
        return draw.choice(LEAVES)
    what, edge = draw.choice(NUMBERS), draw.choice(EDGES)
    operator = draw.choice(COMPARED)
    return draw.choice([f"{what} {operator} {edge}", f"{edge} {operator} {what}"])


@pytest.mark.parametrize("seed", range(30))
def test_the_first_of_a_kind_speaks_for_all(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - reproducible
    pairs = pairs_of(draw, 400)
    texts = [condition(draw) for _ in range(draw.choice((1, 3, 12)))]
    asked = [read(text, TYPES, TYPES) for text in texts]
    kinds, first = kinds_of(asked, pairs)
    for text, each in zip(texts, asked, strict=True):
        holds = np.asarray(true_for(each, pairs))
        assert (holds == holds[first][kinds]).all(), text
    versions = versioned(asked)
    newer = np.array([draw.randrange(100) for _ in range(400)])
    told = tags(versions, pairs, newer).to_pylist()
    for row, at in enumerate(newer.tolist()):
        mine = [version for version in versions if version.first <= at][-1]
        fits = [n for n, c in zip(mine.names, mine.conditions, strict=True)
                if true_for(c, pairs.slice(row, 1))[0].as_py()]  # fmt: skip
        assert told[row] == (",".join(fits) or None)


def versioned(asked: list[Expression]) -> list[Asked]:
    """All of them at first, then the first alone, then all in another order."""
    names = tuple(f"q{n:02}" for n in range(len(asked)))
    return [Asked(0, names, (*asked,)), Asked(40, names[:1], (asked[0],)),
            Asked(70, names, (*reversed(asked),))]  # fmt: skip


def test_many_constants_for_one_number_make_few_kinds() -> None:
    pairs = pairs_of(random.Random(1), 20_000)  # noqa: S311 - reproducible
    asked = [read(f"left.x > {n / 200}", TYPES, TYPES) for n in range(200)]
    assert len(kinds_of(asked, pairs)[1]) < 30
