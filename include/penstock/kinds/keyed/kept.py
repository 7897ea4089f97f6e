"""Which observations each record is compared with: a function of the log, wherever it is cut.

A record is compared with the *kept* observations of its key: the last ``keep`` of those before it
in the log, in order of (event time, ``arrival_seq``); ``tests/lookup_model.py`` says what follows.
The pool may hold more than is kept: what came later, or what nobody has dropped yet.
"""

from dataclasses import dataclass

import numpy as np

from penstock.columns.arrays import Bools, Longs

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
        new, old: rows of the pairs: a record, and a kept observation of its key; those of a record
            one after the other, the last observation first.
        after: for each pair whether the observation is after the record, in order of time.
        dropped: for each record that was asked for the newest event time that is not kept, us.
    """

    new: Longs
    old: Longs
    after: Bools
    dropped: Longs


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
    nth, there, dropped = _walked(at, mine, first[mine], ages, keep)
    whole = pool.dropped[pool.keys[rows]]
    times = pool.times[order]
    beyond = np.where(dropped < 0, NEVER, times[dropped])
    by_record = np.argsort(nth, kind="stable")
    nth, there = nth[by_record], there[by_record]
    return Compared(rows[nth], order[there], there > mine[nth], np.maximum(whole, beyond))


def _ages(seqs: Longs, keys: Longs) -> Longs:
    """Numbers in the order of (key, position)."""
    rank = np.empty(len(seqs), np.int64)
    rank[np.argsort(seqs, kind="stable")] = np.arange(len(seqs))
    return keys * (len(seqs) + 1) + rank


def _walked(
    at: Longs, mine: Longs, first: Longs, ages: Longs, keep: int
) -> tuple[Longs, Longs, Longs]:
    """Go back from the last that came before, one step for all records at once.

    Args:
        at: where each record begins; places in order.
        mine: its own place.
        first: the first place of its key.
        ages: by place.
        keep: so many are taken.

    Returns:
        Numbers of records and the places taken for them; for each record the next one, or -1.
    """
    at, found = at.copy(), np.zeros(len(mine), np.int64)
    beyond, active = np.full(len(mine), -1), np.flatnonzero(at >= first)
    who, where = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    while len(active):
        some = active[ages[at[active]] < ages[mine[active]]]
        taken = some[found[some] < keep]
        who.append(taken)
        where.append(at[taken])
        more = some[found[some] == keep]
        beyond[more] = at[more]
        found[some] += 1
        at[active] -= 1
        active = active[(at[active] >= first[active]) & (found[active] <= keep)]
    return np.concatenate(who), np.concatenate(where), beyond
