"""Lines over event time that break where nothing happened: none is drawn through a gap."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

DOT: dict[str, Any] = {"marker": ".", "markersize": 2}
"""How a point of a line is drawn: one between two gaps is all there is of its line."""
Positions = npt.NDArray[np.int64]


def gaps_between(starts: npt.NDArray[np.int64], step: int) -> Positions:
    """Positions of the points that follow a gap, shape (gaps,).

    Args:
        starts: ascending, us, shape (n,).
        step: from one to the next where nothing is missing, us.
    """
    return np.flatnonzero(np.diff(starts) > step) + 1


def broken(
    when: Sequence[datetime], values: Sequence[float], gaps: Positions
) -> tuple[list[datetime], npt.NDArray[np.float64]]:
    """A line's points, with a point of no value before each that follows a gap.

    Args:
        when: ascending, shape (n,).
        values: shape (n,).
        gaps: as of ``gaps_between``.
    """
    times = np.insert(np.array(when, object), gaps, [when[i] for i in gaps])
    return times.tolist(), np.insert(np.array(values, float), gaps, np.nan)
