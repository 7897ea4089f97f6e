"""Freezes what is older than a pipeline keeps: asks for it, and lets it take effect.

What an audit found up to a position stands in its footing. Once all windows of the records up to
there are closed, corrected and audited, and the door refuses what could touch them, those records
say nothing any more that the footing and the answers do not. See docs/decisions/0033-freezing.md.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER, instant, micros
from penstock.lake.history.plans import plans, unfinished_plans
from penstock.lake.history.position import (
    SHED,
    SPEED,
    Position,
    position,
    rows_of,
    sealed_only,
)
from penstock.lake.log.freezes import APPLICATION, Freeze, Freezes
from penstock.lake.log.joint import stood_after
from penstock.lake.log.stood import Stood
from penstock.lake.proof.audits import FAILED, PASSED
from penstock.lake.proof.footing import Footing, epoch_of, read_footing
from penstock.lake.storage.commit import Table, settle
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)

AT_ONCE = 24
"""A stretch goes once it is this part of what is kept: each freeze rewrites some files."""


class Freezer:
    """Of one pipeline; run it again and again, by one process at a time."""

    def __init__(self, tables: Tables, pipeline: Pipeline, clock: Clock) -> None:
        self.tables, self.pipeline, self.clock = tables, pipeline, clock
        self.freezes = Freezes(tables)

    def work(self) -> str:
        """Let take effect what was asked for, or ask for more; returns what there is to say."""
        asked = self.freezes.asked
        if not asked.frozen:
            waits = self._waits(asked)
            if waits:
                return f"windows before {_said(asked.window_from)} will be frozen: {waits}"
            self._write(self._done(asked))
            return f"windows before {_said(asked.window_from)} are frozen"
        found = self._next(asked)
        if found is None:
            return ""
        self._write(found)
        return f"windows before {_said(found.window_from)} will be frozen"

    def _write(self, freeze: Freeze) -> None:
        tables = self.tables
        settle(tables.audits(), tables.corrections(), tables.blocks(), tables.registry(),
               *(tables.control(step) for step in self.pipeline.specs))  # fmt: skip
        table = self.freezes.table
        number = 2 * freeze.number + freeze.frozen
        table.append(freeze.rows(table.spec, self.clock.now()), APPLICATION, number)
        log.info("freeze number=%d frozen=%s through_seq=%d", freeze.number, freeze.frozen,
                 freeze.seq)  # fmt: skip

    def _positions(self) -> Mapping[str, Position]:
        """Of all steps; empty: some has none."""
        found = {step.id: position(self.tables, step) for step in self.pipeline.specs}
        whole = {name: at for name, at in found.items() if at is not None}
        return whole if len(whole) == len(found) else {}

    def _next(self, former: Freeze) -> Freeze | None:
        """The most that may go; none: nothing yet."""
        keep, at = self.pipeline.keep, self._positions()
        if keep is None or not at:
            return None
        longest = max(s.lag + s.window.size + s.lead for s in self.pipeline.specs)
        states = [one.sealed.state for one in at.values()]
        until = min(min(s.watermark, s.t_max) for s in states) - micros(keep) - longest
        least = former.window_from + micros(keep) // AT_ONCE
        for footings in self._audits(at, former):
            heads = [footing.head for footing in footings.values()]
            if max(head.newest for head in heads) >= until:
                continue
            newest = self._newest(former, max(head.block for head in heads))
            if newest >= until or newest < least:
                continue
            head = min(heads, key=lambda one: one.block)
            return Freeze(
                former.number + 1, head.seq, head.block, head.newest, newest + 1,
                newest + 1 + longest, {n: f.to_text() for n, f in footings.items()}, frozen=False,
                streams=self._stood(former, head.block),
            )  # fmt: skip
        return None

    def _audits(
        self, at: Mapping[str, Position], former: Freeze
    ) -> Iterator[Mapping[str, Footing]]:
        """What green audits of all steps found, by step; the newest first."""
        several = {step.id for step in self.pipeline.specs if len(step.streams) > 1}
        where = (pc.field("state") == PASSED) & (pc.field("through_seq") > former.seq)
        rows = read_table(Table(self.tables.audits()), ["run_id", "audited_at", "step", "footing"],
                          where).sort_by([("audited_at", "descending")]).to_pylist()  # fmt: skip
        for _, mine in groupby(rows, lambda row: row["run_id"]):
            found = {row["step"]: _read(row["footing"]) for row in mine}
            whole = {
                name: footing
                for name, one in at.items()
                if (footing := found.get(name)) and footing.epoch == epoch_of(one.epoch)
                and footing.head.block > former.block
                and (footing.head.streams or name not in several)
            }  # fmt: skip
            if len(whole) == len(at):
                yield whole

    def _newest(self, former: Freeze, before: int) -> int:
        """The newest event time of records before a block, us, of history, too."""
        within = Spans("block", ((former.block, before - 1),))
        rows = read_table(Table(self.tables.blocks()), ["t_max"], within=within)
        found = pc.max(pc.cast(rows["t_max"], pa.int64())).as_py()
        known = former.window_from - 1
        return known if found is None else max(known, int(found))

    def _stood(self, former: Freeze, before: int) -> tuple[Stood, ...]:
        """Where streams stand before a block, if there are several."""
        if not self.pipeline.streams:
            return ()
        within = Spans("block", ((former.block, before - 1),))
        rows = read_table(Table(self.tables.blocks()), within=within).sort_by("block")
        return stood_after(rows, former.streams)

    def _waits(self, freeze: Freeze) -> str:
        """What has to come before a freeze takes effect; empty: nothing."""
        adopted = self._adopted(freeze)
        if adopted is None:
            return "once the stream takes in more"
        for step in self.pipeline.specs:
            if why := self._owes(step, freeze, adopted):
                return f"once {step.id} {why}"
        return ""

    def _adopted(self, freeze: Freeze) -> int | None:
        """The number from which on no record is older; none: the door has not heard of it."""
        heard = Spans("refused_before_us", ((freeze.refused_before, FOREVER),))
        rows = read_table(Table(self.tables.plans()), ["first_seq"], within=heard)
        first: int | None = pc.min(rows["first_seq"]).as_py()
        return first

    def _owes(self, step: StepSpec, freeze: Freeze, adopted: int) -> str:
        tables, at = self.tables, position(self.tables, step)
        if at is None or at.sealed.seq < adopted - 1:
            return "has answered what came before"
        if unfinished_plans(tables, step):
            return "has finished its corrections"
        if at.epoch.frozen >= freeze.seq:  # it began behind
            return ""
        base = _read(freeze.steps.get(step.id))
        if base is None or base.epoch != epoch_of(at.epoch):
            return "has been audited from its beginning"
        footing = None if self._failed(step) else read_footing(tables, step)
        if footing is None or footing.head.seq < adopted - 1 or footing.epoch != base.epoch:
            return f"has passed an audit of the first {adopted:,} records"
        late = self._late(step, at, freeze, footing)
        return "has been corrected and audited" if late.num_rows else ""

    def _failed(self, step: StepSpec) -> bool:
        """Whether the newest audit found something."""
        mine = pc.field("step") == step.id
        rows = read_table(Table(self.tables.audits()), ["audited_at", "state"], mine)
        return bool(rows.num_rows) and rows.sort_by("audited_at")["state"][-1].as_py() == FAILED

    def _late(self, step: StepSpec, at: Position, freeze: Freeze, footing: Footing) -> pa.Table:
        """Late rows of windows that freeze which no correction had settled."""
        spec = self.tables.late(step, [])
        new = Spans("last_seq", ((footing.settled + 1, FOREVER),))
        least = max(step.open_after(footing.settled_us) - step.window.size + 1, BEGINNING)
        open_then = Spans("window_start", ((least, FOREVER),))
        before = freeze.begin_of(step)
        if step.by_reach:  # it may lie in a later window than a pair of its
            before += step.window.size + step.lead
        rows = [
            self._rows(spec, at, before, new),
            self._rows(spec, at, before, open_then, SHED),
        ]
        return pa.concat_tables(rows)

    def _rows(
        self, spec: TableSpec, at: Position, before: int, within: Spans, reason: str = ""
    ) -> pa.Table:
        """Of windows that start before an instant, us."""
        names = ["generation", "micro_batch", "n_records"]
        where = pc.field("window_start") < pc.scalar(instant(before))
        if reason := SPEED if spec.name == "answers" else reason:
            where &= pc.field("reason") == reason
        return sealed_only(read_table(Table(spec), names, where, within), at)

    def _done(self, freeze: Freeze) -> Freeze:
        """The freeze as it takes effect: what the windows that freeze still got is counted."""
        steps = {}
        for step in self.pipeline.specs:
            at, base = position(self.tables, step), _read(freeze.steps.get(step.id))
            if at is not None and base is not None and base.epoch == epoch_of(at.epoch):
                steps[step.id] = self._counted(step, at, freeze, base).to_text()
        return replace(freeze, steps=steps, frozen=True)

    def _counted(self, step: StepSpec, at: Position, freeze: Freeze, base: Footing) -> Footing:
        """A footing with all pairs of the windows that freeze, and with all of their plans.

        Of a step by key with what it says itself: its records are counted one by one.
        """
        head = base.head
        planned, _ = plans(self.tables, step)
        greatest = max([base.plan, *(p.number for p in planned if p.through_seq < head.seq)])
        if step.by_key:
            return replace(base, plan=greatest, unfinished=[])
        later = [s for s in rows_of(self.tables, step, at, Spans("through_seq", ((head.seq,
                 FOREVER),))) if s.block > head.block]  # fmt: skip
        known = {(s.generation, s.micro_batch) for s in later}

        def pairs(spec: TableSpec, column: str, reason: str = "") -> int:
            since = Spans(column, ((head.seq, FOREVER),))
            rows = self._rows(spec, at, freeze.begin_of(step), since, reason)
            numbers = zip(*(rows[n].to_pylist() for n in rows.column_names), strict=True)
            return sum(n for generation, batch, n in numbers if (generation, batch) in known)

        totals, late = dict(base.totals), self.tables.late(step, [])
        totals["pairs_on_time"] += pairs(self.tables.answers(step), "through_seq")
        totals["pairs_late"] += pairs(late, "last_seq")
        totals["pairs_shed"] = totals.get("pairs_shed", 0) + pairs(late, "last_seq", SHED)
        totals["pairs_events"] = sum(totals[f"pairs_{n}"] for n in ("on_time", "late", "preloaded"))
        return replace(base, totals=totals, plan=greatest, unfinished=[])


def _read(text: str | None) -> Footing | None:
    return None if text is None else Footing.from_text(text)


def _said(us: int) -> str:
    return f"{instant(us):%F %T} UTC"
