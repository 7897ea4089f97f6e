"""Growth from age to age, by hand."""

import pytest

from penstock.core.development import Development


def test_growth_is_records_over_records_and_is_multiplied_up() -> None:
    known = Development(4)
    known.saw(0, 10, 15)
    known.saw(2, 20, 30)
    assert known.factors(3) == pytest.approx([2.25, 1.5, 1.5, 1.0]), "of age 1 nothing was seen"
    assert known.factors(2) == pytest.approx([1.5, 1.0, 1.0])
    assert known.factors(0) == [1.0]


def test_of_former_windows_one_in_five_hundred_is_forgotten_each_time() -> None:
    known = Development(2)
    known.saw(0, 100, 200)
    known.saw(0, 100, 100)
    assert known.passed[0] == pytest.approx(199.8)
    assert known.grown[0] == pytest.approx(299.6)
    assert known.factors(1) == pytest.approx([299.6 / 199.8, 1.0])


def test_nothing_seen_means_no_growth() -> None:
    assert Development(3).factors(2) == [1.0, 1.0, 1.0]


def test_ages_that_no_window_reached_are_not_written_down() -> None:
    known = Development(5)
    assert known.to_json() == [[], []]
    known.saw(1, 4, 6)
    assert known.to_json() == [[0.0, 4.0], [0.0, 6.0]]
    again = Development.from_json(5, known.to_json())
    assert again == known
    assert (len(again.passed), len(again.grown)) == (5, 5)
    again.saw(4, 1, 1)
    assert len(again.to_json()[0]) == 5


def test_what_is_cut_short_is_not_read() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Development.from_json(2, [[1.0]])
