"""Chunks of a correction: every window once, and few pairs in each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.window import WindowSpec
from penstock.spark import chunks
from penstock.spark.chunks import Grid

MINUTE = 60_000_000


@st.composite
def scenes(draw: st.DrawFn) -> tuple[WindowSpec, list[int], list[int] | None, int, int]:
    slide = draw(st.integers(1, 4)) * MINUTE
    size = slide * draw(st.integers(1, 6))
    window = WindowSpec(size, slide, origin=draw(st.integers(-3, 3)) * MINUTE)
    times = draw(st.lists(st.integers(0, 90), min_size=1, max_size=80))
    low = draw(st.integers(-20, 30)) * MINUTE
    high = low + draw(st.integers(1, 120)) * MINUTE
    first = -(-(low - window.origin) // slide) * slide + window.origin
    every = list(range(first, high, slide))
    chosen = draw(st.none() | st.lists(st.sampled_from(every), min_size=1)) if every else None
    return window, [t * MINUTE for t in times], chosen, low, high


@given(scene=scenes(), cells=st.sampled_from([3, 20_000]))
def test_every_window_with_records_is_in_one_chunk_and_chunks_stay_small(
    scene: tuple[WindowSpec, list[int], list[int] | None, int, int], cells: int
) -> None:
    window, times, chosen, low, high = scene
    most = 25
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "PAIRS_A_CHUNK", most)
        patch.setattr(chunks, "CELLS", cells)
        grid = Grid.over(low, high, window)
        number, count = np.unique((np.array(times) - grid.low) // grid.width, return_counts=True)
        starts = None if chosen is None else np.unique(chosen)
        cut = grid.chunks(number, count, starts)
    first = -(-(low - window.origin) // window.slide) * window.slide + window.origin
    meant = range(first, high, window.slide) if chosen is None else sorted(set(chosen))
    pairs = {s: sum(s <= t < s + window.size for t in times) for s in meant}
    for start, held in pairs.items():
        assert held == 0 or sum(a <= start < b for a, b in cut) == 1, (start, cut)
    assert all(low <= a < b <= high for a, b in cut)
    for a, b in cut:
        inside = [held for start, held in pairs.items() if a <= start < b and held]
        small = grid.width == window.slide and len(inside) > 1
        assert not small or sum(inside) <= most


def test_a_cut_depends_on_nothing_but_what_is_counted() -> None:
    window = WindowSpec(60 * MINUTE, 15 * MINUTE)
    grid = Grid.over(0, 10_000 * MINUTE, window)
    cells = np.arange(600)
    records = np.full(600, 50_000)
    once = grid.chunks(cells, records, None)
    order = np.random.default_rng(1).permutation(600)
    assert grid.chunks(cells[order], records[order], None) == once
    assert len(once) > 10


def test_nothing_is_cut_into_nothing() -> None:
    window = WindowSpec(MINUTE, MINUTE)
    empty = np.array([], np.int64)
    assert Grid.over(0, 0, window).chunks(empty, empty, None) == []
    assert Grid.over(0, 5 * MINUTE, window).chunks(empty, empty, None) == []
