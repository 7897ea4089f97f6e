"""Marks against plain loops: what is in force, where windows closed, and the way as text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.marks import NO_MARKS, Marks, note
from penstock.core.window import BEGINNING, FOREVER, WindowSpec
from tests import reference as ref

WINDOW = WindowSpec(10_000, 5_000)
moves = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20_000)), max_size=30)


def marks_of(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """From steps in position and watermark, as a fold notes them."""
    found, seq, watermark = [(0, BEGINNING)], 0, 0
    for more, further in steps:
        seq, watermark = seq + more, watermark + further
        note(found, seq, watermark, WINDOW)
    return found


@given(moves, st.lists(st.integers(0, 200)), st.booleans())
def test_the_last_mark_at_or_before_a_position_is_in_force(steps, seqs, ordered) -> None:
    found = marks_of(steps)
    seqs = sorted(seqs) if ordered else seqs
    expected = [[mark for seq, mark in found if seq <= at][-1] for at in seqs]
    assert Marks.of(found).at(np.array(seqs, np.int64)).tolist() == expected


@given(moves)
def test_only_watermarks_that_close_a_window_are_noted(steps) -> None:
    numbers = [WINDOW.ends(mark) for _, mark in marks_of(steps)]
    assert numbers == sorted(set(numbers))


@given(moves)
def test_a_window_closes_with_the_record_before_its_mark(steps) -> None:
    found = marks_of(steps)
    ends = [end for end in range(0, found[-1][1] + 1, WINDOW.slide) if len(found) > 1]
    expected = [next(seq for seq, mark in found if mark >= end) - 1 for end in ends]
    assert Marks.of(found).closing(np.array(ends, np.int64)).tolist() == expected


@given(moves)
def test_marks_survive_the_way_as_text(steps) -> None:
    marks = Marks.of(marks_of(steps))
    assert Marks.from_text(marks.to_text()) == marks


@given(
    moves, st.dictionaries(st.integers(0, 60), st.integers(0, 100), max_size=4),
    st.lists(st.integers(0, 2**40)),
)  # fmt: skip
def test_for_what_is_shed_all_windows_are_over(steps, found, seqs) -> None:
    sheds, plain = sorted(found.items()), Marks.of(marks_of(steps))
    marks = Marks.of(marks_of(steps), sheds)
    assert Marks.from_text(marks.to_text()) == marks
    at = np.array(seqs, np.int64)
    shed = [ref.is_shed(sheds, seq) for seq in seqs]
    assert marks.is_shed(at).tolist() == shed
    wanted = zip(plain.at(at).tolist(), shed, strict=True)
    assert marks.at(at).tolist() == [FOREVER if gone else mark for mark, gone in wanted]
    assert marks.shed == (sheds[-1][1] if sheds else 0)


def test_marks_by_hand() -> None:
    """From position 4 on 100 is in force, from 9 on 200: the records 3 and 8 closed windows."""
    marks = Marks.of([(0, 50), (4, 100), (9, 200)])
    assert marks == Marks((0, 4, 9), (50, 100, 200))
    for seqs in ([0, 3, 4, 8, 9, 99], [99, 9, 8, 4, 3, 0], [0, 99, 4, 8], [4, 4, 3], [9], []):
        expected = [50 if seq < 4 else 100 if seq < 9 else 200 for seq in seqs]
        assert marks.at(np.array(seqs, np.int64)).tolist() == expected
    ends = np.array([51, 100, 101, 200, 50], np.int64)
    assert marks.closing(ends).tolist() == [3, 3, 8, 8, -1], "on the watermark is closed"


def test_before_the_first_mark_its_watermark_holds() -> None:
    marks = Marks.of([(5, 50), (8, 60)])
    assert marks.at(np.array([3, 5, 8], np.int64)).tolist() == [50, 50, 60]
    assert marks.at(np.array([8, 5, 3], np.int64)).tolist() == [60, 50, 50]


def test_where_nothing_closes_every_record_is_in_time() -> None:
    assert NO_MARKS.at(np.array([0, 10**12], np.int64)).tolist() == [BEGINNING, BEGINNING]


def test_a_mark_is_noted_when_the_watermark_reaches_the_end_of_a_window() -> None:
    """Windows end at 10,000, 15,000 and so on."""
    found: list[tuple[int, int]] = []
    for seq, watermark in enumerate([9_000, 9_999, 10_000, 14_999, 15_001, 15_001, 19_999]):
        note(found, seq, watermark, WINDOW)
    assert found == [(0, 9_000), (2, 10_000), (4, 15_001)]


def test_one_mark_survives_the_way_as_text() -> None:
    for marks in (NO_MARKS, Marks((7,), (10,)), Marks((2**40, 2**41), (-(2**62), 2**62))):
        assert Marks.from_text(marks.to_text()) == marks


def test_marks_take_few_bytes_in_an_offset_and_cannot_be_changed() -> None:
    marks = Marks.of([(i * 256, i * 5_000) for i in range(1_000)])
    assert len(marks.to_text()) < 1_000
    assert Marks.from_text(marks.to_text()) == marks
    with pytest.raises(AttributeError):
        marks.seqs = ()
