"""Law 5: measures merge associatively and commutatively, doubles within the stated bound.

Three forms must agree: ``core.measure.Partial``, the vectorised kernel, exact fractions.
"""

import math
import sys
from fractions import Fraction
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.groups import group
from penstock.columns.sums import exact_sum, exact_sum_longs, split_longs, total_of
from penstock.core.errors import TerminalError
from penstock.core.measure import Function, Partial
from penstock.kinds.windowed.layout import layout_of
from tests.reference import Measure, value_of
from tests.steps import make_pipeline

pytestmark = pytest.mark.law

Sums = tuple[np.ndarray, np.ndarray]

BOUND = Fraction(1, 10**15)
GREATEST = sys.float_info.max
EXTREMES = [GREATEST, 1e308, 2.0**960, 2.0**959, 2.0**1000, 1.0, 2.3e-308, 5e-324, 0.0]
doubles = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [*EXTREMES, *(-x for x in EXTREMES)]
)
longs = st.integers(-(2**63), 2**63 - 1)


def near(found: float, values: list[float]) -> bool:
    """Within 1e-15 x sum|x|, or within the least double there is; beyond the largest infinite."""
    true, size = sum(map(Fraction, values)), sum(abs(Fraction(v)) for v in values)
    room = BOUND * size + Fraction(5e-324)
    if math.isinf(found):
        return (true if found > 0 else -true) + room > Fraction(GREATEST)
    return abs(Fraction(found) - true) <= room


def near_mean(found: float, values: list[float]) -> bool:
    """Finite, and within 1e-15 x avg|x| or the least double there is."""
    true, size = (sum(some) / len(values) for some in (
        map(Fraction, values), (abs(Fraction(v)) for v in values)))  # fmt: skip
    return abs(Fraction(found) - true) <= BOUND * size + Fraction(5e-324)


def folded(values: list) -> Partial:
    total = Partial()
    for value in values:
        total = total.update(value)
    return total


@given(values=st.lists(st.none() | doubles), cut=st.integers(0, 30), other=st.integers(0, 30))
def test_partials_of_doubles_merge_in_any_way(values, cut, other) -> None:
    a, b = sorted((cut, other))
    x, y, z = folded(values[:a]), folded(values[a:b]), folded(values[b:])
    seen = [v for v in values if v is not None]
    for total in (x.merge(y).merge(z), x.merge(y.merge(z)), z.merge(y).merge(x)):
        assert total.finish(Function.COUNT) == len(seen)
        assert total.finish(Function.MIN) == min(seen, default=None)
        assert total.finish(Function.MAX) == max(seen, default=None)
        if seen:
            assert near(total.finish(Function.SUM), seen)
        else:
            assert total.finish(Function.SUM) is None


@given(values=st.lists(st.none() | longs), cut=st.integers(0, 30))
def test_partials_of_integers_are_exact(values, cut) -> None:
    total = folded(values[:cut]).merge(folded(values[cut:]))
    seen = [v for v in values if v is not None]
    assert total.finish(Function.SUM) == (sum(seen) if seen else None)


@given(rows=st.lists(st.tuples(st.integers(0, 3), doubles), min_size=1))
def test_grouped_sums_of_doubles_are_within_the_bound(rows) -> None:
    ids = np.array([g for g, _ in rows])
    values = np.array([v for _, v in rows])
    total = total_of(*exact_sum(ids, 4, values, np.zeros(len(values))))
    for g in range(4):
        assert near(total[g], [v for i, v in rows if i == g])


@given(
    parts=st.lists(st.lists(st.tuples(st.integers(0, 2), doubles), max_size=6), min_size=1),
    by_two=st.booleans(),
)
def test_sums_of_sums_overflow_by_the_whole_and_never_by_a_part(parts, by_two) -> None:
    """Merged one by one, or all at once: what a part alone cannot hold may come back."""

    def summed(ids: list[int], pairs: list[tuple[float, float]]) -> Sums:
        high, low = (np.array([pair[i] for pair in pairs], float) for i in (0, 1))
        return exact_sum(np.array(ids, np.int64), 3, high, low)

    def together(*sums: Sums) -> Sums:
        pairs = [(float(h[g]), float(low[g])) for h, low in sums for g in range(3)]
        return summed([0, 1, 2] * len(sums), pairs)

    sums = [summed([g for g, _ in part], [(x, 0.0) for _, x in part]) for part in parts]
    total = reduce(together, sums) if by_two else together(*sums)
    for g in range(3):
        values = [x for part in parts for i, x in part if i == g]
        assert near(total_of(total[0][g : g + 1], total[1][g : g + 1])[0], values)


@pytest.mark.parametrize(
    ("values", "total", "mean"),
    [
        ([1e308, 1e308], math.inf, 1e308),
        ([-1e308, -1e308], -math.inf, -1e308),
        ([1e308, 1e308, -1e308], 1e308, 1e308 / 3),
        ([GREATEST] * 9, math.inf, GREATEST),
        ([GREATEST, 1.0], GREATEST, GREATEST / 2),
        ([1e308, 1e300, -1e308], 1e300, 1e300 / 3),
        ([5e-324, 5e-324], 1e-323, 5e-324),
        ([-0.0, -0.0], 0.0, 0.0),
    ],
)
def test_what_a_double_cannot_hold_is_infinite_and_an_average_never(values, total, mean) -> None:
    layout, zeros = layout_of(STEP), np.zeros(1, np.int64)
    parts = [layout.of_records(table_of([("a", x, None)]), {"window_start": zeros}) for x in values]
    found = layout.finish(layout.merge(pa.concat_tables(parts), "window_start"))
    oracle = [value_of(Measure("m", name, lambda x: x), values).value for name in ("sum", "avg")]
    core = folded(values)
    for said in (
        [found["total"][0].as_py(), found["mean"][0].as_py()],
        oracle,
        [core.finish(Function.SUM), core.finish(Function.AVG)],
    ):
        assert said == [total, pytest.approx(mean, rel=1e-15, abs=0)]
        assert math.copysign(1, said[0]) == math.copysign(1, total), "-0.0 is 0.0"


@pytest.mark.parametrize("cut", range(6))
@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([1e300, 6.0, -1e300], 6.0),
        ([1e308, 1e280, 1e308, -1e308, -1e308], 1e280),
        ([-1e308, -1e308, 0.1, 1e308, 1e308], 0.1),
    ],
)
def test_large_numbers_that_cancel_leave_the_rest_to_the_last_bit(values, total, cut) -> None:
    """Beside a group without any; a rest of small numbers keeps 64 bits less."""

    def summed(some: list[float]) -> Sums:
        ids = np.array([0] * len(some) + [1], np.int64)
        return exact_sum(ids, 2, np.array([*some, 0.3]), np.zeros(len(some) + 1))

    first, second = summed(values[:cut]), summed(values[cut:])
    pairs = [np.concatenate(part) for part in zip(first, second, strict=True)]
    merged = exact_sum(np.array([0, 1, 0, 1]), 2, *pairs)
    assert total_of(*merged).tolist() == [total, 0.6]
    assert total_of(*merged, np.array([2, 3])).tolist() == [total / 2, pytest.approx(0.2)]


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_not_finite_is_an_error_and_no_endless_loop(wrong: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        exact_sum(np.zeros(2, np.int64), 1, np.array([1.0, wrong]), np.zeros(2))


@given(rows=st.lists(st.tuples(st.integers(0, 3), longs), min_size=1))
def test_grouped_sums_of_integers_are_exact(rows) -> None:
    ids = np.array([g for g, _ in rows])
    high, low = split_longs(np.array([v for _, v in rows], np.int64))
    sums = exact_sum_longs(ids, 4, high, low)
    for g in range(4):
        exact = sum(v for i, v in rows if i == g)
        assert int(sums[0][g]) * 2**32 + int(sums[1][g]) == exact


STEP = make_pipeline(
    Path("/nowhere"),
    {"s": {
        "keys": ["site"], "window": {"size": "PT1S"}, "slack": {"fixed": "PT0S"},
        "measures": {"n": "count(*)", "known": "count(delay)", "total": "sum(delay)",
                     "mean": "avg(delay)", "low": "min(delay)", "high": "max(delay)",
                     "whole": "sum(bags)", "mean_whole": "avg(bags)", "least": "min(bags)",
                     "most": "max(bags)"},
    }},
).spec("s")  # fmt: skip


def table_of(rows: list) -> pa.Table:
    schema = pa.schema({"site": pa.string(), "delay": pa.float64(), "bags": pa.int64(),
                        "arrival_seq": pa.int64()}.items())  # fmt: skip
    content = [{"site": s, "delay": d, "bags": b, "arrival_seq": i}
               for i, (s, d, b) in enumerate(rows)]  # fmt: skip
    return pa.Table.from_pylist(content, schema=schema)


records = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | doubles,
              st.none() | st.integers(-(2**55), 2**55)), min_size=1, max_size=25)  # fmt: skip


@given(rows=records, cut=st.integers(0, 25))
def test_the_layout_says_what_partial_says_for_any_cut(rows, cut) -> None:
    layout, table = layout_of(STEP), table_of(rows)
    window = np.zeros(table.num_rows, np.int64)
    parts = [
        layout.of_records(t, {"window_start": w})
        for t, w in ((table.slice(0, cut), window[:cut]), (table.slice(cut), window[cut:]))
    ]
    merged = layout.merge(pa.concat_tables(parts[::-1]), "window_start")
    finished = layout.finish(merged)
    for i, row in enumerate(merged.to_pylist()):
        mine = [r for r in rows if r[0] == row["site"]]
        got = {name: pa.array(column)[i].as_py() for name, column in finished.items()}
        delays, bags = folded([d for _, d, _ in mine]), folded([b for *_, b in mine])
        assert (got["n"], got["known"]) == (len(mine), delays.n)
        assert (got["low"], got["high"]) == (delays.least, delays.greatest)
        assert got["whole"] == bags.finish(Function.SUM)
        assert (got["least"], got["most"]) == (bags.least, bags.greatest)
        seen = [d for _, d, _ in mine if d is not None]
        if seen:
            assert near(got["total"], seen)
            assert near_mean(got["mean"], seen)
        else:
            assert got["total"] is got["mean"] is None
        if bags.n:
            exact = Fraction(bags.finish(Function.SUM)) / bags.n
            assert got["mean_whole"] == pytest.approx(float(exact), rel=1e-15)


@pytest.mark.parametrize("values", [[2**62] * 2, [-(2**62)] * 2 + [-1], [-(2**63)] * 3])
def test_a_sum_of_integers_beyond_64_bits_is_an_error_with_a_remedy(values: list[int]) -> None:
    layout, window = layout_of(STEP), np.zeros(len(values), np.int64)
    table = table_of([("a", None, value) for value in values])
    merged = layout.of_records(table, {"window_start": window})
    with pytest.raises(TerminalError, match=r"s\.whole: .*exceeds 64 bits\. Declare"):
        layout.finish(merged)


@pytest.mark.parametrize("values", [[2**62, 2**62 - 1], [-(2**62)] * 2])
def test_the_last_sums_of_integers_within_64_bits_are_exact(values: list[int]) -> None:
    layout, window = layout_of(STEP), np.zeros(len(values), np.int64)
    table = table_of([("a", None, value) for value in values])
    merged = layout.of_records(table, {"window_start": window})
    assert layout.finish(merged)["whole"].to_pylist() == [sum(values)]


@given(
    columns=st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(-3, 3), longs),
                     min_size=1, max_size=30)
)  # fmt: skip
def test_groups_are_the_distinct_combinations_null_included(columns) -> None:
    texts = pa.chunked_array([pa.array([c[0] for c in columns], pa.string())])
    small, wide = (np.array([c[i] for c in columns], np.int64) for i in (1, 2))
    ids, first = group([texts, small, wide], len(columns))
    assert len(first) == len(set(columns))
    for i, row in enumerate(columns):
        assert columns[first[ids[i]]] == row
