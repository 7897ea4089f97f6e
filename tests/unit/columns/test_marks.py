"""Marks against plain loops: what is in force, where windows closed, and the way as text."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.marks import Marks, note
from penstock.core.window import BEGINNING, WindowSpec

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
