"""Which shard has a key: when their number changes, no more keys move than must."""

import numpy as np

from penstock.columns.arrays import Longs

STEP = np.uint64(2862933555777941757)
SPAN = float(1 << 31)
"""So many values has what is left of a key after a draw."""


def shard_of(hashes: Longs, count: int) -> Longs:
    """The shard of each hash, of so many: from n to n + 1 about 1/(n + 1) of them move.

    Source: Lamping and Veach 2014 (jump consistent hash). RTMR places keys by consistent hashing,
    too, but on a ring, which keeps a table and is less even.

    Args:
        hashes: from 0 on.
        count: of shards.
    """
    found: Longs = np.zeros(len(hashes), np.int64)
    going, key = np.arange(len(hashes)), hashes.astype(np.uint64)
    while count > 1 and len(going):
        key = key * STEP + np.uint64(1)
        draw = (key >> np.uint64(33)).astype(np.float64) + 1.0
        after = np.floor((found[going] + 1.0) * (SPAN / draw)).astype(np.int64)
        goes = after < count
        going, key = going[goes], key[goes]
        found[going] = after[goes]
    return found
