"""Bars of what was said: as wide as windows are apart, also of a single window."""

from datetime import timedelta

import pyarrow as pa
import pytest

from penstock.lake.serve.newest import AGAIN
from penstock.quality.said import said_figure
from tests.streams import EPOCH


@pytest.mark.parametrize("windows", [1, 3])
def test_each_window_has_its_bar(windows: int) -> None:
    starts = [EPOCH + n * timedelta(minutes=80) for n in range(windows)]
    rows = pa.table({"window_start": starts, "how": [AGAIN] * windows, "n": range(1, windows + 1)})
    axes = said_figure(rows).axes[0]
    left, right = axes.get_xlim()
    assert [bar.get_height() for bar in axes.patches] == [*range(1, windows + 1)]
    for bar in axes.patches:
        assert 0.85 / windows < bar.get_width() / (right - left) <= 1 / windows
