"""Which observations each record is compared with: a function of the log, wherever it is cut.

A record is compared with the *kept* observations of its key: the last ``keep`` of those before it
in the log, in order of (event time, ``arrival_seq``); ``tests/lookup_model.py`` says what follows.
The pool may hold more than is kept: what came later, or what nobody has dropped yet.
"""

from dataclasses import dataclass

import numpy as np

from penstock.columns.arrays import Longs

NEVER = -(2**63)


@dataclass(frozen=True, slots=True)
class Pool:
    """Observations of some keys, in any order.

    Attributes:
        keys: numbers of the keys, from 0 on.
        times: event times, us.
        seqs: positions in the log.
        dropped: of each key the newest event time that is in the pool no more, us; or NEVER.
    """

    keys: Longs
    times: Longs
    seqs: Longs
    dropped: Longs


@dataclass(frozen=True, slots=True)
class Compared:
    """Who is compared with whom; rows are those of the pool.

    Attributes:
        new, old: rows of the pairs: a record, and a kept observation of its key.
        dropped: for each record that was asked for the newest event time that is not kept, us.
        newest: for each of them whether it is the newest of its key so far.
    """

    new: Longs
    old: Longs
    dropped: Longs
    newest: np.ndarray


def compared(pool: Pool, rows: Longs, keep: int) -> Compared:
    """What is kept for some records.

    Args:
        pool: holds them and all that may be kept for them.
        rows: of the records.
        keep: observations of a key.
    """
    order = np.lexsort((pool.seqs, pool.times, pool.keys))
    keys = pool.keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    first = np.repeat(starts, np.diff(starts, append=len(keys)))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    ages = _ages(pool.seqs[order], keys)
    least = np.minimum.accumulate(ages[::-1])[::-1]
    mine = place[rows]
    at = np.searchsorted(least, ages[mine]) - 1  # the last in order of time that came before
    return _walked(pool, order, rows, mine, at, first[mine], ages, keep)


def _ages(seqs: Longs, keys: Longs) -> Longs:
    """Numbers in the order of (key, position)."""
    rank = np.empty(len(seqs), np.int64)
    rank[np.argsort(seqs, kind="stable")] = np.arange(len(seqs))
    return keys * (len(seqs) + 1) + rank


def _walked(
    pool: Pool, order: Longs, rows: Longs, mine: Longs, at: Longs, first: Longs, ages: Longs,
    keep: int,
) -> Compared:  # fmt: skip
    """Go back from the newest that came before, one step for all records at once."""
    newest = (at < first) | (at < mine)
    dropped = pool.dropped[pool.keys[rows]].copy()
    found, active = np.zeros(len(rows), np.int64), np.flatnonzero(at >= first)
    new, old = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    while len(active):
        here = at[active]
        before = ages[here] < ages[mine[active]]
        some = active[before]
        kept = found[some] < keep
        new.append(rows[some[kept]])
        old.append(order[at[some[kept]]])
        more = some[~kept]
        dropped[more] = np.maximum(dropped[more], pool.times[order[at[more]]])
        found[some] += 1
        at[active] -= 1
        active = active[(at[active] >= first[active]) & (found[active] <= keep)]
    return Compared(np.concatenate(new), np.concatenate(old), dropped, newest)
