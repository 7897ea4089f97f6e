"""Correction: what is said of some keys, from all their records."""

import numpy as np
import pyarrow as pa

from penstock.kinds.custom.changes import changes
from penstock.kinds.custom.spec import CustomSpec
from penstock.kinds.custom.wire import SPAN, Wire
from penstock.kinds.frame import Asked
from penstock.kinds.side import Sides


def again(step: CustomSpec, parts: pa.Table, asked: Asked, sides: Sides) -> pa.Table:
    """The answers that a correction asks for."""
    del sides
    wire = Wire(step)
    ended = wire.spans.ended(np.asarray(parts[SPAN]), asked.watermark)
    found = changes(wire, parts.slice(0, 0), parts.filter(pa.array(ended)))
    start = np.asarray(found["window_start"])
    return found.filter(pa.array((start >= asked.low) & (start < asked.high)))
