"""K as the slack that windows needed, and what of a window was there when it closed: by hand."""

import pytest

from penstock.core.controller import Arrivals, Measured
from penstock.core.controllers import fresh
from penstock.core.lateness import bin_of, edge_of
from penstock.core.overdue import Overdue
from penstock.core.paced import Paced
from penstock.core.required import Required
from penstock.core.runoff import Runoff
from penstock.core.slack import SlackPolicy, SlackSpec, Tuning
from penstock.core.window import WindowSpec

SECOND = 1_000_000
WINDOW = WindowSpec(100 * SECOND, 100 * SECOND)
LATEST = edge_of(bin_of(80 * SECOND))
"""The greatest lateness of the last records, as exactly as it is known."""


def controller(delta: float, slacks: range, **figures: float) -> Required:
    """One that knows what slacks final windows needed, s."""
    tuning = Tuning(0.9, delta, None)
    found = Required(WINDOW, SlackSpec(SlackPolicy.QUANTILE, 0, tuning), **figures)
    found.horizon = 10 * SECOND
    found.lags.now = {bin_of(80 * SECOND): 1, 0: 99}
    found.slacks.extend((i, slack * SECOND) for i, slack in enumerate(slacks))
    return found


@pytest.mark.parametrize(("margin", "slack"), [
    (0.0, 40 * SECOND),  # all but a fifth of fifty
    (0.5, 45 * SECOND),
    (1.0, 50 * SECOND),
    (1.5, (50 * SECOND + LATEST) // 2),
    (2.0, LATEST),
])  # fmt: skip
def test_the_margin_says_how_many_of_the_last_windows_are_covered(
    margin: float, slack: int
) -> None:
    assert controller(0.2, range(1, 51), margin=margin)._chosen() == pytest.approx(slack, abs=1)


def test_k_is_no_more_than_the_greatest_lateness() -> None:
    assert controller(0.2, range(1, 501), margin=1.0)._chosen() == LATEST


def young(found: Required, start: int, ages: int) -> None:
    found.runoff.overdue[start] = Overdue(records=10, ages=ages, aged=10)


@pytest.mark.parametrize(("ages", "slack"), [(3, 6), (4, 5)])
def test_a_young_window_needed_more_than_its_age_if_most_is_to_come(ages: int, slack: int) -> None:
    """Windows grow threefold from the third age to the fourth, and no more after it.

    With two windows of which no more is known than that they needed more than 5.5 s, .5 of all
    needed more than 5 s, and a third of these more than 6 s (product limit); with the two that
    have all and needed nothing, three of ten needed more than 5 s.
    """
    found = controller(0.35, range(1, 9), margin=0.0)
    start = 300 * SECOND
    found.t_max = start + WINDOW.size + 5_500_000
    found.runoff.development.saw(2, 100, 300)
    young(found, start, ages)
    young(found, start - 1, ages)
    assert found._chosen() == slack * SECOND


def test_where_too_much_is_to_come_k_is_the_horizon() -> None:
    found = controller(0.2, range(1, 2))
    found.t_max = 105_500_000
    found.runoff.development.saw(2, 100, 300)
    for start in range(9):
        young(found, -start, 3)
    assert found._chosen() == found.horizon


def test_the_margin_moves_with_what_came_of_it_between_none_and_twice() -> None:
    found = controller(0.2, range(1, 51), margin=0.5)
    found._known(missed=True)
    assert found.margin == pytest.approx(0.5 + 0.05 * 0.9)
    found._known(missed=False)
    assert found.margin == pytest.approx(0.5 + 0.05 * 0.8)
    for missed, end in ((True, 2.0), (False, 0.0)):
        for _ in range(1_000):
            found._known(missed=missed)
        assert found.margin == end


def test_until_it_is_steady_pd_final_waits_for_all_of_the_greatest_lateness() -> None:
    known = fresh(WINDOW, SlackSpec(SlackPolicy.PD_FINAL, 0, Tuning(0.9, 0.2, None)))
    assert isinstance(known, Paced)
    assert (known.steady, known.alpha) == (False, 1.0)


def test_windows_older_than_what_is_recent_are_forgotten() -> None:
    found = controller(0.2, range(1, 51))
    found.turn(SlackSpec(SlackPolicy.QUANTILE, 0, Tuning(0.9, 0.2, None, recent=20)))
    found.t_max = 60
    found._forget()
    assert [start for start, _ in found.slacks] == [*range(40, 50)]


def test_a_window_held_too_little_below_the_threshold_not_at_it() -> None:
    held = [Measured(0, n, 10, 0, 1.0, 0.0, threshold=0.9) for n in (8, 9, 10)]
    assert [(one.coverage, one.below) for one in held] == [(0.8, True), (0.9, False), (1.0, False)]


@pytest.mark.parametrize("watermark", [100, 101, 199])
def test_a_window_received_what_was_there_when_it_closed_also_right_at_its_end(
    watermark: int,
) -> None:
    window = WindowSpec(100_000, 100_000)
    runoff = Runoff(window, 0.9)

    def take(count: int, newest: int) -> None:
        runoff.take(Arrivals(newest * 1_000, 0, {0: count}, {0: count}, {}), 0, 0)

    take(3, 50)
    runoff.close(watermark * 1_000)
    take(2, 60)
    runoff.close(200_000)
    runoff.advance(200_000, 200_000)
    assert {start: one.received for start, one in runoff.overdue.items()} == {0: 3}
    assert runoff.overdue[0].records == 5
    assert runoff.missed == [0]


def test_what_a_closed_window_received_stays_also_if_it_was_nothing() -> None:
    runoff = Runoff(WINDOW, 0.9, begin=0, following=WINDOW.size, closing=WINDOW.size)
    runoff.overdue = {0: Overdue(records=5, received=0), -WINDOW.size: Overdue(records=5)}
    again = Runoff.from_json(WINDOW, 0.9, runoff.to_json())
    assert again == runoff
    again.close(10 * WINDOW.size)
    assert [again.overdue[start].received for start in (0, -WINDOW.size)] == [0, 5]
