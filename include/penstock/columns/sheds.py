"""Which records of some are shed: the sample of ``penstock.core.shedding``, over columns."""

from collections.abc import Sequence

import numpy as np

from penstock.columns.arrays import Bools, Longs
from penstock.core.shedding import HASHES, MULTIPLIER, SPAN, Shed, limit


def shed_of(seqs: Longs, sheds: Sequence[Shed]) -> Bools:
    """Whether each record is shed.

    Args:
        seqs: positions, shape (n,).
        sheds: what holds from which position on, in order; before the first nothing.
    """
    if not sheds:
        return np.zeros(len(seqs), bool)
    firsts = np.array([seq for seq, _ in sheds])
    limits = np.array([0, *(limit(ratio) for _, ratio in sheds)])
    mine = limits[np.searchsorted(firsts, seqs, side="right")]
    found: Bools = seqs % SPAN * MULTIPLIER % HASHES < mine
    return found
