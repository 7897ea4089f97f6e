"""Which way a state gets into another number of shards."""

import pytest

from penstock.core.rescaling import MOST_MOVED, Way, predicted


@pytest.mark.parametrize(
    ("kept", "records", "by_key", "way"),
    [
        (1_000, 5_000_000, True, Way.MOVE),
        (1_000, 1_000, True, Way.REBUILD),
        (1_000, 5_000_000, False, Way.REBUILD),
        (MOST_MOVED + 1, 500_000_000, True, Way.REBUILD),
    ],
    ids=["much to read", "little to read", "rows of several shards", "more than fits"],
)
def test_what_is_predicted_to_take_less_is_taken(
    kept: int, records: int, *, by_key: bool, way: Way
) -> None:
    prediction = predicted(kept, records, 0.5, by_key=by_key)
    assert prediction.way is way
    assert predicted(kept, records, 9.0, by_key=by_key).rebuild < prediction.rebuild + 0.51
    assert prediction.rebuild == pytest.approx(0.5 + records / 1_000_000)
