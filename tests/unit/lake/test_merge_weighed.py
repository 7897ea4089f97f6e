"""What a merge takes and spares, and which windows it writes anew."""

import random
from itertools import pairwise

import pytest

from penstock.lake.history import merging, reads
from penstock.lake.history.merging import APPEND, REWRITE, Weighed, joined
from penstock.lake.history.reads import Read, spared


@pytest.mark.parametrize(
    ("spared", "coming", "choice"),
    [
        (0.9, 0.9, APPEND),
        (1.0, 1.0, REWRITE),  # they lost as much by now
        (0.1, 1.0, APPEND),
        (0.0, 1.0, REWRITE),  # nothing was there to merge, and now there is much
        (0.9, 1.8, APPEND),
        (0.5, 1.5, REWRITE),
    ],
)
def test_a_merge_is_weighed_against_what_reads_lost_and_will_lose(
    spared: float, coming: float, choice: str
) -> None:
    assert Weighed(1, 1.0, 10, spared, coming).choice == choice


def test_what_is_spared_goes_by_the_rows_that_are_merged_at_read() -> None:
    def read(merged: int, unmerged: int) -> Read:
        return Read(None, "s", "f", merged, unmerged)  # type: ignore[arg-type]

    share = 1 - reads.LEFT
    assert spared([read(0, 100)], 2.0) == [pytest.approx(2 * share)]
    assert spared([read(100, 0)], 2.0) == [0.0]
    both = spared([read(0, 300), read(0, 100)], 2.0)
    assert both == [pytest.approx(1.5 * share), pytest.approx(0.5 * share)]
    assert spared([read(0, 0)], 2.0) == [0.0]
    half = spared([read(1_000, round(1_000 * reads.LEFT))], 2.0)
    assert half == [pytest.approx(share)]


def test_runs_of_windows_hold_all_and_the_widest_gaps_stay() -> None:
    draw = random.Random(1)  # noqa: S311
    for size in (1, 2, 5, 8, 9, 40):
        for _ in range(20):
            spans = []
            for _ in range(size):
                first = draw.randrange(1_000)
                spans.append((first, first + draw.randrange(12)))
            runs = joined(spans)
            assert 1 <= len(runs) <= merging.MOST_RUNS
            assert all(any(a <= first and last <= b for a, b in runs) for first, last in spans)
            assert all(before[1] < after[0] for before, after in pairwise(runs))
            held = {x for first, last in spans for x in (first, last)}
            assert {x for run in runs for x in run} <= held
    assert joined([]) == ()
    apart = [(100 * n + n * n, 100 * n + n * n) for n in range(20)]
    assert len(joined(apart)) == merging.MOST_RUNS
    assert joined(apart)[-1][0] == apart[-1][0], "the widest gap is the last"
