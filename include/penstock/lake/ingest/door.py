"""The door: every received record gets its number and goes to events or quarantine, exactly once.

A plan (which items, at which instant) is logged before anything is read; then quarantine, events
and blocks are committed in this order, each guarded by the plan's number, and the first two also
where they get no row: the first commit decides, whatever another door has read by then. Whoever
finds an unfinished plan finishes it, and gets the same rows: killing any process at any point loses
nothing and doubles nothing (docs/concepts/the-log.md).
"""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.intake import Ambiguous, Definition
from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, TerminalError, TransientError
from penstock.core.window import BEGINNING, instant, micros
from penstock.lake.ingest import pieces
from penstock.lake.ingest.crew import ALONE, Crew
from penstock.lake.ingest.head import Head, Sealing
from penstock.lake.ingest.judging import judged_items
from penstock.lake.ingest.lost_plans import Ahead
from penstock.lake.ingest.notices import BY_ORDER
from penstock.lake.ingest.numbered import Numbered, numbered
from penstock.lake.ingest.place import check_apart
from penstock.lake.ingest.plan import APPLICATION, Plan, Terms, definition_of, require_kind, today
from penstock.lake.ingest.planned import as_decided
from penstock.lake.ingest.rows import block_rows, summed
from penstock.lake.ingest.side_files import SideFiles
from penstock.lake.ingest.source import Waiting
from penstock.lake.ingest.spread import Job, spread
from penstock.lake.ingest.streams import Asked, Next, Stream, next_of, streams_of
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


TURNED = (
    "{place}: a pipeline of one source does not become one of several, nor the other way round: its"
    " records would be taken twice, or not be found. Give the pipeline file another name, or"
    " penstock remove the pipeline to start afresh."
)


class Door(Sealing):
    """Ingest of one pipeline; several processes may hold one, they cannot disagree."""

    rest = 0.0  # what waits is taken at once

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
        self._streams = streams_of(pipeline, home, tables, clock)
        self._events = Table(tables.events(pipeline.types))
        self._today = today(pipeline)
        self._terms = {
            (name, each.text): Terms(each.definition, tables, home, name, self._events)
            for name, each in self._streams.items()
        }
        self._side = SideFiles(tables, [pipeline], home, clock)
        self._ahead = Ahead(self.plans, self.quarantine, self.blocks, self.decisions)
        self._open: deque[Plan] = deque()
        self._last: Plan | None = None
        self._arrived = BEGINNING
        self._ended = False
        self._away: TransientError | None = None
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
        by_order = (i.ambiguous is Ambiguous.BY_ORDER for i in self.pipeline.intakes.values())
        if (since, until) != (None, None) and any(by_order):
            raise ConfigError(BY_ORDER.format(file=self.pipeline.path))
        self._away = None
        self._catch_up()
        self._decided()
        plan = self._unfinished(self.blocks.last(APPLICATION))
        if plan is not None:  # another process wrote it down, and may have ended before it lasted
            self.plans.settle()
        else:
            plan = self._plan(origin, since, until)
        if plan is None:
            self._ended = all(stream.ended for stream in self._streams.values())
        received = -1 if plan is None else self._carry_out(plan)
        if origin == LIVE:
            for stream in self._streams.values():
                stream.clear(plan)
        return received

    def serve(self, pipelines: Sequence[Pipeline]) -> None:
        """Take the side data of these pipelines, from the next ``work`` on."""
        self._side = SideFiles(self.tables, pipelines, self.home, self.clock)

    @property
    def ended(self) -> bool:
        """Whether, as of the last ``work``, bounded sources have been sealed up to their ends."""
        return self._ended

    @property
    def away(self) -> str | None:
        """Why some source could not be looked at by the last ``work``, which took from another."""
        return None if self._away is None else str(self._away)

    @property
    def changed(self) -> list[str]:
        """Whole paths of files that were other than taken when the folders were last listed."""
        return [f"{each.root}/{path}" for each in self._sources for path in each.changed]

    @property
    def _sources(self) -> list[Waiting]:
        """All sources and histories."""
        return [each for stream in self._streams.values() for each in stream.waiting.values()]

    def left(self, origin: str) -> tuple[int, int]:
        """Files of a folder that wait, after the last plan and as of the last listing; bytes."""
        waits = [n for stream in self._streams.values() for n in stream.left(origin, self._last)]
        return len(waits), sum(waits)

    def _catch_up(self) -> None:
        _ = self.plans.delta  # made before it is read: a plan is decided from this snapshot
        for row in self._plan_tail.take().to_pylist():
            require_kind(row, self.plans.spec.uri, answers=False)
            self._last = Plan.of(row, self._today, BLOCK)
            if bool(self._last.stream) != bool(self.pipeline.streams):
                raise ConfigError(TURNED.format(place=self.plans.spec.uri))
            self._open.append(self._last)
            self._arrived = max(self._arrived, self._last.arrived_at)
            for stream in self._streams.values():
                stream.planned(self._last)
        self._head.catch_up()

    def _unfinished(self, sealed: int | None) -> Plan | None:
        """The first plan after the last sealed one, as of a snapshot of ``blocks``."""
        while self._open and sealed is not None and self._open[0].number <= sealed:
            self._open.popleft()
        return self._open[0] if self._open else None

    def _plan(self, origin: str, since: int | None, until: int | None) -> Plan | None:
        some = [stream for stream in self._streams.values() if origin in stream.waiting]
        if not some:  # a history that is not declared
            return None
        self._side.look()
        clock = micros(self.clock.now())
        now = max(clock, self._arrived)

        def look(stream: Stream) -> Next | None:
            times = self._times(stream.definition) if since is until is None else 1
            return stream.next(Asked(origin, since, until, now, times))

        found, self._away = next_of(some, self._head.newest, look)
        if found is None and self._away is not None:
            raise self._away
        if found is None:
            return None
        if clock < now:
            behind = timedelta(microseconds=now - clock)
            log.warning("the clock is behind the last plan: arrivals stand still behind=%s", behind)
        number = 0 if self._last is None else self._last.number + 1
        self._ahead.refuse(number - 1, self._events)
        adopts = self._proposals()
        plan = Plan(
            number, found.kind, origin, self._head.next_seq, self._head.next_block, now,
            found.items, adopts, found.stream.text, BLOCK, self._freezes.asked.refused_before,
            found.stream.name,
        )  # fmt: skip
        rows = pa.Table.from_pylist([plan.row()], schema=self.plans.spec.schema)
        self.blocks.settle()  # of the plan before, whoever sealed it
        if adopts is not None or self._files[1].steers:
            self.decisions.settle()
        self.plans.swap(rows, APPLICATION, number)
        self._catch_up()
        return plan

    def _times(self, definition: Definition) -> float:
        """How many times as much as it can take alone the next plan may hold."""
        return pieces.times(definition, self._crew.hands, self._head.next_seq)

    def _proposals(self) -> str | None:
        """What the next plan adopts; read again only when a decision or proposal came."""
        version = self.decisions.refresh().version()
        if version != self._proposed[0]:
            self._proposed = version, proposed.waiting(self.decisions)
        return self._proposed[1]

    def _decided(self) -> Decided:
        """What was decided about files; read again only when a decision came."""
        version = self.decisions.refresh().version()
        if version != self._files[0]:
            self._files = version, decided(self.decisions)
            for waiting in self._sources:
                waiting.decide(self._files[1])
        return self._files[1]

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
        stream = self._streams.get(plan.stream)
        waiting, mine = terms.waiting(plan), stream and stream.waiting.get(plan.origin)
        newest = self._head.newest(plan.stream) if plan.origin == LIVE else BEGINNING
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
        key = plan.stream, plan.definition
        if key not in self._terms:
            definition = definition_of(plan.definition)
            self._terms[key] = Terms(definition, self.tables, self.home, plan.stream)
        return self._terms[key]

    def _seal(self, plan: Plan, sums: pa.Table, received: int) -> int:
        if plan.adopts is not None:
            at = instant(plan.arrived_at)
            begins = plan.first_block, plan.first_seq
            proposed.adopt(self.decisions, plan.adopts, plan.number, begins, at)
        rows = block_rows(
            plan, received, sums, self._head.newest(plan.stream), self._head.accepted,
            self.clock.now(),
        )  # fmt: skip
        self.blocks.append(rows.cast(self.blocks.spec.schema), APPLICATION, plan.number)
        accepted = pc.sum(sums["accepted"]).as_py() or 0
        log.info(
            "ingested plan=%d%s kind=%s received=%d refused=%d",
            plan.number, f" stream={plan.stream}" if plan.stream else "", plan.kind.value,
            received, received - accepted,
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
