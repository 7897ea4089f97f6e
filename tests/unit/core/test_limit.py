"""The upper limit of a rate, against scipy."""

import pytest
from scipy import stats

from penstock.core.limit import upper_limit


@pytest.mark.parametrize(("off", "of"), [(0, 1), (0, 59), (3, 60), (375, 10_000), (9_999, 10_000)])
def test_the_limit_is_clopper_and_pearson_s(off: int, of: int) -> None:
    assert upper_limit(off, of) == pytest.approx(stats.beta.ppf(0.95, off + 1, of - off))


@pytest.mark.parametrize("of", [0, 7])
def test_where_all_are_off_or_none_was_counted_it_is_one(of: int) -> None:
    assert upper_limit(of, of) == 1.0
