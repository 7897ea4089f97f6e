"""What a correction reads: few spans that hold every touched window, and files by their spans."""

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.types import INSTANT
from penstock.lake.history.correction import MOST_SPANS, spans_of
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.spec import TableSpec


@given(st.lists(st.integers(-(10**6), 10**6), max_size=60), st.integers(1, 10**5))
def test_few_ascending_spans_hold_every_window(starts: list[int], size: int) -> None:
    spans = spans_of(np.array(starts, np.int64), size)
    assert len(spans) <= MOST_SPANS
    assert bool(spans) == bool(starts)
    assert all(any(a <= s and s + size <= b for a, b in spans) for s in starts)
    assert all(former[1] < later[0] for former, later in pairwise(spans))


def test_far_apart_windows_do_not_bring_what_lies_between() -> None:
    assert spans_of(np.array([0, 10, 10_000, 10_010]), 10) == [(0, 20), (10_000, 10_020)]


def test_windows_that_are_most_of_the_time_are_one_span() -> None:
    assert spans_of(np.arange(0, 100, 2) * 10, 15) == [(0, 995)]


@given(
    st.lists(st.lists(st.integers(0, 50_000), min_size=1, max_size=5), min_size=1, max_size=6),
    st.tuples(st.integers(0, 50_000), st.integers(0, 50_000)),
)
def test_reading_within_spans_gives_the_rows_within(
    files: list[list[int]], ends: tuple[int, int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        schema = pa.schema([("at", INSTANT), ("n", pa.int64())])
        table = Table(TableSpec(str(Path(folder, "t")), schema, indexed=("at",)))
        for number, micros in enumerate(files):
            rows = {"at": pa.array(micros, pa.int64()).cast(INSTANT), "n": micros}
            table.append(pa.table(rows, schema=schema), "test", number)
        low, high = sorted(ends)
        found = read_table(table, within=Spans("at", ((low, high),)))["n"].to_pylist()
    assert sorted(found) == sorted(n for f in files for n in f if low <= n <= high)
