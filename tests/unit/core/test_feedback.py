"""The room above a formula's threshold: by hand, and what it promises."""

import random

import pytest

from penstock.core.feedback import ALLOWED, MOST, ROOM_STEP, room

DELTA = 0.05


def test_the_room_by_hand() -> None:
    assert room([], DELTA) == 0
    assert room([0.0, 0.0], DELTA) == 0, "never below nothing"
    assert room([1.0, 0.0], DELTA) == pytest.approx(0.02 * (1 - 2 * 0.75 * 0.05))
    assert room([1.0] * 60, DELTA) == 1, "never above all"


@pytest.mark.parametrize("seed", range(5))
def test_so_many_answers_are_off_whatever_the_threshold_does(seed: int) -> None:
    """An adversary moves how much room is needed; feedback comes forty windows late."""
    draw, delay, count = random.Random(seed), 40, 20_000  # noqa: S311
    shares, needed, off = list[float](), 0.5, 0
    used = 0.0
    for i in range(count):
        if not i % 1_000:
            needed = draw.uniform(0.0, 0.9)
        if i >= delay:
            used = min(max(used + ROOM_STEP * (shares[i - delay] - ALLOWED * DELTA), 0.0), MOST)
        share = float(min(used, 1.0) < needed) if draw.random() < 0.5 else 0.0
        shares.append(share)
        off += share > 0
    assert min(used, 1.0) == pytest.approx(room(shares[: count - delay], DELTA))
    assert off / count <= ALLOWED * DELTA + (MOST / ROOM_STEP + delay) / count
    assert off / count < DELTA


def test_what_was_off_for_long_is_worked_off_from_twice_the_room() -> None:
    """Full at 2; each window without an error takes 0.02 x 0.75 x 0.05: 1,334 until below 1."""
    off = [1.0] * 300
    assert room(off + [0.0] * 1_333, 0.05) == 1
    assert room(off + [0.0] * 1_334, 0.05) == pytest.approx(2 - 1_334 * 0.000_75)
    assert room(off + [0.0] * 2_667, 0.05) == 0
