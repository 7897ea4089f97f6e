"""The door: every received record gets its number and goes to events or quarantine, exactly once.

A plan (which items, at which instant) is logged before anything is read; then quarantine, events
and blocks are committed in this order, each guarded by the plan's number, and the first two also
where they get no row: the first commit decides, whatever another door has read by then. Whoever
finds an unfinished plan finishes it, and gets the same rows: killing any process at any point loses
nothing and doubles nothing (docs/concepts/the-log.md).
"""

import logging
from collections import deque
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.pipeline import Ambiguous, Mode, Pipeline
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, TerminalError
from penstock.core.slack import BlockKind
from penstock.core.window import BEGINNING, instant, micros
from penstock.lake.ingest import pieces
from penstock.lake.ingest.ahead import Outlook
from penstock.lake.ingest.clearing import Clearing
from penstock.lake.ingest.crew import ALONE, Crew
from penstock.lake.ingest.head import Head
from penstock.lake.ingest.judging import judged_items
from penstock.lake.ingest.lost_plans import Ahead
from penstock.lake.ingest.notices import BY_ORDER
from penstock.lake.ingest.numbered import Numbered, numbered
from penstock.lake.ingest.origins import waiting_of
from penstock.lake.ingest.place import check_apart
from penstock.lake.ingest.plan import APPLICATION, Plan, Terms, clears_by, definition_of
from penstock.lake.ingest.planned import as_decided
from penstock.lake.ingest.rows import block_rows, summed
from penstock.lake.ingest.side_files import SideFiles
from penstock.lake.ingest.spread import Job, spread
from penstock.lake.ingest.undeclared import Undeclared
from penstock.lake.log import proposed
from penstock.lake.log.blocks import LIVE
from penstock.lake.log.files import DETAIL, Decided, decided, planned_path
from penstock.lake.log.freezes import Freezes
from penstock.lake.storage.commit import ConflictError, Table
from penstock.lake.storage.drafts import Drafts, Gathered
from penstock.lake.storage.read import Tail, read_table
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)

BLOCK = 65_536
"""Records a block, at most. What is sealed together is answered together; what is late does not
hang on it."""


class Door:
    """Ingest of one pipeline; several processes may hold one, they cannot disagree."""

    def __init__(
        self, tables: Tables, pipeline: Pipeline, home: Path, clock: Clock,
        crew: Crew = ALONE,
    ) -> None:  # fmt: skip
        """Open nothing yet.

        Args:
            tables: of the pipeline.
            pipeline: its file.
            home: where relative places start.
            clock: tells arrival instants.
            crew: carries out what is large.
        """
        self._crew = crew
        self.pipeline, self.clock = pipeline, clock
        self.tables, self.home = tables, home
        self.plans = Table(tables.plans())
        self.quarantine = Table(tables.quarantine())
        self.blocks = Table(tables.blocks())
        self.decisions = Table(tables.decisions())
        self._plan_tail = Tail(self.plans, "number", -1)
        self._freezes = Freezes(tables)
        self._head = Head(tables, self.blocks)
        check_apart(pipeline, home, tables.lake)
        self._waiting = waiting_of(pipeline, home, tables.lake)
        self._definition = pipeline.definition.to_text()
        self._terms = {self._definition: Terms(pipeline.definition, tables, home)}
        self._side = SideFiles(tables, pipeline, home, clock)
        self._owners = [*(step.name for step in pipeline.specs), *self._side.owners]
        self._ahead = Ahead(self.plans, self.quarantine, self.blocks, self.decisions, self._owners)
        self._clearing = Clearing(pipeline, home, self._waiting[LIVE], tables, clock)
        self._outlook = Outlook(pipeline)
        self._open: deque[Plan] = deque()
        self._last: Plan | None = None
        self._last_live: Plan | None = None
        self._arrived = BEGINNING
        self._ended = False
        self._proposed: tuple[int, str | None] = (-1, None)
        self._files: tuple[int, Decided] = (-1, Decided())
        self._unlike = -1  # the plan that was read otherwise than what stands of it

    def work(self, origin: str = LIVE, since: int | None = None, until: int | None = None) -> int:
        """Finish the unfinished plan, else make and finish one.

        Args:
            origin: live or history.
            since: only records with an event time at or after it, us.
            until: only records with an event time before it, us.

        Returns:
            Records received; -1: nothing waits.

        Raises:
            ConflictError: another process planned or sealed at the same moment; call again.
            ClockError: most of what waits is ahead of the clock; call again.
            SourceError: the source cannot be read now; call again later.
            TerminalError: the log is not what it was: a person has to put something back.
            ConfigError: no interval can be taken alone.
        """
        if (since, until) != (None, None) and self.pipeline.ambiguous is Ambiguous.BY_ORDER:
            raise ConfigError(BY_ORDER.format(file=self.pipeline.path))
        self._catch_up()
        self._decided()
        plan = self._unfinished(self.blocks.last(APPLICATION))
        if plan is not None:  # another process wrote it down, and may have ended before it lasted
            self.plans.settle()
        else:
            plan = self._plan(origin, since, until)
        if plan is None:
            last = self._last_live
            self._ended = last is not None and last.kind is BlockKind.END
        received = -1 if plan is None else self._carry_out(plan)
        if origin == LIVE:
            self._clearing.work(() if plan is None or plan.origin != LIVE else plan.items)
        return received

    @property
    def ended(self) -> bool:
        """Whether, as of the last ``work``, a bounded source has been sealed up to its end."""
        return self._ended

    @property
    def next_block(self) -> int:
        """Number of the block that will be sealed next, as of the last ``work``."""
        return self._head.next_block

    @property
    def next_seq(self) -> int:
        """Arrival number of the record that will come next, as of the last ``work``."""
        return self._head.next_seq

    @property
    def changed(self) -> list[str]:
        """Whole paths of files that were other than taken when the folders were last listed."""
        return [f"{each.root}/{path}" for each in self._waiting.values() for path in each.changed]

    def left(self, origin: str) -> tuple[int, int]:
        """Files of a folder that wait, after the last plan and as of the last listing; bytes."""
        if origin not in self._waiting:  # another process may have a plan of it still
            return 0, 0
        taken = {item.path for item in self._last.items} if self._last is not None else {}
        waits = [f.size for f in self._waiting[origin].queue if f.path not in taken]
        return len(waits), sum(waits)

    def _catch_up(self) -> None:
        _ = self.plans.delta  # made before it is read: a plan is decided from this snapshot
        for row in self._plan_tail.take().to_pylist():
            self._last = Plan.of(row, self._definition, BLOCK)
            self._open.append(self._last)
            self._arrived = max(self._arrived, self._last.arrived_at)
            if self._last.origin == LIVE:
                self._last_live = self._last
            self._clearing.planned(self._last)
            definition = self._last.definition
            for origin, waiting in self._waiting.items():
                waiting.take(
                    self._last.items, row["number"], own=origin == row["origin"],
                    reading=definition_of(definition).reading, cleared=clears_by(definition),
                )  # fmt: skip
        self._head.catch_up()

    def _unfinished(self, sealed: int | None) -> Plan | None:
        """The first plan after the last sealed one, as of a snapshot of ``blocks``."""
        while self._open and sealed is not None and self._open[0].number <= sealed:
            self._open.popleft()
        return self._open[0] if self._open else None

    def _plan(self, origin: str, since: int | None, until: int | None) -> Plan | None:
        if origin not in self._waiting:  # a history that is not declared
            return None
        self._side.look()
        clock = micros(self.clock.now())
        now = max(clock, self._arrived)
        waiting = self._waiting[origin]
        closely = origin != LIVE or self._silence(origin, now) is not None
        times = self._times() if since is until is None else 1
        found = waiting.items(since, until, closely=closely, times=times)
        whole = [waiting.places.full(item) for item in found]
        items = tuple(found[: len(self._outlook.reached(whole, waiting.filesystem, now))])
        kind: BlockKind | None = BlockKind.DATA
        if not items:
            kind = self._silence(origin, now)
        if found and not items and kind is not BlockKind.IDLE:
            raise self._outlook.error(whole, waiting.filesystem, now)
        if kind is None:
            return None
        if clock < now:
            behind = timedelta(microseconds=now - clock)
            log.warning("the clock is behind the last plan: arrivals stand still behind=%s", behind)
        if kind is BlockKind.END:
            waiting.refuse_end()
        number = 0 if self._last is None else self._last.number + 1
        self._ahead.refuse(number - 1, self._terms[self._definition].events)
        adopts = self._proposals()
        plan = Plan(
            number, kind, origin, self._head.next_seq, self._head.next_block, now, items, adopts,
            self._definition, BLOCK, self._freezes.asked.refused_before,
        )  # fmt: skip
        rows = pa.Table.from_pylist([plan.row()], schema=self.plans.spec.schema)
        self.blocks.settle()  # of the plan before, whoever sealed it
        if adopts is not None or self._files[1].steers:
            self.decisions.settle()
        self.plans.swap(rows, APPLICATION, number)
        self._catch_up()
        return plan

    def _times(self) -> float:
        """How many times as much as it can take alone the next plan may hold."""
        hands, received = self._crew.hands, self._head.next_seq
        return pieces.times(self.pipeline.definition, hands, received)

    def _proposals(self) -> str | None:
        """What the next plan adopts; read again only when a decision or proposal came."""
        version = self.decisions.refresh().version()
        if version != self._proposed[0]:
            self._proposed = version, proposed.waiting(self.decisions, self._owners)
        return self._proposed[1]

    def _decided(self) -> Decided:
        """What was decided about files; read again only when a decision came."""
        version = self.decisions.refresh().version()
        if version != self._files[0]:
            self._files = version, decided(self.decisions)
            for waiting in self._waiting.values():
                waiting.decide(self._files[1])
        return self._files[1]

    def _silence(self, origin: str, now: int) -> BlockKind | None:
        """What an empty source means: the end, idleness, or nothing new to say."""
        if origin != LIVE:
            self._waiting[origin].refuse_emptied()
            return None
        source, last = self.pipeline.source, self._last_live
        if source.mode is Mode.BOUNDED:
            return None if last is not None and last.kind is BlockKind.END else BlockKind.END
        if last is None or last.kind is not BlockKind.DATA:
            return None
        return BlockKind.IDLE if now - last.arrived_at >= micros(source.idle_after) else None

    def _carry_out(self, plan: Plan) -> int:
        terms = self._by(plan)
        terms.events.refresh()
        done = terms.events.last(APPLICATION)
        if done is not None and done >= plan.number:  # only the seal is missing
            terms.events.settle()  # quarantine lasted before it
            return self._seal(plan, *self._committed(plan, terms.events))
        if terms.seen is not None:
            terms.seen.catch_up(plan.first_seq, plan.arrived_at)
        files = self._in_effect(plan)
        schema = pa.schema(terms.events.delta.schema())
        is_spread = pieces.is_spread(plan, terms.definition, self._crew.hands)
        kind = Gathered if is_spread else Drafts
        with kind(terms.events.spec, schema, {"origin": plan.origin}) as drafts:
            rows = self._numbered(plan, terms, files, Undeclared.of(schema), drafts)
            drafts.finish()
            self._refuse(plan, rows.refused, files)
            if not plan.items or terms.events.append(drafts, APPLICATION, plan.number):
                return self._seal(plan, rows.sums, rows.received)
        # the blocks speak for what stands there, whatever the files say by now
        return self._seal(plan, *self._committed(plan, terms.events))

    def _numbered(
        self, plan: Plan, terms: Terms, files: Decided, undeclared: Undeclared, drafts: Drafts
    ) -> Numbered:
        """The records of a plan; the accepted ones go to the drafts."""
        waiting, mine = terms.waiting(plan), self._waiting.get(plan.origin)
        newest = self._head.t_max if plan.origin == LIVE else BEGINNING
        now = None if mine is None else mine.places
        found = [
            tuple(waiting.places.full(as_decided(item, plan.number, files), now) for item in piece)
            for piece in pieces.cut(plan.items)
        ]
        quarantine = self.quarantine.spec.schema
        if isinstance(drafts, Gathered):
            job = Job(replace(plan, items=()), terms.events.spec, quarantine, waiting.uri)
            return spread(found, job, terms.definition, self._crew, undeclared, drafts)
        parts = judged_items(found, waiting.filesystem, plan, terms.definition, newest, undeclared)
        return numbered(parts, plan, terms.seen, quarantine, undeclared, drafts)

    def _in_effect(self, plan: Plan) -> Decided:
        """What was decided before anything of the plan was committed: its refusals come first."""
        decisions = self._decided().of(plan.number)
        self.decisions.settle()
        if not decisions.given_up:
            return decisions
        self.quarantine.refresh()
        done = self.quarantine.last(APPLICATION)
        if done is None or done < plan.number:
            return decisions
        stands = self._standing(plan, self.quarantine, ["arrival_seq", "place", "detail"])
        known = {r["place"] for r in stands.to_pylist() if r["detail"] == DETAIL}
        paths = [item.path for item in plan.items]
        held = {
            (plan.number, path)
            for place in known
            if (path := planned_path(place, paths)) is not None
        }
        return replace(decisions, given_up=held & decisions.given_up)

    def _by(self, plan: Plan) -> Terms:
        """What the plan is carried out by: the pipeline file as it was when the plan was made."""
        if plan.definition not in self._terms:
            definition = definition_of(plan.definition)
            self._terms[plan.definition] = Terms(definition, self.tables, self.home)
        return self._terms[plan.definition]

    def _seal(self, plan: Plan, sums: pa.Table, received: int) -> int:
        if plan.adopts is not None:
            at = instant(plan.arrived_at)
            begins = plan.first_block, plan.first_seq
            proposed.adopt(self.decisions, plan.adopts, plan.number, begins, at)
        rows = block_rows(
            plan, received, sums, self._head.t_max, self._head.accepted, self.clock.now()
        )
        self.blocks.append(rows.cast(self.blocks.spec.schema), APPLICATION, plan.number)
        accepted = pc.sum(sums["accepted"]).as_py() or 0
        log.info(
            "ingested plan=%d kind=%s received=%d refused=%d",
            plan.number, plan.kind.value, received, received - accepted,
        )  # fmt: skip
        self._catch_up()
        return received

    def _committed(self, plan: Plan, table: Table) -> tuple[pa.Table, int]:
        """What sums up the accepted records that are there already, and how many were received."""
        events = self._standing(plan, table, ["arrival_seq", "event_time", "block"])
        refused = self._standing(plan, self.quarantine, ["arrival_seq"])
        return summed(events), events.num_rows + refused.num_rows

    def _standing(self, plan: Plan, table: Table, names: list[str]) -> pa.Table:
        """The rows of an unsealed plan that stand in a table.

        Raises:
            ConflictError: another process has sealed it by now, and rows of others may follow.
        """
        mine = pc.field("arrival_seq") >= plan.first_seq
        if len(self._open) > 1:  # the seals of several plans were lost
            mine &= pc.field("arrival_seq") < self._open[1].first_seq
        rows = read_table(table, names, mine)
        self.blocks.refresh()
        first = self._unfinished(self.blocks.last(APPLICATION))
        if first is None or first.number != plan.number:
            raise ConflictError(f"{self.blocks.spec.uri}: another process sealed {plan.number}")
        return rows.sort_by("arrival_seq")

    def _refuse(self, plan: Plan, refusals: pa.Table, files: Decided) -> None:
        """Commit what a plan refuses, be it nothing; what stands there already must be the same.

        Raises:
            ConflictError: another process has sealed it by now or read something else, or a person
                decided otherwise; call again.
            TerminalError: it is not: what the plan read has changed in between.
        """
        self._still(plan, files)
        if not plan.items or self.quarantine.append(refusals, APPLICATION, plan.number):
            return
        self._still(plan, files)
        names = ["arrival_seq", "raw"]
        stands, wanted = self._standing(plan, self.quarantine, names), refusals.select(names)
        if stands.to_pylist() == wanted.to_pylist():
            return
        if self._unlike != plan.number:  # what was read before another's commit may be outdated
            self._unlike = plan.number
            raise ConflictError(f"plan {plan.number}: another process read something else")
        places = ", ".join(dict.fromkeys(item.path for item in plan.items))
        raise TerminalError(
            f"{self.quarantine.spec.uri}: plan {plan.number} was begun with"
            f" {stands.num_rows} refused records, and now there are {wanted.num_rows}, or"
            f" others: what it reads was changed in between: {places}. Put back what was"
            " there when it was planned (its size and time stand in plans); then it goes on"
        )

    def _still(self, plan: Plan, files: Decided) -> None:
        """See that the files of a plan are what was in effect when they were read.

        Raises:
            ConflictError: they are not.
        """
        if self._in_effect(plan) != files:
            raise ConflictError(f"plan {plan.number}: its files were decided upon meanwhile")
