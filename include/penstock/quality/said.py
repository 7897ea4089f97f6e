"""A picture of what was said: at once, of the history, or by a correction."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.window import instant
from penstock.lake.serve.newest import AGAIN, AT_ONCE, GONE, HISTORY
from penstock.quality.courses import Course, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARS, SECOND = 100, 1_000_000
COLORS = {HISTORY: "#adb5bd", AT_ONCE: "#0b7285", AGAIN: "#e8590c", GONE: "#5f3dc4"}
HEIGHT, MORE = 2.2, 1.4
"""Of the bars, and of each course below them, inches."""


def said_figure(
    rows: pa.Table, below: Sequence[Course] = (), notes: Sequence[str] = ()
) -> "Figure":
    """How many were said in each way, over event time; then which share was said at once.

    Args:
        rows: as of ``said_over_time``, at least one.
        below: what is drawn besides.
        notes: what is said besides.
    """
    from matplotlib.figure import Figure

    starts = np.asarray(pc.cast(rows["window_start"], pa.int64()))
    counts, ways = np.asarray(rows["n"]), np.asarray(rows["how"])
    apart = np.unique(starts)
    wide = np.diff(apart).min() if len(apart) > 1 else SECOND  # the last one is no narrower
    edges = np.linspace(apart[0], apart[-1] + wide, 1 + min(BARS, len(apart)))
    when = [instant(int(edge)) for edge in edges]
    heights = {
        how: np.histogram(starts[ways == how], edges, weights=counts[ways == how])[0]
        for how in COLORS
        if (ways == how).any()
    }
    drawn = [*_at_once(when, heights), *below]
    figure = Figure(figsize=(9, HEIGHT + MORE * len(drawn)), layout="constrained")
    ratios = [HEIGHT, *[MORE] * len(drawn)]
    axes, *others = np.atleast_1d(
        figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios)
    ).tolist()
    base = np.zeros(len(edges) - 1)
    for how, high in heights.items():
        axes.bar(when[:-1], high, np.diff(when), base, align="edge", color=COLORS[how], label=how)
        base += high
    axes.set_ylabel("answers")
    for course, other in zip(drawn, others, strict=True):
        course.draw(other)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for one in figure.axes:
        one.spines[["top", "right"]].set_visible(False)
    said = [", ".join(f"{high.sum():,.0f} {how}" for how, high in heights.items())]
    figure.suptitle(titled(said, notes), fontsize=10, x=0.01, ha="left")
    return figure


def _at_once(when: Sequence[object], heights: dict[str, np.ndarray]) -> list[Course]:
    """Of what was said of live records, which share was said at once; nothing: all was."""
    early, again = (heights.get(how) for how in (AT_ONCE, AGAIN))
    if early is None or again is None:
        return []
    both = early + again
    shares = np.divide(100 * early, both, out=np.full(len(both), np.nan), where=both > 0)
    return [Course("said at once, %", when[:-1], shares.tolist())]
