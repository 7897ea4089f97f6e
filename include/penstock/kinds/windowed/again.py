"""Correction: windows from the partials of all their records."""

import numpy as np
import pyarrow as pa

from penstock.columns.windows import windows_a_pane
from penstock.core.step import StepSpec
from penstock.kinds.frame import Asked
from penstock.kinds.side import Sides
from penstock.kinds.windowed.mapper import to_windows
from penstock.kinds.windowed.wire import Wire


def again(
    step: StepSpec,
    partials: pa.Table,
    asked: Asked,
    sides: Sides,  # noqa: ARG001  every frame's
) -> pa.Table:
    """The windows that a correction asks for."""
    wire = Wire(step)
    panes = np.asarray(partials["pane"])
    nothing = np.zeros(len(panes), np.int64)
    windows = to_windows(wire.inner, partials, nothing, windows_a_pane(step.window, panes))
    start, last = (np.asarray(windows[name]) for name in ("window_start", "last_seq"))
    end = start + step.window.size
    kept = (start >= asked.low) & (start < asked.high) & (end <= asked.watermark)
    kept &= (end > asked.answered) | (last > asked.after_seq)
    if asked.starts is not None:
        kept &= np.isin(start, asked.starts)
    return windows.filter(pa.array(kept)).cast(wire.answers)
