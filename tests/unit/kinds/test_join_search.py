"""Pairs by index are those that all records beside all give, and far fewer are looked at."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.config.expression import parse_where
from penstock.core.measure import ColumnType
from penstock.kinds.join import search as module
from penstock.kinds.join.index import index_of
from penstock.kinds.join.reach import back, highest, lowest
from penstock.kinds.join.search import Search
from penstock.kinds.join.spec import JoinSpec, Shift
from penstock.kinds.join.wire import AS_LEFT, AS_RIGHT, Wire
from tests.speed import none
from tests.steps import make_pipeline

TYPES = {"v": "long", "x": "double", "s": "string"}
INF = float("inf")
Row = dict[str, Any]


def step_of(where: str | None, on: tuple[str, ...] = ()) -> JoinSpec:
    spec = {"kind": "join", "within": {"before": "PT0.4S", "after": "PT0.7S"}, "shift": "PT0.05S",
            "slack": {"fixed": "PT0S"}, "select": ["left.v", "left.x", "left.s"]}  # fmt: skip
    spec |= {"on": on} | ({} if where is None else {"where": where})
    found = make_pipeline(Path("/nowhere"), {"s": spec}, columns=TYPES).spec("s")
    assert isinstance(found, JoinSpec)
    return found


def pool_of(step: JoinSpec, draw: random.Random, count: int) -> pa.Table:
    rows = [
        {"hash": 0, "time_us": draw.randrange(3_000_000), "arrival_seq": n,
         "roles": draw.choice((AS_LEFT, AS_RIGHT, AS_LEFT | AS_RIGHT)),
         "v": draw.choice((None, *range(50))), "s": draw.choice(("a", "b", None)),
         "x": draw.choice((None, 0.1 * draw.randrange(500), draw.uniform(0, 50),
                          0.0, -0.0))}
        for n in range(count)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=Wire(step).parts)


def holding(a: Any, b: Any, holds: Callable[[Any, Any], bool]) -> bool:
    return a is not None and b is not None and holds(a, b)


CONDITIONS: dict[str, tuple[str | None, Callable[[Row, Row], bool], float]] = {
    "none": (None, lambda _l, _r: True, 0.9),
    "equal": ("left.v = right.v", lambda a, b: holding(a["v"], b["v"], lambda x, y: x == y), 0.9),
    "equal in two types": (
        "left.v = right.x and left.s = right.s",
        lambda a, b: holding(a["v"], b["x"], lambda x, y: x == y)
        and holding(a["s"], b["s"], lambda x, y: x == y),
        0.9),
    "equal doubles": (
        "left.x = right.x", lambda a, b: holding(a["x"], b["x"], lambda x, y: x == y), 0.9),
    "below": ("left.x < right.x", lambda a, b: holding(a["x"], b["x"], lambda x, y: x < y), 0.6),
    "above a sum": (
        "left.x >= right.x + 45", lambda a, b: holding(a["x"], b["x"], lambda x, y: x >= y + 45),
        0.02),
    "far": (
        "abs(left.x - right.x) > 48",
        lambda a, b: holding(a["x"], b["x"], lambda x, y: abs(x - y) > 48), 0.02),
    "other": (
        "abs(right.x - left.v) > 0", lambda a, b: holding(b["x"], a["v"], lambda x, y: x != y),
        0.6),
    "near": (
        "abs(left.x - right.x) <= 0.5 and left.s <> right.s",
        lambda a, b: holding(a["x"], b["x"], lambda x, y: abs(x - y) <= 0.5)
        and holding(a["s"], b["s"], lambda x, y: x != y),
        0.1),
    "a difference": (
        "40 < right.x - left.x",
        lambda a, b: holding(a["x"], b["x"], lambda x, y: y - x > 40), 0.02),
    "either": (
        "left.x > right.x + 40 or left.v = 3",
        lambda a, b: holding(a["x"], b["x"], lambda x, y: x > y + 40) or a["v"] == 3, 0.01),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("on", [(), ("s",)])
@pytest.mark.parametrize("few", [0, 1])
def test_pairs_are_those_of_all_beside_all(
    monkeypatch: pytest.MonkeyPatch, name: str, on: tuple[str, ...], few: int
) -> None:
    monkeypatch.setattr(module, "TOGETHER", 5_000)
    where, holds, share = CONDITIONS[name]
    draw, step = random.Random(f"{name}{on}{few}"), step_of(where, on)  # noqa: S311
    pool = pool_of(step, draw, 1_500)
    search, rows = Search(step, pool, none), pool.to_pylist()
    sides = [search.rows(role) for role in (AS_LEFT, AS_RIGHT)]
    sides[few] = sides[few][:90]  # of one side few are asked for, of the other many
    pairs = search.pairs(*sides)
    found = [*zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)]
    assert len({*found}) == len(found), "a pair twice"
    assert {*found} == brute(rows, *sides, on, holds)
    assert found or on
    there = len(sides[0]) * len(sides[1])
    assert search.compared < there / 2
    if not on and share < 0.5:  # a range tells most of what is near apart
        near = brute(rows, *sides, on, lambda _l, _r: True)
        assert (search.compared < len(near) / 3) == (name != "either")


def brute(
    rows: list[Row], left: Any, right: Any, on: tuple[str, ...], holds: Callable[[Row, Row], bool]
) -> set[tuple[int, int]]:
    found = set()
    for one in left.tolist():
        for other in right.tolist():
            a, b = rows[one], rows[other]
            apart = b["time_us"] - (a["time_us"] - 50_000)
            alike = all(a[k] is not None and a[k] == b[k] for k in on)
            if one != other and -400_000 <= apart <= 700_000 and alike and holds(a, b):
                found.add((one, other))
    return found


TOLD = {
    "left.v = right.x and right.s = left.s and left.x < 3": (2, None),
    "left.x < right.x": (0, ((0.0, INF),)),
    "right.x < left.x": (0, ((-INF, 0.0),)),
    "5 >= abs(right.x - left.x)": (0, ((-5.0, 5.0),)),
    "abs(left.x - right.v) > 5": (0, ((-INF, -5.0), (5.0, INF))),
    "left.x - right.x < 5": (0, ((-5.0, INF),)),
    "right.x - left.x < 5": (0, ((-INF, 5.0),)),
    "left.x < right.x and abs(left.x - right.x) < 2": (0, ((-2.0, 2.0),)),
    "right.x < left.x and abs(left.x - right.x) < 2": (0, ((-2.0, 2.0),)),
    "left.s < right.s": (0, None),
    "left.x + right.x > 5 and abs(left.x) > 3": (0, None),
    "left.x < right.x or left.v = right.v": (0, None),
    "not left.x < right.x": (0, None),
}


@pytest.mark.parametrize("where", TOLD)
def test_what_a_condition_gives(where: str) -> None:
    types = {f"{side}.{n}": ColumnType(t) for side in ("left", "right") for n, t in TYPES.items()}
    found = index_of(parse_where(where, types))
    equal, apart = TOLD[where]
    assert len(found.equal) == equal
    assert (None if found.ranged is None else found.ranged.apart) == apart


def test_months_go_back_as_the_calendar_has_them() -> None:
    leap = [("2024-03-31T05:00", "2024-02-29T05:00"), ("2024-03-29T00:00", "2024-02-29T00:00"),
            ("2023-03-30T23:59", "2023-02-28T23:59"), ("2024-01-15T01:00", "2023-12-15T01:00"),
            ("1969-12-31T12:00", "1969-11-30T12:00")]  # fmt: skip
    times, wanted = (
        np.array(each, "datetime64[us]").view(np.int64) for each in zip(*leap, strict=True)
    )
    assert back(times, Shift(1, 0)).tolist() == wanted.tolist()


def test_the_least_and_the_greatest_are_those_of_all_instants_after_and_before() -> None:
    hours = np.arange("2023-12-30", "2024-05-02", dtype="datetime64[h]").astype("datetime64[us]")
    times = hours.view(np.int64)
    for months in (0, 1, 2, 12):
        there, shift = back(times, Shift(months, 7)), Shift(months, 7)
        least = np.minimum.accumulate(there[::-1])[::-1]
        most = np.maximum.accumulate(there)
        middle = slice(72, -72)  # days before and after the months that are looked at count, too
        assert (lowest(times, shift)[middle] == least[middle]).all()
        over = highest(times, shift)[middle] - most[middle]
        assert ((over >= 0) & (over < 3_600_000_000)).all()  # hours are looked at
