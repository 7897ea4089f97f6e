"""A picture of what was said: at once, of the history, or by a correction."""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.window import instant
from penstock.lake.serve.newest import AGAIN, AT_ONCE, GONE, HISTORY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARS = 100
COLORS = {HISTORY: "#adb5bd", AT_ONCE: "#0b7285", AGAIN: "#e8590c", GONE: "#5f3dc4"}


def said_figure(rows: pa.Table) -> "Figure":
    """How many were said in each way, over event time.

    Args:
        rows: as of ``said_over_time``, at least one.
    """
    from matplotlib.figure import Figure

    starts = np.asarray(pc.cast(rows["window_start"], pa.int64()))
    counts, ways = np.asarray(rows["n"]), np.asarray(rows["how"])
    edges = np.linspace(starts.min(), starts.max() + 1, 1 + min(BARS, len(np.unique(starts))))
    when = [instant(int(edge)) for edge in edges]
    figure = Figure(figsize=(9, 2.2), layout="constrained")
    axes = figure.subplots()
    below, told = np.zeros(len(edges) - 1), []
    for how, color in COLORS.items():
        mine = ways == how
        if mine.any():
            high, _ = np.histogram(starts[mine], edges, weights=counts[mine])
            axes.bar(when[:-1], high, np.diff(when), below, align="edge", color=color, label=how)
            below += high
            told.append(f"{counts[mine].sum():,} {how}")
    axes.set_ylabel("answers")
    figure.legend(frameon=False, fontsize=8, loc="outside right center")
    axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(", ".join(told), fontsize=10, x=0.01, ha="left")
    return figure
