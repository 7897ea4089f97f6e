"""Rows of ``events`` and ``quarantine`` from the judged records of one item."""

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.digest import lateness_of
from penstock.columns.types import INSTANT
from penstock.core.step import STREAM
from penstock.core.window import BEGINNING, instant
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.plan import Plan
from penstock.lake.ingest.received import UNREADABLE, Received
from penstock.lake.ingest.verdict import Judged
from penstock.lake.log.blocks import LIVE

SUMS = pa.schema(
    [(name, pa.int64()) for name in ("block", "accepted", "newest", "oldest", "lateness")]
)
"""Of accepted records in a row that are of one block: how many, and their event times, us."""


def within(item: Item, received: Received, judged: Judged) -> tuple[Received, Judged]:
    """Only the records of the item's span of event time."""
    if item.since is None or item.until is None:
        return received, judged
    times = pc.cast(judged.columns["event_time"], pa.int64())
    inside = pc.and_(pc.greater_equal(times, item.since), pc.less(times, item.until))
    kept = np.asarray(pc.fill_null(inside, item.rest)) | judged.because(UNREADABLE)
    rows = np.flatnonzero(kept)  # of a file of which nothing is known no interval is silent
    picked = Judged(
        judged.columns.take(rows),
        judged.verdicts[rows],
        judged.why,
        None if judged.ids is None else judged.ids.take(pa.array(rows)),
    )
    raw, place = received.raw, received.place
    return Received(
        received.columns.take(rows),
        lambda some: raw([int(rows[i]) for i in some]),
        lambda row: place(int(rows[row])),
    ), picked


def accepted_rows(judged: Judged, plan: Plan, at: int) -> pa.Table:
    """What is accepted, numbered.

    Args:
        judged: the records of an item.
        plan: it belongs to.
        at: records of the plan before it.
    """
    rows = np.flatnonzero(judged.accepted)
    table = judged.columns if len(rows) == len(judged) else judged.columns.take(rows)
    table = table.append_column("arrival_seq", pa.array(plan.first_seq + at + rows))
    table = table.append_column(
        "block", pa.array(plan.first_block + (at + rows) // plan.block_size)
    )
    table = table.append_column("origin", pa.repeat(plan.origin, len(rows)))
    if not plan.stream:
        return table
    return table.append_column(STREAM, pa.repeat(plan.stream, len(rows)))


def refused_rows(received: Received, judged: Judged, plan: Plan, at: int) -> pa.Table:
    """What is refused, numbered, raw, with its place; arguments as for ``accepted_rows``."""
    rows = np.flatnonzero(~judged.accepted)
    picked = [int(r) for r in rows]
    why = [judged.why[verdict - 1] for verdict in judged.verdicts[rows]]
    return pa.table(
        {
            "arrival_seq": plan.first_seq + at + rows,
            "reason": pa.array([reason for reason, _ in why], pa.string()),
            "detail": pa.array([detail for _, detail in why], pa.string()),
            "place": pa.array([received.place(r) for r in picked], pa.string()),
            "raw": pa.array(received.raw(picked) if picked else [], pa.string()),
            "ingest_time": judged.columns["ingest_time"].take(rows).cast(INSTANT),
            "block": plan.first_block + (at + rows) // plan.block_size,
            "origin": pa.repeat(plan.origin, len(rows)),
            STREAM: _named(plan, len(rows)),
        }
    )


def summed(events: pa.Table) -> pa.Table:
    """What the summaries of blocks need of accepted records, as ``SUMS``.

    Args:
        events: their blocks and event times, in order; several tasks may each sum up a part.
    """
    of = np.asarray(events["block"])
    times = np.asarray(pc.cast(events["event_time"], pa.int64()))
    firsts = np.flatnonzero(np.diff(of, prepend=-1))
    if not len(firsts):
        return SUMS.empty_table()
    ends = np.append(firsts[1:], len(of))
    pairs: Sequence[tuple[int, int]] = [*zip(firsts.tolist(), ends.tolist(), strict=True)]
    late = [int(lateness_of(times[first:end], BEGINNING).max()) for first, end in pairs]
    columns = (of[firsts], ends - firsts, np.maximum.reduceat(times, firsts),
               np.minimum.reduceat(times, firsts), late)  # fmt: skip
    return pa.table([pa.array(each, pa.int64()) for each in columns], schema=SUMS)


def block_rows(
    plan: Plan, count: int, sums: pa.Table, newest: int, before: int, now: datetime,
    mark: int | None = None,
) -> pa.Table:  # fmt: skip
    """The rows of ``blocks`` of a plan: at least one, also for a plan without records.

    Args:
        plan: which one.
        count: records it received.
        sums: of those that were accepted, in order.
        newest: newest live event time of its stream before it, us.
        before: records that were accepted before it.
        now: when they are sealed.
        mark: where the watermark goes with the last one, us; none: nowhere.
    """
    firsts = np.arange(0, max(count, 1), plan.block_size)
    ends = np.minimum(firsts + plan.block_size, count)
    blocks = len(firsts)
    accepted = np.zeros(blocks, np.int64)
    t_max = np.full(blocks, BEGINNING)
    lateness = np.zeros(blocks, np.int64)
    if sums.num_rows:
        of = np.asarray(sums["block"]) - plan.first_block
        np.add.at(accepted, of, np.asarray(sums["accepted"]))
        np.maximum.at(t_max, of, np.asarray(sums["newest"]))
        if plan.origin == LIVE:
            np.maximum.at(lateness, of, _lateness(sums, newest))
    missing = ends - firsts - accepted
    return pa.table(
        {
            "block": plan.first_block + np.arange(blocks),
            "kind": pa.repeat(plan.kind.value, blocks),
            "origin": pa.repeat(plan.origin, blocks),
            "first_seq": plan.first_seq + firsts,
            "last_seq": plan.first_seq + ends - 1,
            "accepted": accepted,
            "quarantined": missing,
            "accepted_total": before + np.cumsum(accepted),
            "t_max": pa.array(t_max, mask=t_max == BEGINNING).cast(INSTANT),
            "lateness_us": lateness,
            "arrived_at": pa.repeat(pa.scalar(instant(plan.arrived_at), INSTANT), blocks),
            "plan": pa.repeat(plan.number, blocks),
            "sealed_at": pa.repeat(pa.scalar(now, INSTANT), blocks),
            STREAM: _named(plan, blocks),
            "mark_us": pa.array([*[None] * (blocks - 1), mark], pa.int64()),
        }
    )


def _named(plan: Plan, count: int) -> pa.Array:
    """The stream of a plan, so many times; null: it is the only one."""
    return pa.repeat(pa.scalar(plan.stream or None, pa.string()), count)


def _lateness(sums: pa.Table, newest: int) -> Longs:
    """Greatest lateness in each run of records, us: within it, and behind all before it."""
    times = np.asarray(sums["newest"])
    before = np.maximum.accumulate(np.append(newest, times))[:-1]
    behind = np.maximum(before, np.asarray(sums["oldest"])) - np.asarray(sums["oldest"])
    return np.maximum(np.asarray(sums["lateness"]), behind)
