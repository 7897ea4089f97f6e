"""Windows past their end, by hand: excesses, what is kept of them, when one holds too little."""

import pytest

from penstock.core.overdue import Overdue, ages_of, excess_of, key_of, needed
from penstock.core.window import WindowSpec

TUMBLING = WindowSpec(10_000, 10_000)
SLIDING = WindowSpec(30_000, 10_000)
"""Three panes a window: a record is late for one, two or all three windows of its pane."""


@pytest.mark.parametrize(("past", "excesses"), [
    (1, [1, 0, 0]),
    (40, [40, 0, 0]),
    (10_000, [10_000, 0, 0]),  # on the end of the next pane: that window still takes it
    (10_001, [10_001, 1, 0]),
    (20_000, [20_000, 10_000, 0]),
    (20_001, [20_001, 10_001, 1]),
    (20_063, [20_063, 10_063, 63]),
])  # fmt: skip
def test_a_record_has_an_excess_over_each_window_that_ended(past: int, excesses: list[int]) -> None:
    found = [excess_of(key_of(past, SLIDING), SLIDING, offset) for offset in range(3)]
    assert found == excesses


def test_beyond_the_last_window_the_excess_is_the_edge_of_its_bin() -> None:
    """1,056 to 1,087 us lie in one bin, 32 wide; so do 2**40 and the 2**35 us after it."""
    assert excess_of(key_of(1_060, TUMBLING), TUMBLING, 0) == 1_087
    assert excess_of(key_of(21_060, SLIDING), SLIDING, 2) == 1_087
    assert excess_of(key_of(21_060, SLIDING), SLIDING, 0) == 21_087
    assert excess_of(key_of(2**40, TUMBLING), TUMBLING, 0) == 2**40 + 2**35 - 1
    assert excess_of(key_of(20_000 + 2**61, SLIDING), SLIDING, 1) == 10_000 + 2**61 + 2**56 - 1


def test_an_excess_within_a_pane_is_not_more_than_the_pane() -> None:
    """9,990 lies in a bin of 9,984 to 10,239; the pane is 10,000 long."""
    assert excess_of(key_of(9_990, SLIDING), SLIDING, 0) == 10_000
    assert excess_of(key_of(19_990, SLIDING), SLIDING, 1) == 10_000
    assert excess_of(key_of(9_990, TUMBLING), TUMBLING, 0) == 10_239, "nothing bounds the last"


@pytest.mark.parametrize(("records", "threshold", "enough"), [
    (0, 0.9, 0), (1, 0.01, 1), (10, 0.0, 1), (10, 0.9, 9), (10, 0.91, 10), (10, 1.0, 10),
    (11, 0.9, 10), (100, 0.07, 7), (100, 0.55, 55), (100, 0.551, 56), (3, 2.0, 3),
])  # fmt: skip
def test_so_many_are_needed(records: int, threshold: float, enough: int) -> None:
    """0.07 x 100 is 7, though as doubles it is a little more."""
    assert needed(records, threshold) == enough


def test_ages_double_with_every_second_one() -> None:
    ages = ages_of(WindowSpec(256_000, 256_000))
    assert ages[:6] == [0, 1_000, 1_414, 2_000, 2_828, 4_000]
    assert len(ages) == 113
    assert ages[-2] == 1_000 * 2**55
    assert ages_of(WindowSpec(1_000, 1_000))[1] == 3


def test_a_new_window_is_open_and_empty() -> None:
    assert Overdue().to_json() == [0, -1, 0, 0, False, False, 0, []]


def test_records_are_counted_by_excess_and_those_in_time_have_none() -> None:
    window = Overdue()
    window.add(0, 6)
    window.add(5, 2)
    window.add(5, 1)
    window.add(1, 1)
    assert window.records == 10
    assert window.tail == {5: 3, 1: 1}


def window_of_ten() -> Overdue:
    window = Overdue()
    for excess, count in ((0, 6), (5, 2), (7, 1), (9, 1)):
        window.add(excess, count)
    return window


def test_the_slack_with_which_so_many_would_have_been_in_time() -> None:
    window = window_of_ten()
    assert [window.required(n) for n in range(5, 12)] == [0, 0, 5, 5, 7, 9, None]


def test_excesses_that_no_question_asks_for_are_dropped() -> None:
    window = window_of_ten()
    window.trim(0.9)  # nine are needed: the ninth came at 7
    assert (window.tail, window.low) == ({7: 1, 9: 1}, 5)
    assert [window.required(n) for n in range(7, 12)] == [5, 5, 7, 9, None]
    window.add(5, 10)  # twenty: eighteen are needed, and they came by 5
    window.trim(0.9)
    assert (window.tail, window.low) == ({5: 10, 7: 1, 9: 1}, 5)
    window.trim(1.0)
    assert (window.tail, window.low) == ({9: 1}, 7)


def test_an_excess_with_which_more_than_enough_had_come_is_kept() -> None:
    window = Overdue()
    for excess, count in ((0, 6), (5, 2), (7, 4)):
        window.add(excess, count)
    window.trim(0.9)  # eleven of twelve are needed: eight came by 5, all by 7
    assert (window.tail, window.low) == ({7: 4}, 5)
    assert window.required(11) == 7


def test_a_window_misses_once_if_it_was_closed_with_too_little() -> None:
    window = window_of_ten()
    assert not window.misses(0.9), "it is open"
    window.received = 9
    assert not window.misses(0.9)
    window.received = 8
    assert window.misses(0.9)
    assert window.missed
    assert not window.misses(0.9), "that was known"
    nothing = Overdue(records=1, received=0)
    assert nothing.misses(0.9), "closed without a record"


def test_all_of_it_is_written_down() -> None:
    window = Overdue(10, 8, 3, 9, True, True, 5, {9: 1, 7: 2})
    assert window.to_json() == [10, 8, 3, 9, True, True, 5, [(7, 2), (9, 1)]]
    assert Overdue.from_json([10, 8, 3, 9, True, True, 5, [[7, 2], [9, 1]]]) == window
