"""The product limit, by a table from the literature and by counting."""

import pytest

from penstock.core.survival import quantile

WEEKS = [6, 6, 6, 7, 10, 13, 16, 22, 23]
LONGER = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]
"""Weeks in remission under 6-MP: Freireich et al. 1963, the usual example of the estimator."""


@pytest.mark.parametrize(("survive", "week"), [
    # published: 6: 0.857, 7: 0.807, 10: 0.753, 13: 0.690, 16: 0.627, 22: 0.538, 23: 0.448
    (0.99, 6), (0.858, 6), (0.856, 7), (0.808, 7), (0.806, 10), (0.754, 10), (0.752, 13),
    (0.691, 13), (0.689, 16), (0.628, 16), (0.626, 22), (0.539, 22), (0.537, 23), (0.449, 23),
    (0.447, None),
])  # fmt: skip
def test_it_is_the_published_table(survive: float, week: int | None) -> None:
    assert quantile(WEEKS, LONGER, 1 - survive) == week


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 49])
def test_without_censored_values_it_counts(count: int) -> None:
    values = [10 * i for i in range(count, 0, -1)]
    assert [quantile(values, [], k / count) for k in range(1, count + 1)] == sorted(values)


def test_a_value_stands_for_less_than_one_censored_at_it() -> None:
    """Both are at risk at 5; the one that is greater than 5 is so afterwards."""
    assert quantile([5], [5], 0.5) == 5
    assert quantile([5], [5], 0.51) is None
    assert quantile([5], [4], 1.0) == 5, "what was greater than 4 is out of sight at 5"


def test_of_nothing_there_is_no_quantile() -> None:
    assert quantile([], [], 0.5) is None
    assert quantile([], [1, 2], 0.5) is None
