"""Columns of lists by hand: grouped in order, and their quantiles."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns.lists import Lists, part_of


def lists(*rows: list[float]) -> Lists:
    half = len(rows) // 2
    column = pa.chunked_array([pa.array([*some], pa.large_list(pa.float64()))
                               for some in (rows[:half], rows[half:])])  # fmt: skip
    return Lists.of(column)


def test_the_lists_of_a_group_become_one_in_order() -> None:
    found = lists([3.0, 9.0], [], [1.0, 5.0], [2.0]).grouped(np.array([1, 0, 1, 2]), 4)
    assert found.to_pylist() == [[], [1.0, 3.0, 5.0, 9.0], [2.0], []]


@pytest.mark.parametrize(("phi", "wanted"), [
    (0.5, [2.0, 5.0, 7.0]), (0.51, [3.0, 6.0, 7.0]), (0.25, [1.0, 5.0, 7.0]),
    (0.26, [2.0, 5.0, 7.0]), (0.001, [1.0, 5.0, 7.0]), (0.999, [4.0, 6.0, 7.0]),
])  # fmt: skip
def test_a_quantile_of_each_row(phi: float, wanted: list[float]) -> None:
    rows = lists([1.0, 2.0, 3.0, 4.0], [5.0, 6.0], [7.0])
    assert rows.quantile(phi).tolist() == wanted


def test_the_rank_is_meant_as_it_is_written() -> None:
    """0.07 x 100 is 7, though as doubles it is a little more."""
    assert lists([], [float(i) for i in range(1, 101)]).quantile(0.07).tolist()[1] == 7


def test_no_rank_is_below_the_first() -> None:
    """1e-10 x 2 is nothing beside the room for rounding: still the first of the row, not 9."""
    found = lists([9.0], [1.0, 2.0])
    assert found.quantile(1e-10).tolist() == [9.0, 1.0]
    with pytest.raises(AttributeError):
        found.counts = np.zeros(2)


def test_a_row_without_a_value_has_any_number_and_shifts_no_other() -> None:
    found = lists([], [1.0, 2.0, 3.0], [], [4.0], []).quantile(0.5)
    assert (len(found), found[1], found[3]) == (5, 2.0, 4.0)
    nothing = lists([], [], []).quantile(0.5)
    assert nothing.tolist() == [0, 0, 0]
    assert nothing.dtype == np.float64


def test_a_column_is_lists_or_numbers() -> None:
    numbers = pa.chunked_array([pa.array([1, 2])])
    assert part_of(numbers).tolist() == [1, 2]
    for kind in (pa.list_(pa.int64()), pa.large_list(pa.int64())):
        found = part_of(pa.chunked_array([pa.array([[1, 2], []], kind)]))
        assert isinstance(found, Lists)
        assert (found.values.tolist(), found.counts.tolist()) == ([1, 2], [2, 0])
