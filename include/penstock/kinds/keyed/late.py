"""Late records of kinds that count records: one by one, each by its own window."""

import numpy as np
import pyarrow as pa

from penstock.columns.arrays import Bools, Longs
from penstock.columns.windows import panes_of
from penstock.kinds.keyed.runs import SEQ, TIME
from penstock.kinds.keyed.wire import KeyedWay
from penstock.kinds.wire import SHED


def late_records(
    wire: KeyedWay, pool: pa.Table, rows: Longs, shed: Bools | None = None
) -> pa.Table:
    """Late records as they leave the reducer.

    Args:
        wire: of the step.
        pool: records as runs hold them.
        rows: of the late ones.
        shed: which of these were shed; none: no record of the kind ever is.
    """
    mine = pool.take(pa.array(rows))
    columns = {
        **{key: mine[key] for key in wire.step.key_names},
        "window_start": panes_of(wire.step.window, np.asarray(mine[TIME])),
        "n_records": np.ones(len(rows), np.int64),
        "last_seq": mine[SEQ],
        SHED.name: np.zeros(len(rows), np.int64) if shed is None else shed.astype(np.int64),
    }
    return pa.table(columns).cast(wire.late)
