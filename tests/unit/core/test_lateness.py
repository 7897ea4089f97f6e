"""Lateness by hand: bins, the greatest of late, and a histogram that forgets."""

from collections import Counter
from collections.abc import Mapping, Sequence

from penstock.core.lateness import ENOUGH, Greatest, Histogram, bin_of, edge_of, plain_of


def test_bins_below_64_hold_one_value_and_32_an_octave_from_there() -> None:
    assert [bin_of(n) for n in range(64)] == list(range(64))
    assert [edge_of(n) for n in range(64)] == list(range(64))
    assert [bin_of(n) for n in (64, 65, 66, 127, 128, 131, 132, 255, 256)] == [
        64, 64, 65, 95, 96, 96, 97, 127, 128,
    ]  # fmt: skip
    assert [edge_of(n) for n in (64, 65, 95, 96, 97, 127, 128)] == [65, 67, 127, 131, 135, 255, 263]


def test_a_horizon_is_forgotten_in_eighths() -> None:
    held = Greatest(80)
    held.add(0, 5)
    held.add(9, 7)
    held.add(9, 6)
    assert held.to_json() == [(0, 7)]
    held.add(10, 3)
    held.add(19, 2)
    assert held.to_json() == [(0, 7), (10, 3)]
    held.add(89, 1)
    assert held.value == 7, "the first part ended at 10: within the horizon before 89"
    held.add(99, 0)
    assert held.to_json() == [(10, 3), (89, 1), (99, 0)]
    assert held.value == 3


def test_a_part_whose_end_lies_on_the_horizon_is_forgotten() -> None:
    held = Greatest(80)
    for newest, greatest in ((0, 7), (10, 3), (90, 1)):
        held.add(newest, greatest)
    assert held.to_json() == [(10, 3), (90, 1)]


def test_after_a_long_gap_only_what_reaches_into_the_horizon_is_left() -> None:
    held = Greatest(80)
    for newest in (0, 10, 20, 30):
        held.add(newest, 9)
    held.add(10**9, 4)
    assert held.to_json() == [(30, 9), (10**9, 4)], "a part lasts until the next one begins"
    held.add(10**9 + 80, 2)
    assert held.to_json() == [(10**9, 4), (10**9 + 80, 2)]


def test_without_any_horizon_left_only_the_last_step_is_remembered() -> None:
    held = Greatest(0)
    for greatest in (5, 3):
        held.add(0, greatest)
    assert held.to_json() == [(0, 3)]


def test_without_a_horizon_nothing_is_forgotten() -> None:
    held = Greatest()
    assert held.value == 0
    held.add(0, 5)
    held.add(10**15, 3)
    assert held.to_json() == [(0, 5)]
    assert Greatest.from_json(None, [[0, 5]]) == held


def test_what_few_records_exceed_by_counting() -> None:
    held = Histogram(now={1: 80, 5: 1}, before={1: 10, 2: 9})
    assert held.exceeded(0.0) == 5
    assert held.exceeded(0.01) == 2, "one of a hundred exceeds 2"
    assert held.exceeded(0.0099) == 5
    assert held.exceeded(0.1) == 1
    assert held.exceeded(1.0) == 0
    assert Histogram(now={64: 1}).exceeded(0.0) == 65, "the greatest lateness in the bin"
    assert Histogram().exceeded(0.5) == 0
    assert (held.now, held.before) == ({1: 80, 5: 1}, {1: 10, 2: 9}), "asking changes nothing"


def test_a_histogram_begins_anew_with_a_hundred_thousand() -> None:
    assert ENOUGH == 100_000
    held = Histogram(before={9: 1}, waiting=[{3: 60_000}, {3: 39_999}])
    held.turn()
    assert held == Histogram({3: 99_999}, {9: 1})
    held.waiting.append({3: 1})
    assert held.to_json() == [[(3, 100_000)], [(9, 1)]]
    held.turn()
    assert held == Histogram({}, {3: 100_000})
    held.turn()
    assert held == Histogram({}, {3: 100_000}), "what is too few is not forgotten for"
    held.waiting.append({4: 150_000})
    held.turn()
    assert held == Histogram({}, {4: 150_000}), "more than enough is enough"
    assert held != held.to_json()
    assert Histogram({1: 2}) != Histogram({1: 1}) != Histogram({1: 2})


class Two:
    """A tally that knows itself and others as one number each."""

    def __init__(self, number: int) -> None:
        self.number = number

    def together(self, others: Sequence["Two"]) -> Mapping[int, int]:
        return Counter(each.number for each in others)


def test_tallies_and_plain_counts_are_summed_together() -> None:
    assert plain_of([]) == {}
    assert plain_of([{1: 2}, {1: 3, 4: 1}]) == {1: 5, 4: 1}
    assert plain_of([Two(1), {1: 2}, Two(7), Two(1)]) == {1: 4, 7: 1}
