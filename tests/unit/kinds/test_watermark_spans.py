"""In which span of the watermark a record came, and when that is told."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from penstock.columns.marks import Marks, note
from penstock.core.window import BEGINNING, FOREVER, WindowSpec
from penstock.kinds.custom.config import Every
from penstock.kinds.custom.cuts import Cuts
from penstock.kinds.custom.spans import WatermarkSpans
from tests.custom import SITES, Make

SIZE = 40_000
WINDOW = WindowSpec(SIZE, SIZE)
TIMES = st.lists(st.integers(0, 400_000), min_size=1, max_size=40)


def by_hand(watermarks: list[int]) -> list[int]:
    """Which records came in one span: the same number."""
    return [FOREVER + at if mark >= FOREVER else mark // SIZE for at, mark in enumerate(watermarks)]


def alike(some: list[int]) -> list[list[bool]]:
    return [[one == other for other in some] for one in some]


@given(TIMES, st.booleans(), st.data())
def test_a_span_is_what_came_between_two_multiples_however_the_log_was_cut(
    times: list[int], ends: bool, data: st.DataObject
) -> None:
    before = [BEGINNING, *accumulate(times, max)][:-1]
    if ends:
        last = data.draw(st.integers(0, len(times)))
        before = [*before[:last], *[FOREVER] * (len(times) - last)]
    spans, found, told = WatermarkSpans(WINDOW, waits=True), list[int](), dict[int, int]()
    at = 0
    while at < len(times):
        high = data.draw(st.integers(at + 1, len(times)))
        marks = [(at, before[at])]
        after = [*before[at + 1 :], max(before[-1], *times)][: high - at]
        for seq, mark in enumerate(after, at + 1):
            note(marks, seq, mark, WINDOW)
        seqs = np.arange(at, high)
        mine = spans.of(Marks.of(marks), seqs)
        found += mine.tolist()
        waiting = np.array([s for s in found if s not in told])
        ended = waiting[spans.ended(waiting, after[-1])]
        if spans.moves(before[at], after[-1]):
            through = spans.through(Marks.of(marks), ended, np.full(len(ended), -1))
            told |= dict(zip(ended.tolist(), through.tolist(), strict=True))
        else:
            assert not len(ended)
        at = high
    assert alike(found) == alike(by_hand(before))
    after = [*before[1:], max(before[-1], *times)]
    for span, through in told.items():
        last = max(i for i, s in enumerate(found) if s == span)
        if span <= FOREVER:  # told at the record that lets the watermark pass its end
            assert through == next(i for i, mark in enumerate(after) if mark >= span)
            assert through == last
    open_ = {s for s in found if s not in told}
    assert open_ == {s for s in found if s <= FOREVER and max(before[-1], *times) < s}


@given(TIMES, st.integers(-1, 10), st.booleans())
def test_an_audit_cuts_the_same_spans(times: list[int], epoch: int, ends: bool) -> None:
    live = max(0, len(times) - epoch - 1)
    before = [0, *accumulate(times[len(times) - live :], max)]
    marks = [(BEGINNING, 0)]
    for at, mark in enumerate(before[1:], epoch + 2):
        if WINDOW.ends(mark) > WINDOW.ends(marks[-1][1]):
            marks.append((at, mark))
    last = epoch + live
    if ends:
        marks.append((last + 1, FOREVER))
    cuts = Cuts.between(marks, epoch, last)
    seqs = np.arange(last + 4)
    rest = [FOREVER if ends else before[-1]] * (3 if live else 4)
    by = [-1] * (epoch + 1) + by_hand([*before[:live], *rest])
    count = min(len(seqs), len(by))
    found = cuts.of(seqs)[:count].tolist()
    alone = [at for at in range(count) if at > last] if ends else []
    same = [n for n in range(count) if n not in alone]
    assert alike([found[n] for n in same]) == alike([by[n] for n in same])
    assert len({found[n] for n in alone}) == len(alone)
    assert cuts.open == (-1 if ends else cuts.of(np.array([last + 1]))[0])


@pytest.mark.parametrize("every", ["PT0S", "-PT1S", "soon"])
def test_what_is_no_span_is_refused(every: str) -> None:
    with pytest.raises(ValidationError):
        Every.model_validate({"every": every})


def test_when_it_is_told_is_part_of_what_a_step_means(make: Make) -> None:
    names = [
        make(SITES | more).fingerprint
        for more in (
            {},
            {"update": "immediate"},
            {"update": {"every": "PT30S"}},
            {"update": {"every": "PT1M"}},
        )
    ]
    assert names[0] == names[1]
    assert len({*names}) == 3
