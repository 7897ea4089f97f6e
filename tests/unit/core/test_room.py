"""The room of a quality target at its bounds, by hand."""

import pytest

from penstock.core.feedback import room


def test_what_was_off_for_long_is_worked_off_from_twice_the_room() -> None:
    """Full at 2; each window without an error takes 0.02 x 0.75 x 0.05: 1,334 until below 1."""
    off = [1.0] * 300
    assert room(off + [0.0] * 1_333, 0.05) == 1
    assert room(off + [0.0] * 1_334, 0.05) == pytest.approx(2 - 1_334 * 0.000_75)
    assert room(off + [0.0] * 2_667, 0.05) == 0
