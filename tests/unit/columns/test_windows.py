"""Windows over columns: boundaries by hand, many panes at once."""

import numpy as np
import pytest

from penstock.columns.windows import closed_of, ends_of, first_window, panes_of, windows_a_pane
from penstock.core.window import BEGINNING, FOREVER, WindowSpec

MS = 1_000
TUMBLING = WindowSpec(10 * MS, 10 * MS)
SLIDING = WindowSpec(30 * MS, 10 * MS)
ODD = WindowSpec(25 * MS, 10 * MS, 3 * MS)
"""[-7, 18), [3, 28), [13, 38), [23, 48) ms and so on, in panes of 5 ms."""


def column(*milliseconds: int) -> np.ndarray:
    return np.array(milliseconds, np.int64) * MS


@pytest.mark.parametrize(("watermark", "closed"), [
    (BEGINNING, [0, 0, 0]), (0, [0, 0, 0]), (10 * MS - 1, [0, 0, 0]),
    (10 * MS, [1, 0, 0]), (10 * MS + 1, [1, 0, 0]), (20 * MS - 1, [1, 0, 0]),
    (20 * MS, [1, 1, 0]), (30 * MS, [1, 1, 1]), (FOREVER, [1, 1, 1]),
])  # fmt: skip
def test_a_window_whose_end_lies_on_the_watermark_is_closed(
    watermark: int, closed: list[int]
) -> None:
    panes = column(0, 10, 20)
    assert closed_of(TUMBLING, panes, watermark).tolist() == closed
    assert [TUMBLING.closed_of(int(pane), watermark) for pane in panes] == closed


@pytest.mark.parametrize(("watermark", "closed"), [
    # the pane at 10 lies in windows that end at 20, 30, 40; the one at 20 in 30, 40, 50
    (BEGINNING, [0, 0]), (20 * MS - 1, [0, 0]), (20 * MS, [1, 0]), (30 * MS - 1, [1, 0]),
    (30 * MS, [2, 1]), (40 * MS, [3, 2]), (50 * MS - 1, [3, 2]), (50 * MS, [3, 3]),
    (60 * MS, [3, 3]), (FOREVER, [3, 3]),
])  # fmt: skip
def test_of_sliding_windows_one_more_is_closed_with_each_end(
    watermark: int, closed: list[int]
) -> None:
    panes = column(10, 20)
    assert closed_of(SLIDING, panes, watermark).tolist() == closed
    assert [SLIDING.closed_of(int(pane), watermark) for pane in panes] == closed


def test_each_pane_is_judged_by_its_own_watermark() -> None:
    watermarks = np.array([38 * MS - 1, 38 * MS, 48 * MS, 0, 27 * MS], np.int64)
    panes = column(23, 23, 28, 23, 23)  # in [3, 28) [13, 38) [23, 48); at 28 only in the last two
    assert closed_of(ODD, panes, watermarks).tolist() == [1, 2, 2, 0, 0]


def test_panes_and_their_windows_by_hand() -> None:
    times = np.array([3 * MS, 8 * MS - 1, 8 * MS, 3 * MS - 1, -2 * MS - 1], np.int64)
    assert panes_of(ODD, times).tolist() == column(3, 3, 8, -2, -7).tolist()
    panes = column(13, 18, 23, 28)
    assert first_window(ODD, panes).tolist() == column(-7, 3, 3, 13).tolist()
    assert windows_a_pane(ODD, panes).tolist() == [3, 2, 3, 2]
    assert windows_a_pane(ODD, panes).dtype == np.int64, "arrays are repeated by it"
    assert windows_a_pane(TUMBLING, column(-10, 0, 10)).tolist() == [1, 1, 1]


def test_the_number_of_ended_windows_rises_with_each_end() -> None:
    watermarks = np.array([18 * MS - 1, 18 * MS, 28 * MS - 1, 28 * MS, 8 * MS], np.int64)
    assert (ends_of(ODD, watermarks) - ends_of(ODD, column(18))).tolist() == [-1, 0, 0, 1, -1]
    assert [ODD.ends(int(w)) - ODD.ends(18 * MS) for w in watermarks] == [-1, 0, 0, 1, -1]
    assert ends_of(ODD, column(28)).tolist() == [0], "the window that starts at the origin is 0"
    assert ODD.ends(28 * MS) == 0
