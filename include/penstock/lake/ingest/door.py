"""The door: every received record gets its number and goes to events or quarantine, exactly once.

A plan (which items, at which instant) is logged before anything is read; then quarantine, events
and blocks are committed in this order, each guarded by the plan's number. Whoever finds an
unfinished plan finishes it, and gets the same rows: killing any process at any point loses
nothing and doubles nothing (docs/concepts/the-log.md).
"""

import json
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.pipeline import Mode, Pipeline, Source
from penstock.core.clock import Clock
from penstock.core.slack import BlockKind
from penstock.core.window import BEGINNING, instant, micros
from penstock.lake import proposed
from penstock.lake.commit import ConflictError, Table
from penstock.lake.digest import lateness_of
from penstock.lake.ingest.received import BROKEN, Item, Received, receive, unreadable
from penstock.lake.ingest.seen import SeenIds
from penstock.lake.ingest.source import Waiting
from penstock.lake.ingest.verdict import REPEATED, Judged, judge
from penstock.lake.log import HISTORY, LIVE
from penstock.lake.read import Tail, read_table
from penstock.lake.tables import INSTANT, Tables

log = logging.getLogger(__name__)

BLOCK = 256
"""Records a block, at most: the watermark moves from block to block, so a larger block judges more
records by an older one (the flights' timely answers touched by late ones: 5,835 at 1,024 records a
block, 15,882 at 256, 19,813 at 1)."""
APPLICATION = "ingest"


@dataclass(frozen=True, slots=True)
class Plan:
    """One ingest batch, as logged."""

    number: int
    kind: BlockKind
    origin: str
    first_seq: int
    first_block: int
    arrived_at: int
    items: tuple[Item, ...]
    adopts: str | None = None


class Door:
    """Ingest of one pipeline; several processes may hold one, they cannot disagree."""

    def __init__(self, tables: Tables, pipeline: Pipeline, home: Path, clock: Clock) -> None:
        self.pipeline, self.clock = pipeline, clock
        self.plans = Table(tables.plans())
        self.events = Table(tables.events(pipeline.types))
        self.quarantine = Table(tables.quarantine())
        self.blocks = Table(tables.blocks())
        self.decisions = Table(tables.decisions())
        self._plan_tail = Tail(self.plans, "number", -1)
        self._block_tail = Tail(self.blocks, "block", -1)
        self._waiting = {LIVE: Waiting(pipeline.source, home)}
        if pipeline.history is not None:
            self._waiting[HISTORY] = Waiting(pipeline.history, home)
        self._seen = SeenIds(pipeline, self.events) if pipeline.id is not None else None
        self._last: Plan | None = None
        self._last_live: Plan | None = None
        self._next_seq = self._next_block = 0
        self._t_max = BEGINNING
        self._ended = False
        self._proposed: tuple[int, str | None] = (-1, None)

    def work(self, origin: str = LIVE, since: int | None = None, until: int | None = None) -> int:
        """Finish the unfinished plan, else make and finish one.

        Args:
            origin: live or history.
            since: only records with an event time at or after it, us.
            until: only records with an event time before it, us.

        Returns:
            Records received; -1: nothing waits.

        Raises:
            ConflictError: another process planned at the same moment; call again.
        """
        self._catch_up()
        plan = self._unfinished()
        if plan is None:
            plan = self._plan(origin, since, until)
        if plan is None:
            last = self._last_live
            self._ended = last is not None and last.kind is BlockKind.END
            return -1
        return self._carry_out(plan)

    @property
    def ended(self) -> bool:
        """Whether, as of the last ``work``, a bounded source has been sealed up to its end."""
        return self._ended

    @property
    def next_block(self) -> int:
        """Number of the block that will be sealed next, as of the last ``work``."""
        return self._next_block

    def _catch_up(self) -> None:
        _ = self.plans.delta  # made before it is read: a plan is decided from this snapshot
        for row in self._plan_tail.take().to_pylist():
            items = tuple(Item(**i) for i in json.loads(row["positions"]))
            self._last = Plan(
                row["number"],
                BlockKind(row["kind"]),
                row["origin"],
                row["first_seq"],
                row["first_block"],
                micros(row["arrived_at"]),
                items,
                row["adopts"],
            )
            if self._last.origin == LIVE:
                self._last_live = self._last
            if self._last.origin in self._waiting:
                self._waiting[self._last.origin].take(items)
        sealed = self._block_tail.take()
        if sealed.num_rows:
            last = sealed.slice(sealed.num_rows - 1).to_pylist()[0]
            self._next_seq, self._next_block = last["last_seq"] + 1, last["block"] + 1
            live = sealed.filter(pc.equal(sealed["origin"], LIVE))["t_max"]
            newest = pc.max(live).as_py()
            self._t_max = self._t_max if newest is None else max(self._t_max, micros(newest))

    def _unfinished(self) -> Plan | None:
        """The last plan, if its blocks are not sealed."""
        if self._last is None:
            return None
        self.blocks.refresh()
        done = self.blocks.last(APPLICATION)
        return self._last if done is None or done < self._last.number else None

    def _plan(self, origin: str, since: int | None, until: int | None) -> Plan | None:
        now = micros(self.clock.now())
        items = tuple(self._waiting[origin].items(since, until))
        kind: BlockKind | None = BlockKind.DATA
        if not items:
            kind = self._silence(now) if origin == LIVE else None
        if kind is None:
            return None
        number = 0 if self._last is None else self._last.number + 1
        adopts = self._proposals()
        plan = Plan(number, kind, origin, self._next_seq, self._next_block, now, items, adopts)
        row = {
            "number": plan.number,
            "kind": plan.kind.value,
            "origin": plan.origin,
            "first_seq": plan.first_seq,
            "first_block": plan.first_block,
            "arrived_at": instant(now),
            "positions": json.dumps([i.to_json() for i in items]),
            "adopts": adopts,
        }
        self.plans.swap(
            pa.Table.from_pylist([row], schema=self.plans.spec.schema), APPLICATION, number
        )
        self._catch_up()
        return plan

    def _proposals(self) -> str | None:
        """What the next plan adopts; read again only when a decision or proposal came."""
        version = self.decisions.refresh().version()
        if version != self._proposed[0]:
            self._proposed = version, proposed.waiting(self.decisions, self.pipeline.specs)
        return self._proposed[1]

    def _silence(self, now: int) -> BlockKind | None:
        """What an empty source means: the end, idleness, or nothing new to say."""
        source: Source = self.pipeline.source
        last = self._last_live
        if source.mode is Mode.BOUNDED:
            return None if last is not None and last.kind is BlockKind.END else BlockKind.END
        if last is None or last.kind is not BlockKind.DATA:
            return None
        return BlockKind.IDLE if now - last.arrived_at >= micros(source.idle_after) else None

    def _carry_out(self, plan: Plan) -> int:
        self.events.refresh()
        done = self.events.last(APPLICATION)
        if done is not None and done >= plan.number:  # only the seal is missing
            return self._seal(plan, *self._committed(plan))
        if self._seen is not None:
            self._seen.catch_up(plan.first_seq, plan.arrived_at)
        filesystem = self._waiting[plan.origin].filesystem
        accepted: list[pa.Table] = []
        refused: list[pa.Table] = []
        at = 0
        for item in plan.items:
            received, judged = self._judged(item, filesystem, plan)
            if self._seen is not None and judged.ids is not None:
                judged.refuse(self._seen.repeated(judged), REPEATED, self._seen.column)
            accepted.append(_events(judged, plan, at))
            refused.append(self._quarantined(received, judged, plan, at))
            at += len(judged.reason)
        events = pa.concat_tables([self._none(self.events), *accepted], promote_options="default")
        refusals = pa.concat_tables([self._none(self.quarantine), *refused])
        if refusals.num_rows:
            self.quarantine.append(refusals, APPLICATION, plan.number)
        if events.num_rows and not self.events.append(
            events.select(self.events.spec.schema.names), APPLICATION, plan.number
        ):  # the blocks speak for what stands there, whatever the files say by now
            events, at = self._committed(plan)
        return self._seal(plan, events, at)

    def _seal(self, plan: Plan, events: pa.Table, received: int) -> int:
        if plan.adopts is not None:
            at = instant(plan.arrived_at)
            proposed.adopt(self.decisions, plan.adopts, plan.number, plan.first_block, at)
        self.blocks.append(self._sealed(plan, received, events), APPLICATION, plan.number)
        log.info(
            "ingested plan=%d kind=%s received=%d refused=%d",
            plan.number, plan.kind.value, received, received - events.num_rows,
        )  # fmt: skip
        self._catch_up()
        return received

    def _judged(
        self, item: Item, filesystem: pa.fs.FileSystem, plan: Plan
    ) -> tuple[Received, Judged]:
        """The records of an item; what its content breaks is refused as a whole, not the stream."""
        received = receive(item, filesystem)
        try:
            judged = judge(received, self.pipeline, plan.arrived_at)
        except BROKEN as broken:
            received = unreadable(item, broken)
            judged = judge(received, self.pipeline, plan.arrived_at)
        return _within(item, received, judged)

    @staticmethod
    def _none(table: Table) -> pa.Table:
        return table.spec.schema.empty_table()

    def _committed(self, plan: Plan) -> tuple[pa.Table, int]:
        """The accepted records of a plan that are there already, and how many it received."""
        mine = pc.field("arrival_seq") >= plan.first_seq
        events = read_table(self.events, ["arrival_seq", "event_time", "block"], mine)
        refused = read_table(self.quarantine, ["arrival_seq"], mine)
        return events.sort_by("arrival_seq"), events.num_rows + refused.num_rows

    def _quarantined(self, received: Received, judged: Judged, plan: Plan, at: int) -> pa.Table:
        rows = np.flatnonzero(~judged.accepted)
        picked = [int(r) for r in rows]
        table = pa.table(
            {
                "arrival_seq": plan.first_seq + at + rows,
                "reason": pa.array(judged.reason[rows], pa.string()),
                "detail": pa.array(judged.detail[rows], pa.string()),
                "place": pa.array([received.place(r) for r in picked], pa.string()),
                "raw": pa.array(received.raw(picked) if picked else [], pa.string()),
                "ingest_time": judged.columns["ingest_time"].take(rows),
                "block": plan.first_block + (at + rows) // BLOCK,
                "origin": pa.repeat(plan.origin, len(rows)),
            }
        )
        return table.select(self.quarantine.spec.schema.names).cast(self.quarantine.spec.schema)

    def _sealed(self, plan: Plan, count: int, events: pa.Table) -> pa.Table:
        """The rows of ``blocks``: at least one, also for a plan without records."""
        firsts = np.arange(0, max(count, 1), BLOCK)
        ends = np.minimum(firsts + BLOCK, count)
        blocks = len(firsts)
        accepted = np.zeros(blocks, np.int64)
        t_max = np.full(blocks, BEGINNING)
        lateness = np.zeros(blocks, np.int64)
        if events.num_rows:
            of = np.asarray(events["block"]) - plan.first_block
            times = np.asarray(pc.cast(events["event_time"], pa.int64()))
            accepted = np.bincount(of, minlength=blocks)
            np.maximum.at(t_max, of, times)
            if plan.origin == LIVE:
                np.maximum.at(lateness, of, lateness_of(times, self._t_max))
        missing = ends - firsts - accepted
        now = self.clock.now()
        table = pa.table(
            {
                "block": plan.first_block + np.arange(blocks),
                "kind": pa.repeat(plan.kind.value, blocks),
                "origin": pa.repeat(plan.origin, blocks),
                "first_seq": plan.first_seq + firsts,
                "last_seq": plan.first_seq + ends - 1,
                "accepted": accepted,
                "quarantined": missing,
                "t_max": pa.array(t_max, mask=t_max == BEGINNING).cast(INSTANT),
                "lateness_us": lateness,
                "arrived_at": pa.repeat(pa.scalar(instant(plan.arrived_at), INSTANT), blocks),
                "plan": pa.repeat(plan.number, blocks),
                "sealed_at": pa.repeat(pa.scalar(now, INSTANT), blocks),
            }
        )
        return table.cast(self.blocks.spec.schema)


def _within(item: Item, received: Received, judged: Judged) -> tuple[Received, Judged]:
    """Only the records of the item's span of event time."""
    if item.since is None or item.until is None:
        return received, judged
    times = pc.cast(judged.columns["event_time"], pa.int64())
    inside = pc.and_(pc.greater_equal(times, item.since), pc.less(times, item.until))
    rows = np.flatnonzero(np.asarray(pc.fill_null(inside, item.rest)))
    picked = Judged(
        judged.columns.take(rows),
        judged.reason[rows],
        judged.detail[rows],
        None if judged.ids is None else judged.ids.take(pa.array(rows)),
    )
    raw, place = received.raw, received.place
    return Received(
        received.columns.take(rows),
        lambda some: raw([int(rows[i]) for i in some]),
        lambda row: place(int(rows[row])),
    ), picked


def _events(judged: Judged, plan: Plan, at: int) -> pa.Table:
    rows = np.flatnonzero(judged.accepted)
    table = judged.columns if len(rows) == len(judged.reason) else judged.columns.take(rows)
    table = table.append_column("arrival_seq", pa.array(plan.first_seq + at + rows))
    table = table.append_column("block", pa.array(plan.first_block + (at + rows) // BLOCK))
    return table.append_column("origin", pa.repeat(plan.origin, len(rows)))


def run_through(door: Door, origin: str, since: int | None, until: int | None) -> int:
    """Take everything that waits; returns the records received."""
    total = 0
    while True:
        try:
            received = door.work(origin, since, until)
        except ConflictError:
            continue
        if received < 0:
            return total
        total += received
