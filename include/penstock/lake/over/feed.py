"""The feed: a step's answers become records of the log of another pipeline, exactly once.

What the step answers in time comes in the order of its micro-batches, and with it how far its
watermark is: a block ends only where the step is sealed. What a correction changes comes once more,
as a revision. So what a step over it answers in time is a function of what that step did (law 0).

As at any door a plan is logged before anything is read, and whoever finds one unfinished carries it
out: it names micro-batches and plans of corrections, and what these hold never changes.
Docs: docs/decisions/0055-answers-become-a-log.md.
"""

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.answers import OverAnswers
from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.errors import TerminalError
from penstock.core.slack import BlockKind
from penstock.core.step import ONLY, StepSpec
from penstock.core.window import instant, micros
from penstock.lake.history.position import (
    LATE,
    SPEED,
    Position,
    position,
    rows_of,
    sealed_only,
)
from penstock.lake.history.view import answers_at, newest
from penstock.lake.ingest.head import Head, Sealing
from penstock.lake.ingest.plan import APPLICATION, Plan, require_kind
from penstock.lake.ingest.rows import block_rows, summed
from penstock.lake.log import proposed
from penstock.lake.log.blocks import HISTORY, LIVE, REVISION
from penstock.lake.log.sheds import REVISIONS
from penstock.lake.over.taken import ANEW, Taken, as_taken
from penstock.lake.storage.commit import ConflictError, Table, settle
from penstock.lake.storage.read import Spans, Tail, data_files, read_table
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)

AT_ONCE = 250_000
"""Answers that a plan takes at most, but for those of one micro-batch."""
WHOLE = 2**62
"""Records of a block: each plan is one, so that a step never stands between two of its parts."""
USUAL, REST, LONGEST_REST = 10.0, 0.5, 20.0
"""So far behind a step may be, s; what share of what it is more is rested; and the longest, s."""
LOOK_SECONDS = 1.0
"""Between two looks whether it still is."""


class Feed(Sealing):
    """What a ``Door`` is to files, to the answers of a step of another pipeline.

    Attributes:
        ended: whether, as of the last ``work``, the step had ended, and all of it is in.
        rest: so long ``work`` need not be called, s: the step above is behind.
    """

    away: str | None = None
    changed: tuple[str, ...] = ()

    def __init__(self, tables: Tables, pipeline: OverAnswers, clock: Clock) -> None:
        self.tables, self.pipeline, self.clock = tables, pipeline, clock
        self.above: StepSpec = pipeline.over
        self.source = Tables(tables.lake, pipeline.other.log)
        self.plans, self.blocks = Table(tables.plans()), Table(tables.blocks())
        self.quarantine = Table(tables.quarantine())
        self.decisions = Table(tables.decisions())
        self.events = Table(tables.events(pipeline.types))
        self._tail: Tail | None = None
        self._watched = Table(self.source.control(self.above)), Table(self.source.corrections())
        self._known: list[int] = []
        self._head = Head(tables, self.blocks)
        self._last: tuple[Plan, Taken, Taken] | None = None
        self._arrived = 0
        self.ended = False
        self.rest, self._rests_until = 0.0, datetime.min.replace(tzinfo=UTC)

    def _rests(self, behind: float) -> bool:
        """Whether answers of a step that is so far behind, s, are not to be taken yet.

        Each time costs what a micro-batch of that step costs, and while it is behind it needs all
        that there is. Which answers are taken at once changes nothing (law 0); decision 63.
        """
        left = (self._rests_until - self.clock.now()).total_seconds()
        rests = left > 0 and behind > USUAL
        self.rest = min(left, LOOK_SECONDS) if rests else 0.0
        return rests

    def _behind(self, at: Position) -> float:
        """How long the first block that it has not answered waits, s; 0: there is none."""
        within = Spans("block", ((at.sealed.block, at.sealed.block),))
        waits = read_table(Table(self.source.blocks()), ["sealed_at"], within=within)["sealed_at"]
        if not len(waits):
            return 0.0
        return (self.clock.now() - waits[0].as_py()).total_seconds()

    def serve(self, pipelines: Sequence[Pipeline]) -> None:
        """Nothing is to be done: no step over answers needs side data."""

    def catch_up(self) -> None:
        """Take all that waits; where another process does the same, that one may go on."""
        with suppress(ConflictError):
            while self.work() >= 0:
                pass

    def work(self) -> int:
        """Finish the unfinished plan, else make and finish one.

        Returns:
            Records received; -1: nothing waits.

        Raises:
            ConflictError: another process planned or sealed at the same moment; call again.
            TerminalError: the step began anew, and what it answers now cannot follow what is here.
        """
        self._look()
        self.blocks.refresh()
        sealed = self.blocks.last(APPLICATION)
        if self._last is None or sealed == self._last[0].number:
            self._plan()
        else:
            self.plans.settle()
        if self._last is None or sealed == self._last[0].number:
            return -1
        return self._carry_out(*self._last)

    def _look(self) -> None:
        delta = self.plans.delta  # made before it is read: a plan is decided from this snapshot
        if self._tail is None:  # a log of any age is begun at the same cost
            newest = max((f.greatest or 0 for f in data_files(delta, "number")), default=0)
            self._tail = Tail(self.plans, "number", newest - 1)
        rows = self._tail.take()
        for row in rows.slice(max(rows.num_rows - 1, 0)).to_pylist():
            require_kind(row, self.plans.spec.uri, answers=True)
            before, after = map(Taken.of, json.loads(row["taken"]))
            plan = Plan.of(row, "", WHOLE)
            self._last, self._arrived = (plan, before, after), plan.arrived_at
        self._head.catch_up()

    def _plan(self) -> None:
        """Write down what comes next, if there is anything."""
        before = Taken() if self._last is None else self._last[2]
        newest = [table.newest() for table in self._watched]
        versions = [-1 if each is None else each.version() for each in newest]
        if versions == self._known:  # a look costs a millisecond, a position many
            return
        at = position(self.source, self.above)
        if at is None and before.run in {"", self.above.id}:
            return
        behind = 0.0 if at is None else self._behind(at)
        if self._rests(behind):
            return
        if before.epoch >= 0 and not before.is_of(self.above, at):
            raise self._anew()
        found = self._next(at, before)
        self.ended = found is None and before.epoch >= 0 and at.sealed.state.ended
        if found is None:
            self._known = versions
            return
        rest = min(max((behind - USUAL) * REST, 0.0), LONGEST_REST)
        self._rests_until = self.clock.now() + timedelta(seconds=rest)
        kind, origin, after = found
        number = 0 if self._last is None else self._last[0].number + 1
        plan = Plan(
            number, kind, origin, self._head.next_seq, self._head.next_block,
            max(micros(self.clock.now()), self._arrived), (), None, "", WHOLE,
        )  # fmt: skip
        row = plan.row() | {"taken": json.dumps([asdict(before), asdict(after)])}
        source, above = self.source, self.above
        settle(source.answers(above), source.control(above), source.corrections(),
               self.tables.blocks())  # fmt: skip
        rows = pa.Table.from_pylist([row], schema=self.plans.spec.schema)
        self.plans.swap(rows, APPLICATION, number)
        self._look()

    def _next(self, at: Position, before: Taken) -> tuple[BlockKind, str, Taken] | None:
        """What a plan takes: the history, where that ends, what is timely, or what changed."""
        if before.epoch < 0:
            begun = replace(Taken(at.epoch.number, run=self.above.id).sealed(at.sealed), mark=None)
            return None if at.owes else (BlockKind.DATA, HISTORY, begun.corrected(at.done))
        if before.mark is None:
            last = before.row(self.source, self.above, at)
            if last is None:
                raise self._anew()
            return BlockKind.MARK, LIVE, before.sealed(last)
        later = Spans("block", ((before.block, at.sealed.block),))
        rows = [row for row in rows_of(self.source, self.above, at, later)
                if row.order > before.order]  # fmt: skip
        if rows:
            counts = accumulate(row.answers for row in rows)
            last = max(sum(count <= AT_ONCE for count in counts), 1) - 1
            return BlockKind.MARK, LIVE, before.sealed(rows[last])
        after = before.corrected(at.done | before.done)
        return None if after == before else (BlockKind.DATA, REVISION, after)

    def _anew(self) -> TerminalError:
        names = {"step": self.above.name, "pipeline": self.source.pipeline}
        return TerminalError(ANEW.format(**names, mine=self.pipeline.name))

    def _carry_out(self, plan: Plan, before: Taken, after: Taken) -> int:
        rows = self._rows(plan, before, after)
        count, at = rows.num_rows, instant(plan.arrived_at)
        self.quarantine.append(self.quarantine.spec.schema.empty_table(), APPLICATION, plan.number)
        self.events.append(rows, APPLICATION, plan.number)
        if plan.origin == REVISION:
            span = plan.first_seq, plan.first_seq + count
            proposed.revise(self.decisions, REVISIONS, plan.number, span, plan.first_block, at)
        sealed = block_rows(
            plan, count, summed(rows), self._head.newest(ONLY), self._head.accepted,
            self.clock.now(), after.mark if plan.kind is BlockKind.MARK else None,
        )  # fmt: skip
        self.blocks.append(sealed.cast(self.blocks.spec.schema), APPLICATION, plan.number)
        log.info("fed plan=%d origin=%s answers=%d", plan.number, plan.origin, count)
        self._look()
        return count

    def _rows(self, plan: Plan, before: Taken, after: Taken) -> pa.Table:
        """The records of a plan."""
        found = self._answers(plan.origin, before, after)
        by = [("through_seq", "ascending"), ("window_start", "ascending")]
        found = found.sort_by([*by, *((key, "ascending") for key in self.above.key_names)])
        count, schema = found.num_rows, self.events.spec.schema
        seqs = plan.first_seq + pa.array(range(count), pa.int64()).to_numpy()
        end = pc.cast(found["window_end"], pa.int64())
        at = pa.scalar(plan.arrived_at, pa.int64()).cast(schema.field("ingest_time").type)
        columns = {
            "arrival_seq": pa.array(seqs),
            "event_time": pc.cast(pc.subtract(end, 1), schema.field("event_time").type),
            "ingest_time": pa.repeat(at, count),
            "block": pa.array(plan.first_block + (seqs - plan.first_seq) // plan.block_size),
            "origin": pa.repeat(plan.origin, count),
            **{name: pa.nulls(count, pa.string()) for name in ("extra", "read_as")},
            **{name: found[name] for name in self.pipeline.types},
        }
        return pa.table({name: columns[name] for name in schema.names}).cast(schema)

    def _answers(self, origin: str, before: Taken, after: Taken) -> pa.Table:
        at = as_taken(self.source, self.above, after)
        if origin == HISTORY:
            return newest(answers_at(self.source, self.above, at), self.above)
        if origin == LIVE:
            table = Table(self.source.answers(self.above))
            within = Spans("through_seq", ((before.seq, after.seq),))
            timely = pc.field("reason") == SPEED
            return sealed_only(read_table(table, None, timely & before.later, within), at)
        return self._revised(at, after.done - before.done)

    def _revised(self, at: Position, plans: frozenset[int]) -> pa.Table:
        """What some corrections changed: of the answers in force those that are theirs."""
        spec, mine = self.source.answers(self.above), pa.array(sorted(plans), pa.int64())
        theirs = pc.field("plan").isin(mine) & (pc.field("reason") == LATE)
        starts = pc.cast(read_table(Table(spec), ["window_start"], theirs)["window_start"], "int64")
        if not len(starts):
            return spec.schema.empty_table()
        within = Spans("window_start", ((pc.min(starts).as_py(), pc.max(starts).as_py()),))
        return newest(answers_at(self.source, self.above, at, within), self.above).filter(theirs)
