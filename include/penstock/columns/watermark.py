"""The watermark's way through columns of records, one by one (laws 0 and 3).

Each record is judged by the watermark that those before it have left. The vectorised form of
``penstock.core.slack`` and ``penstock.core.controller``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from penstock.columns.arrays import Longs
from penstock.columns.digest import Bins, bins_of, digest, digests, lateness_of
from penstock.columns.windows import ends_of
from penstock.core.controller import EVERY, Arrivals, Controller, Measured
from penstock.core.slack import BlockKind, SlackPolicy, SlackSpec, WatermarkState
from penstock.core.window import WindowSpec

Mark = tuple[int, int]
"""A position and the watermark in force from it on, us."""


def after_each(
    state: WatermarkState, times: Longs, newest: int, spec: SlackSpec
) -> tuple[Longs, WatermarkState]:
    """The watermark after each live record, us, and the state after the last one.

    Args:
        state: before the first.
        times: event times in arrival order, us, shape (n,), n > 0.
        newest: newest live event time before them, us.
        spec: ``fixed`` or ``max_delay``.
    """
    lags = lateness_of(times, newest)
    t_max = np.maximum(np.maximum.accumulate(times), state.t_max)
    if spec.policy is SlackPolicy.FIXED:
        slack, k = spec.span, max(state.k, int(lags.max()))
        marks = t_max - slack
    else:
        counted = np.maximum.accumulate(np.where(lags <= spec.span, lags, 0))
        greatest = np.maximum(counted, state.k)
        slack = k = int(greatest[-1])
        marks = np.maximum.accumulate(t_max - greatest)
    marks = np.maximum(marks, state.watermark)
    return marks, WatermarkState(int(marks[-1]), int(t_max[-1]), k, slack)


def closings(window: WindowSpec, before: int, marks: Longs) -> Longs:
    """Which of some watermarks close a window; ``before``: the one before the first, us."""
    return np.flatnonzero(np.diff(ends_of(window, marks), prepend=window.ends(before)))


@dataclass
class Steering:
    """A controller on its way through the log.

    Attributes:
        controller: of the slack.
        seq: the last position taken.
        measured: windows it has measured, in the order of their ends.
    """

    controller: Controller
    seq: int
    measured: list[Measured] = field(default_factory=list)

    def silent(self, before: WatermarkState, kind: BlockKind, last: int) -> WatermarkState:
        """The state after a block without a live record; ``last``: its last position."""
        learned = self._reach(last)
        if kind is not BlockKind.DATA:
            self.measured += self.controller.silent(before, kind)
        elif not learned:
            return before
        return self.controller.state(before)

    def _reach(self, position: int) -> bool:
        """Positions up to one are taken; returns whether the controller made a step for it."""
        ended = (position + 1) // EVERY > (self.seq + 1) // EVERY
        learns = ended and self.controller.greatest is not None
        if learns:
            self.measured += self.controller.step()
        self.seq = position
        return learns

    def take(self, seqs: Longs, times: Longs, newest: int, last: int) -> Iterator[Mark]:
        """Take live records; gives the watermarks that close a window.

        Args:
            seqs: their positions, ascending, shape (n,), n > 0.
            times: their event times, us, shape (n,).
            newest: newest live event time before them, us.
            last: the last position of their block.
        """
        lags = lateness_of(times, newest)
        t_max = np.maximum(np.maximum.accumulate(times), self.controller.t_max)
        starts = np.flatnonzero(np.diff(seqs // EVERY, prepend=-1))
        ends = np.append(starts[1:], len(seqs))
        firsts, tops = seqs[starts].tolist(), t_max[ends - 1].tolist()
        run = _Run(self.controller.window, seqs, times, lags, t_max)
        digested = digests(times, lags, ends, self.controller.window)
        for i, arrivals in enumerate(digested):
            self._reach(firsts[i] - 1)
            known = self.controller
            mark = max(known.watermark, tops[i] - known.slack)
            stays = known.steady or arrivals.greatest <= known.slack
            if stays and known.window.ends(mark) == known.window.ends(known.watermark):
                known.receive(arrivals, mark)
            else:
                yield from run.one_by_one(known, int(starts[i]), int(ends[i]))
        self._reach(last)


@dataclass(frozen=True, slots=True)
class _Run:
    """Records of a log, one after the other: positions, event times, lateness, newest so far."""

    window: WindowSpec
    seqs: Longs
    times: Longs
    lags: Longs
    t_max: Longs

    def one_by_one(self, known: Controller, start: int, end: int) -> Iterator[Mark]:
        """Some records between two steps, up to each that closes a window."""
        slack: Longs | int = known.slack
        if not known.steady:
            slack = np.maximum(np.maximum.accumulate(self.lags[start:end]), known.slack)
        marks = np.maximum.accumulate(self.t_max[start:end] - slack)
        marks = np.maximum(marks, known.watermark)
        bins = bins_of(self.lags[start:end])
        begin = 0
        for up in closings(self.window, known.watermark, marks).tolist():
            known.receive(self._digest(start, bins, begin, up + 1), int(marks[up]))
            begin = up + 1
            yield int(self.seqs[start + up]) + 1, int(marks[up])
        if begin < end - start:
            known.receive(self._digest(start, bins, begin, end - start), int(marks[-1]))

    def _digest(self, start: int, bins: Longs, first: int, last: int) -> Arrivals:
        """Of records ``first`` to ``last`` - 1 after ``start``."""
        cut = slice(start + first, start + last)
        return digest(self.times[cut], self.lags[cut], Bins(bins, first, last), self.window)
