"""``pd_final``: a step by hand, what it keeps within, and what it promises of final windows."""

import random
from collections import deque
from unittest import mock

import numpy as np
import pytest

from penstock.columns.watermark import Steering
from penstock.core import lateness
from penstock.core.controllers import fresh, from_text
from penstock.core.lateness import bin_of, edge_of
from penstock.core.paced import Paced
from penstock.core.slack import SlackPolicy, SlackSpec, Tuning
from penstock.core.window import WindowSpec
from tests.arriving import arrivals
from tests.laws.test_required_slack import missed, run, stream

pytestmark = pytest.mark.law

SECOND = 1_000_000
WINDOW = WindowSpec(SECOND, SECOND)
SLIDING = WindowSpec(SECOND, SECOND // 5)
DELTA, THRESHOLD = 0.05, 0.9


def controller(window: WindowSpec = WINDOW, **more: float | None) -> Paced:
    tuning = Tuning(THRESHOLD, DELTA, **({"horizon": None} | more))
    found = fresh(window, SlackSpec(SlackPolicy.PD_FINAL, 0, tuning))
    assert isinstance(found, Paced)
    return found


def tuned(horizon: int, every: int = 1) -> Paced:
    """A hundred windows needed 0.1 ms times 1, 4, 9, ... 10,000; a record was some 4 s late."""
    known = controller()
    known.slacks = deque((i * SECOND, 100 * i * i) for i in range(1, 101))
    known.lags.now = {bin_of(4 * SECOND): 1, 0: 10_000}
    known.horizon, known.slack, known.since, known.runoff.every = horizon, 2 * SECOND, 0, every
    known.slack = known._chosen()
    return known


def test_a_step_by_hand() -> None:
    """Windows of 1 s, closed 2 s after their end, final 12 s after it: 10 windows in between."""
    known = tuned(12 * SECOND)
    k = edge_of(bin_of(4 * SECOND))
    assert (known.lately, known.dead) == (k, 10.0)
    assert known.slack == SECOND, "what all of the last windows needed"
    assert known.alpha == pytest.approx(SECOND / k)
    # 5 of 100 needed more than 95^2 = 0.9025 s, 2 (delta / 2) more than 98^2 = 0.9604 s
    gain = (0.05 - 0.025) / ((0.9604 - 0.9025) * SECOND / k)
    assert known.kp == pytest.approx(1 / (gain * (59 + 10)))
    # a window held too little: 1 - 0.025; smoothed over 10 / 3 windows: 0.2925
    before = known.alpha
    known._known(missed=True)
    assert known.error == pytest.approx(0.2925)
    assert known.alpha - before == pytest.approx(known.kp * (0.975 + 10 / 3 * 0.2925))
    # the next did not: -0.025; smoothed 0.19725, which is 0.09525 less
    before = known.alpha
    known._known(missed=False)
    assert known.error == pytest.approx(0.19725)
    assert known.alpha - before == pytest.approx(known.kp * (-0.025 - 10 / 3 * 0.09525))


def test_the_later_it_shows_the_smaller_the_steps() -> None:
    """Weights times gain: as few windows as delta asks for decide, then twice the dead time."""
    weights = [tuned(horizon * SECOND).kp for horizon in (1, 61, 202, 402)]
    shares = [weight / weights[0] for weight in weights]
    assert shares == pytest.approx([1, 59 / 118, 59 / 400, 59 / 800])
    assert tuned(402 * SECOND, every=2).kp == pytest.approx(weights[2]), "of windows looked at"


@pytest.mark.parametrize("window", [WINDOW, SLIDING])
def test_k_is_a_share_of_the_greatest_lateness_and_all_is_written_down(window: WindowSpec) -> None:
    """Whatever comes; also when half of the stream has no late record at all."""
    draw = random.Random(2)  # noqa: S311
    known, newest, seen = controller(window), 0, set[bool]()
    for number in range(500):
        late = draw.choice([0, 0, 1, 8, 40]) if number % 200 < 120 else 0
        times = [newest + SECOND // 3, *(newest - draw.randint(0, late) * SECOND for _ in "abcd")]
        block = arrivals(times, newest, window)
        newest = max(newest, block.newest)
        known.after(block)
        seen.add(known.steady)
        assert 0 <= known.alpha <= 1
        assert known.kp >= 0
        if known.steady:
            assert known.slack == round(known.alpha * known.lately)
            assert known.lately <= edge_of(bin_of(known.greatest_ever))
        else:
            assert known.slack == known.greatest_ever
        text = known.to_text()
        again = from_text(window, known.spec, text)
        assert again == known
        assert again.to_text() == text
    assert seen == {False, True}
    assert len(text) < 20_000, "the state is bounded"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_so_many_final_windows_hold_too_little_also_after_lateness_trebles(seed: int) -> None:
    times = stream(seed, 30_000, 0.7)
    change = max(times) + SECOND
    times += [change + time for time in stream(seed + 10, 30_000, 2.1)]
    known = controller()
    marks = [*run(times, known)]
    assert known.since is not None
    final = -int(known.horizon // SECOND) - 10
    found = missed(times, marks, WINDOW.size, known.since)[:final]
    assert len(found) > 2_500
    assert sum(found) / len(found) <= DELTA
    after = missed(times, marks, WINDOW.size, change)[:final]
    assert len(after) > 1_200
    assert sum(after) / len(after) <= DELTA
    assert known.slack < known.greatest_ever / 2


def test_an_ancient_record_is_forgotten_and_k_does_not_jump_with_it() -> None:
    """It came in the middle; ``pd`` as published would hold it for good."""
    times = stream(4, 30_000, 0.7)
    times.insert(15_000, times[0])
    known, steering, newest = controller(), None, times[0]
    kept: list[tuple[int, int, float]] = []
    with mock.patch.object(lateness, "ENOUGH", 2_000):
        steering = Steering(known, -1)
        for low in range(0, len(times), 256):
            some = np.array(times[low : low + 256], np.int64)
            [*steering.take(np.arange(low, low + len(some)), some, newest, low + len(some) - 1)]
            newest = max(newest, int(some.max()))
            kept.append((known.lately, known.slack, known.alpha))
    greatest = max(lately for lately, *_ in kept)
    assert greatest > 700 * SECOND
    assert known.lately < 20 * SECOND
    steady = [slack for lately, slack, _ in kept if lately]
    assert max(steady) < 5 * min(steady), "K goes on where k changes"
    assert min(alpha for *_, alpha in kept) < 0.01 < known.alpha
