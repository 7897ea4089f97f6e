"""Cuts a correction's windows into chunks whose results Spark's default heap carries.

A chunk's answers cross the driver's heap. What they weigh is bounded by its pairs (record, window):
each pair is at most one answer, and at most one value of a median's. So chunks hold about equally
many pairs, counted over the log up to the plan's position: a function of the plan alone, and a
replay cuts the same.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.columns.arrays import Longs
from penstock.core.window import WindowSpec

PAIRS_A_CHUNK = 2_000_000
CELLS = 20_000
"""Most cells of event time in which records are counted."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Equal cells of event time, each holding the starts of as many windows.

    Attributes:
        low: where the first one, and a window, begins, us.
        high: windows that start there or later are not meant, us.
        width: of each, us: a multiple of the windows' slide.
        window: of the step.
    """

    low: int
    high: int
    width: int
    window: WindowSpec

    @classmethod
    def over(cls, low: int, high: int, window: WindowSpec) -> "Grid":
        """The cells of windows that start in [low, high)."""
        low = -(-(low - window.origin) // window.slide) * window.slide + window.origin
        slides = max(1, -(-(high - low) // window.slide))
        return cls(low, high, window.slide * -(-slides // CELLS), window)

    @property
    def count(self) -> int:
        """How many cells hold starts of the windows."""
        return max(0, -(-(self.high - self.low) // self.width))

    @property
    def until(self) -> int:
        """End of what the windows hold, us."""
        return self.low + (self.count + self.reach) * self.width

    @property
    def reach(self) -> int:
        """Cells that a window may reach beyond the cell it starts in."""
        return -(-self.window.size // self.width)

    def chunks(self, cells: Longs, records: Longs, starts: Longs | None) -> list[tuple[int, int]]:
        """Ranges [low, high) of window starts, us, with about ``PAIRS_A_CHUNK`` pairs each.

        A cell is never cut: one that holds more pairs is a chunk of its own.

        Args:
            cells: numbers of the cells that hold records; others than the grid's do not matter.
            records: how many each holds.
            starts: of the windows to cut; none: all of the grid.
        """
        held = np.zeros(self.count + self.reach + 1, np.int64)
        inside = (cells >= 0) & (cells < len(held))
        np.add.at(held, cells[inside], records[inside])
        through = np.concatenate(([0], np.cumsum(held)))
        at = np.arange(self.count)
        last = at + self.reach + (self.width > self.window.slide)
        near = through[np.minimum(last, len(held))] - through[at]
        windows = np.full(self.count, self.width // self.window.slide)
        if starts is not None:
            windows = np.bincount((starts - self.low) // self.width, minlength=self.count)
        most = max(1, -(-self.window.size // self.window.slide))
        pairs = near * np.minimum(windows, most)
        edges = [0]
        total = 0
        for cell in np.flatnonzero(pairs):
            if total and total + pairs[cell] > PAIRS_A_CHUNK:
                edges.append(int(cell))
                total = 0
            total += int(pairs[cell])
        edges.append(self.count)
        if not total:
            return []
        cuts = [min(self.low + edge * self.width, self.high) for edge in edges]
        return list(pairwise(cuts))
