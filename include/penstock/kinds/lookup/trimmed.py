"""The last observations of each key: what a look-up keeps."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.columns.groups import group
from penstock.kinds.keyed.kept import NEVER
from penstock.kinds.keyed.runs import SEQ, TIME

DROPPED = "dropped_us"


def trimmed(table: pa.Table, keys: Sequence[str], keep: int) -> pa.Table:
    """Without what is not among the last of its key; the newest row says that it was there.

    Args:
        table: observations.
        keys: names of the key columns.
        keep: observations of a key.
    """
    ids, _ = group([table[key] for key in keys], table.num_rows)
    times, seqs = np.asarray(table[TIME]), np.asarray(table[SEQ])
    order = np.lexsort((seqs, times, ids))
    ends = np.flatnonzero(np.diff(ids[order], append=-1))
    counts = np.diff(ends, prepend=-1)
    age = np.repeat(ends, counts) - np.arange(len(order))
    gone = np.where(age >= keep, times[order], NEVER)
    gone = np.maximum(gone, np.asarray(table[DROPPED])[order])
    dropped = np.full(len(order), NEVER)
    dropped[ends] = np.maximum.reduceat(gone, ends - counts + 1) if len(ends) else ends
    at = table.schema.get_field_index(DROPPED)
    kept = table.take(pa.array(order)).set_column(at, DROPPED, pa.array(dropped))
    return kept.filter(pa.array(age < keep))
