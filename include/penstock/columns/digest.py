"""What slack controllers see of a log: digests of its pieces, from event times in arrival order.

The vectorised form of what ``penstock.core.controller`` asks for; the tests hold it against plain
Python.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.columns.arrays import Longs
from penstock.columns.windows import panes_of
from penstock.core.controller import Arrivals
from penstock.core.lateness import FINE
from penstock.core.overdue import BINS
from penstock.core.window import WindowSpec

EXACT = 2**53
"""Up to here a double holds every whole number."""
OCTAVE_0 = (1023 + FINE - 1) << FINE
"""What the exponent's bias, and the octaves below the first, add to a bin's number."""
AT_ONCE = 256
"""Pieces digested at once: their arrays stay in the processor's cache."""
DENSE = 16
"""Counting every cell beats sorting while there are at most so many a record."""


@dataclass(frozen=True, slots=True)
class Bins:
    """Bins of one piece's records: ``bins[start:end]``; a histogram only once it is asked for."""

    bins: Longs
    start: int
    end: int

    def together(self, others: Sequence["Bins"]) -> dict[int, int]:
        """Records by bin of some pieces."""
        runs: list[tuple[Longs, int, int]] = []
        for each in others:
            if runs and runs[-1][0] is each.bins and runs[-1][2] == each.start:
                runs[-1] = (each.bins, runs[-1][1], each.end)
            else:
                runs.append((each.bins, each.start, each.end))
        found: dict[int, int] = {}
        for bins, start, end in runs:
            counts = np.bincount(bins[start:end])
            cells = np.flatnonzero(counts)
            for number, count in zip(cells.tolist(), counts[cells].tolist(), strict=True):
                found[number] = found.get(number, 0) + count
        return found


def digests(times: Longs, lags: Longs, ends: Longs, window: WindowSpec) -> Iterator[Arrivals]:
    """One digest a piece of the log.

    Args:
        times: event times in arrival order, us, shape (n,).
        lags: their lateness, us, shape (n,).
        ends: where each piece ends in ``times``, ascending, shape (pieces,); none is empty.
        window: the step's windows.
    """
    done = 0
    for at in range(0, len(ends), AT_ONCE):
        some = ends[at : at + AT_ONCE]
        cut = slice(done, int(some[-1]))
        yield from _digests(times[cut], lags[cut], some - done, window)
        done = int(some[-1])


def digest(times: Longs, lags: Longs, bins: Bins, window: WindowSpec) -> Arrivals:
    """The digest of a few records.

    Args:
        times: event times, us, shape (n,), n > 0.
        lags: lateness, us, shape (n,).
        bins: the bins of their lateness.
        window: the step's windows.
    """
    starts, counts = np.unique(panes_of(window, times), return_counts=True)
    panes = dict(zip(starts.tolist(), counts.tolist(), strict=True))
    rows, keys = _keys(times, lags, window)
    (overdue,) = _overdue(np.zeros(len(rows), np.int64), times[rows], keys, 1, window)
    return Arrivals(int(times.max()), int(lags.max()), bins, panes, overdue)


def _keys(times: Longs, lags: Longs, window: WindowSpec) -> tuple[Longs, Longs]:
    """Which records came past their pane's end, and how far past (``overdue.key_of``)."""
    past = (times - window.origin) % window.pane + lags - window.pane + 1
    rows = np.flatnonzero(past > 0)
    past = past[rows]
    panes = np.minimum((past - 1) // window.pane, window.panes - 1)
    return rows, np.asarray(panes * BINS + bins_of(past - panes * window.pane), np.int64)


def _overdue(
    piece: Longs, times: Longs, keys: Longs, pieces: int, window: WindowSpec
) -> Iterator[dict[tuple[int, int], int]]:
    """How many records of each piece came past their pane's end, by pane and how far."""
    if not len(keys):
        yield from ({} for _ in range(pieces))
        return
    width = window.panes * BINS
    panes = (times - window.origin) // window.pane
    low = int(panes.min())
    codes, counts, cuts = _by_piece(piece, (panes - low) * width + keys, pieces)
    found, rest = np.divmod(codes, width)
    starts = ((found + low) * window.pane + window.origin).tolist()
    both = [*zip(starts, rest.tolist(), strict=True)]
    yield from (dict(zip(both[a:b], counts[a:b], strict=True)) for a, b in pairwise(cuts))


def _digests(times: Longs, lags: Longs, ends: Longs, window: WindowSpec) -> Iterator[Arrivals]:
    starts = np.concatenate(([0], ends[:-1]))
    piece = np.repeat(np.arange(len(ends)), ends - starts)
    newest = np.maximum.reduceat(times, starts).tolist()
    greatest = np.maximum.reduceat(lags, starts).tolist()
    bins, cuts = bins_of(lags), [*starts.tolist(), int(ends[-1])]
    panes, counts, runs = _by_piece(piece, (times - window.origin) // window.pane, len(ends))
    opens = (panes * window.pane + window.origin).tolist()
    rows, keys = _keys(times, lags, window)
    overdue = _overdue(piece[rows], times[rows], keys, len(ends), window)
    for i, ((a, b), late) in enumerate(zip(pairwise(runs), overdue, strict=True)):
        by_start = dict(zip(opens[a:b], counts[a:b], strict=True))
        yield Arrivals(newest[i], greatest[i], Bins(bins, cuts[i], cuts[i + 1]), by_start, late)


def lateness_of(times: Longs, t_max: int) -> Longs:
    """Lateness of records in arrival order, us; ``t_max``: the newest event time before them."""
    return np.asarray(np.maximum(np.maximum.accumulate(times), t_max) - times, np.int64)


def bins_of(lags: Longs) -> Longs:
    """Number of the bin that holds each lateness (``penstock.core.lateness.bin_of``).

    A double's exponent and first bits of fraction are octave and place in it: one shift for both.
    """
    if len(lags) and int(lags.max()) >= EXACT:  # a bin hangs on the first bits: drop the last
        lags = np.where(lags >= EXACT, lags & ~1023, lags)
    top = lags.astype(np.float64).view(np.int64) >> (52 - FINE)
    return np.asarray(np.where(lags < 1 << FINE, lags, top - OCTAVE_0), np.int64)


def _by_piece(piece: Longs, values: Longs, pieces: int) -> tuple[Longs, list[int], list[int]]:
    """How often each value stands in each piece.

    Returns:
        Values, piece by piece; how often each stands there; where each piece begins, and the end.
    """
    low = int(values.min())
    width = int(values.max()) - low + 1
    if pieces * width <= DENSE * len(values):
        counts = np.bincount(piece * width + (values - low), minlength=pieces * width)
        cells = np.flatnonzero(counts)
        counts = counts[cells]
        of, value = cells // width, cells % width + low
    else:
        order = np.lexsort((values, piece))
        first = np.flatnonzero(
            np.r_[True, (np.diff(piece[order]) != 0) | (np.diff(values[order]) != 0)]
        )
        counts = np.diff(np.r_[first, len(values)])
        of, value = piece[order][first], values[order][first]
    cuts = np.searchsorted(of, np.arange(pieces + 1)).tolist()
    return value, counts.tolist(), cuts
