"""Carries out correction plans of one step."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import INSTANT, instants
from penstock.core.clock import Clock
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.kinds.frame import frame_of
from penstock.lake.history.correction import Planner, touched
from penstock.lake.history.plans import CorrectionPlan
from penstock.lake.history.position import BACKFILL, position
from penstock.lake.log.freezes import frozen
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables
from penstock.spark.by_key import ByKey
from penstock.spark.by_reach import ByReach
from penstock.spark.by_window import ByWindow
from penstock.spark.chunked import Chunk, Chunked
from penstock.spark.prefix import Prefix

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Corrected:
    """What a plan did."""

    answers: int
    changed: int


class Corrector:
    """Carries out the plans of one step."""

    def __init__(self, prefix: Prefix, tables: Tables, step: StepSpec, clock: Clock) -> None:
        self.tables, self.step, self.clock = tables, step, clock
        self.answers = Table(tables.answers(step))
        self.wire = frame_of(step).wire(step)
        kind = ByReach if step.only_adds else ByKey if step.by_key else ByWindow
        self.chunked: Chunked = kind(prefix, tables, step)

    def run(self, planner: Planner, plan: CorrectionPlan) -> Corrected:
        """Carry out one plan; again, if it was interrupted."""
        total = changed = 0
        wanted = touched(self.tables, self.step, plan) if plan.by_touch else None
        if wanted is None and (gone := frozen(self.tables).begin_of(self.step)) > BEGINNING:
            plan = replace(plan, since=gone if plan.since is None else max(gone, plan.since))
        at = None if plan.reason == BACKFILL else position(self.tables, self.step)
        chunks = self.chunked.chunks(plan, wanted)
        application, begun = plan.application([each.ends for each in chunks]), self._begun(plan)
        for number, chunk in enumerate(chunks):
            if chunk.wanted is not None and not chunk.wanted.num_rows:
                continue
            rows, different = self._revised(plan, *self.chunked.again(plan, chunk, at))
            total += rows.num_rows
            changed += different
            if begun:
                there = self._there(plan, chunk)
                rows = rows.join(there, there.column_names, join_type="left anti")
                rows = rows.cast(self.answers.spec.schema)
            if rows.num_rows:
                self.answers.append(rows, application, number)
        planner.finish(plan, total, changed)
        log.info(
            "corrected step=%s plan=%d reason=%s through_seq=%d answers=%d changed=%d",
            self.step.id, plan.number, plan.reason, plan.through_seq, total, changed,
        )  # fmt: skip
        return Corrected(total, changed)

    def run_all(self, planner: Planner, plans: Sequence[CorrectionPlan]) -> Corrected:
        """Carry out plans in order; returns their totals."""
        done = [self.run(planner, plan) for plan in plans]
        return Corrected(sum(one.answers for one in done), sum(one.changed for one in done))

    def _begun(self, plan: CorrectionPlan) -> bool:
        """Whether a part of a plan is answered already."""
        return bool(read_table(self.answers, ["plan"], _mine(plan)).num_rows)

    def _there(self, plan: CorrectionPlan, chunk: Chunk) -> pa.Table:
        """Windows and keys that the plan has answered already, whoever did, under any cut."""
        names = ["window_start", *self.step.identity_names]
        inside = Spans("window_start", ((chunk.low, chunk.high - 1),))
        return read_table(self.answers, names, _mine(plan), inside)

    def _revised(
        self, plan: CorrectionPlan, found: pa.Table, known: pa.Table | None
    ) -> tuple[pa.Table, int]:
        """Rows of ``answers``, and how many differ from the answer in force before."""
        start = np.asarray(found["window_start"])
        count = found.num_rows
        values = self.wire.layout.finish(found)
        columns = {
            **self.wire.known_by(found),
            "window_start": instants(start),
            "window_end": instants(start + self.step.window.size),
            **values,
            "n_records": found["n_records"],
            "revision": pa.repeat(0, count),
            "reason": pa.repeat(plan.reason, count),
            "epoch": pa.repeat(plan.epoch, count),
            "generation": pa.nulls(count, pa.int64()),
            "micro_batch": pa.nulls(count, pa.int64()),
            "plan": pa.repeat(plan.number, count),
            "through_seq": pa.repeat(plan.through_seq, count),
            "published_at": pa.repeat(pa.scalar(self.clock.now(), INSTANT), count),
        }
        schema = self.answers.spec.schema
        rows = pa.table({n: columns[n] for n in schema.names}).cast(schema)
        if known is None:
            return rows, 0  # a first answer changes none
        names = ["window_start", *self.step.identity_names]
        before = [*(v.name for v in self.step.values), "n_records", "revision"]
        old = known.select([*names, *before]).rename_columns(
            [*names, *(f"old_{n}" for n in before)]
        )
        both = rows.join(old, names, join_type="left outer")
        new = pc.is_null(both["old_revision"])
        same = pc.invert(new)
        for name in before[:-1]:
            same = pc.and_(same, _alike(both[name], both[f"old_{name}"]))
        revision = pc.add(pc.fill_null(both["old_revision"], 0), 1)
        if plan.reason == BACKFILL:
            revision = pa.repeat(pa.scalar(0, pa.int64()), both.num_rows)
        both = both.set_column(both.schema.get_field_index("revision"), "revision", revision)
        if plan.recheck or not self.chunked.unchanged:
            both = both.filter(pc.invert(same))
        different = pc.sum(pc.cast(pc.invert(same), pa.int64())).as_py() or 0
        return both.select(schema.names).cast(schema), int(different)


def _mine(plan: CorrectionPlan) -> pc.Expression:
    mine = (pc.field("epoch") == plan.epoch) & (pc.field("plan") == plan.number)
    return mine & (pc.field("reason") == plan.reason)


def _alike(a: pa.ChunkedArray, b: pa.ChunkedArray) -> pa.ChunkedArray:
    both_null = pc.and_(pc.is_null(a), pc.is_null(b))
    return pc.or_(pc.fill_null(pc.equal(a, b), False), both_null)
