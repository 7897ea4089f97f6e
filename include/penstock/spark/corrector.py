"""Carries out correction plans of one step."""

import logging
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.columns.arrays import Longs
from penstock.columns.groups import hash_keys
from penstock.columns.types import INSTANT, instants
from penstock.columns.windows import first_window, windows_a_pane
from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.kinds.frame import Asked, frame_of
from penstock.lake.history.correction import Planner, spans_of, touched, within
from penstock.lake.history.plans import CorrectionPlan
from penstock.lake.history.position import BACKFILL, LATE, Position, position
from penstock.lake.history.view import answers_at, newest
from penstock.lake.log.freezes import frozen
from penstock.lake.storage.commit import Table
from penstock.lake.storage.damage import require_whole
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables
from penstock.spark.chunks import Grid
from penstock.spark.cores import PARTITIONS
from penstock.spark.recompute import mapping, parts_of_shards, reducing, starts_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Corrected:
    """What a plan did."""

    answers: int
    changed: int


class Corrector:
    """Carries out the plans of one step."""

    def __init__(
        self, spark: SparkSession, tables: Tables, pipeline: Pipeline, step: StepSpec, clock: Clock
    ) -> None:
        self.spark, self.tables, self.step, self.clock = spark, tables, step, clock
        self.events = tables.events(pipeline.types)
        self.answers = Table(tables.answers(step))
        self.frame = frame_of(step)
        self.wire = self.frame.wire(step)

    def run(self, planner: Planner, plan: CorrectionPlan) -> Corrected:
        """Carry out one plan; again, if it was interrupted."""
        total = changed = 0
        wanted = touched(self.tables, self.step, plan) if self._by_touch(plan) else None
        if wanted is None and (gone := frozen(self.tables).window_from) > BEGINNING:
            plan = replace(plan, since=gone if plan.since is None else max(gone, plan.since))
        at = None if plan.reason == BACKFILL else position(self.tables, self.step)
        asked = wanted
        if wanted is None and plan.base is not None and not self.step.by_key:
            asked = within(self._brought(plan), plan.since, plan.until)
        chunks = self._chunks(plan, asked)
        application, begun = plan.application(chunks), self._begun(plan)
        for chunk, (low, high) in enumerate(chunks):
            part = None if asked is None else within(asked, low, high)
            if part is not None and not part.num_rows:
                continue
            found = self._recompute(plan, low, high, part)
            if self.step.by_key:
                known = self._known_of_keys(plan, at, (low, high), part)
                rows, different = self._revised(self._taken_back(found, known), known, plan)
            else:
                starts = None if wanted is None or part is None else starts_of(part)
                known = None if at is None else self._known(plan, at, (low, high), starts)
                rows, different = self._revised(found, known, plan)
            total += rows.num_rows
            changed += different
            if begun:
                there = self._there(plan, low, high)
                rows = rows.join(there, there.column_names, join_type="left anti")
                rows = rows.cast(self.answers.spec.schema)
            if rows.num_rows:
                self.answers.append(rows, application, chunk)
        planner.finish(plan, total, changed)
        log.info(
            "corrected step=%s plan=%d reason=%s through_seq=%d answers=%d changed=%d",
            self.step.name, plan.number, plan.reason, plan.through_seq, total, changed,
        )  # fmt: skip
        return Corrected(total, changed)

    def _by_touch(self, plan: CorrectionPlan) -> bool:
        return plan.reason == LATE and not plan.recheck

    def _brought(self, plan: CorrectionPlan) -> pa.Table:
        """``window_start`` of what a history may answer beside its base.

        Windows that hold a record after the base's, or ended after it; of which keys is left to
        the reducer.
        """
        window, panes = self.step.window, self._panes_since(plan)
        first, count = first_window(window, panes), windows_a_pane(window, panes)
        nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        starts = np.unique(np.repeat(first, count) + nth * window.slide)
        return pa.table({"window_start": instants(starts[starts + window.size <= plan.watermark])})

    def _panes_since(self, plan: CorrectionPlan) -> Longs:
        """Starts of panes with records that the base of a plan may not have answered, us."""
        window, at = self.step.window, F.unix_micros("event_time") - F.lit(self.step.window.origin)
        new = F.col("arrival_seq") > plan.after_seq
        if plan.watermark > plan.answered:
            new |= F.col("event_time") >= F.timestamp_micros(F.lit(plan.answered - window.size))
        pane = at - F.pmod(at, F.lit(window.pane)) + F.lit(window.origin)
        rows = self._prefix(plan).where(new).select(pane.alias("pane")).distinct().toArrow()
        return np.asarray(rows["pane"])

    def _known(
        self, plan: CorrectionPlan, at: Position, ends: tuple[int, int], starts: Longs | None
    ) -> pa.Table:
        """The answers in force of a chunk's windows without the plan's, as it began to run.

        Args:
            plan: the plan.
            at: where the step stood when the plan began to run.
            ends: the windows start in [low, high), us.
            starts: of the wanted windows among them; none: all.
        """
        spans = [ends] if starts is None else spans_of(starts, 1)
        within = Spans("window_start", tuple((a, b - 1) for a, b in spans))
        rows = answers_at(self.tables, self.step, at, within)
        mine = (pc.field("plan") == plan.number) & (pc.field("reason") == LATE)
        return newest(rows.filter(~mine), self.step)

    def _known_of_keys(
        self, plan: CorrectionPlan, at: Position | None, ends: tuple[int, int],
        wanted: pa.Table | None,
    ) -> pa.Table:  # fmt: skip
        """As ``_known``, of some keys; as far as the plan's position has them.

        Of a history that is what its base has answered.
        """
        within = Spans("window_start", ((ends[0], ends[1] - 1),))
        if at is None:
            rows = read_table(self.answers, where=pc.field("plan") == plan.base, within=within)
            rows = rows.filter(pc.field("reason") == BACKFILL)
        else:
            rows = answers_at(self.tables, self.step, at.up_to(plan.through_seq), within)
            mine = (pc.field("plan") == plan.number) & (pc.field("reason") == LATE)
            rows = rows.filter(~mine)
        if wanted is not None:
            mine = np.isin(self._hashes(rows), self._hashes(wanted))
            rows = rows.filter(pa.array(mine))
        return newest(rows, self.step)

    def _taken_back(self, found: pa.Table, known: pa.Table) -> pa.Table:
        """Besides what was found, answers of no records in place of those that are no more."""
        names = ["window_start", *self.step.identity_names]
        known = self._on_the_way(known.filter(pc.greater(known["n_records"], 0)))
        none = pa.repeat(pa.scalar(0, pa.int64()), known.num_rows)
        gone = known.set_column(known.schema.get_field_index("n_records"), "n_records", none)
        gone = gone.append_column("last_seq", gone["through_seq"])
        gone = gone.join(found.select(names), names, join_type="left anti")
        return pa.concat_tables([found, gone.select(found.column_names).cast(found.schema)])

    def _begun(self, plan: CorrectionPlan) -> bool:
        """Whether a part of a plan is answered already."""
        return bool(read_table(self.answers, ["plan"], self._mine(plan)).num_rows)

    def _there(self, plan: CorrectionPlan, low: int, high: int) -> pa.Table:
        """Windows and keys that the plan has answered already, whoever did, under any cut."""
        names, within = ["window_start", *self.step.identity_names], ((low, high - 1),)
        return read_table(self.answers, names, self._mine(plan), Spans("window_start", within))

    @staticmethod
    def _mine(plan: CorrectionPlan) -> pc.Expression:
        mine = (pc.field("epoch") == plan.epoch) & (pc.field("plan") == plan.number)
        return mine & (pc.field("reason") == plan.reason)

    def _chunks(self, plan: CorrectionPlan, wanted: pa.Table | None) -> list[tuple[int, int]]:
        """Ranges of window starts, a function of the plan alone (``penstock.spark.chunks``)."""
        if self.step.by_key:
            low, high = (plan.since, plan.until) if wanted is None else (None, None)
            return [(BEGINNING if low is None else low, FOREVER if high is None else high)]
        if wanted is None:
            low, high = self._range(plan)
            starts = None
        else:
            starts = np.unique(starts_of(wanted))
            low, high = (int(starts[0]), int(starts[-1]) + 1) if len(starts) else (0, 0)
        grid = Grid.over(low, high, self.step.window)
        if not grid.count:
            return []
        spans = [(grid.low, grid.until)]
        if starts is not None:
            spans = spans_of(starts, self.step.window.size)
        return grid.chunks(*self._counted(plan, grid, spans), starts)

    def _counted(
        self, plan: CorrectionPlan, grid: Grid, spans: list[tuple[int, int]]
    ) -> tuple[Longs, Longs]:
        """Numbers of cells, and the records that each holds of those in some spans."""
        cell = F.floor((F.unix_micros("event_time") - F.lit(grid.low)) / F.lit(grid.width))
        inside = self._prefix(plan).where(self._inside(spans))
        counted = inside.groupBy(cell.cast("long").alias("cell")).count().toArrow()
        return np.asarray(counted["cell"]), np.asarray(counted["count"])

    def _range(self, plan: CorrectionPlan) -> tuple[int, int]:
        """Window starts [low, high) that a plan over the whole log means, us."""
        size = self.step.window.size
        row = (
            self._prefix(plan)
            .agg(
                F.count(F.lit(1)).alias("n"),
                F.min(F.unix_micros("event_time")).alias("low"),
                F.max(F.unix_micros("event_time")).alias("high"),
            )
            .collect()[0]
        )
        if not row["n"]:
            return 0, 0
        low, high = row["low"] - size, min(row["high"], plan.watermark - size) + 1
        low = low if plan.since is None else max(low, plan.since)
        return low, (high if plan.until is None else min(high, plan.until))

    def _prefix(self, plan: CorrectionPlan) -> DataFrame:
        require_whole(self.events.uri)
        events = self.spark.read.format("delta").load(self.events.uri)
        return events.where(F.col("arrival_seq") <= plan.through_seq)

    def _recompute(
        self, plan: CorrectionPlan, low: int, high: int, wanted: pa.Table | None
    ) -> pa.Table:
        """Answers of the windows that start in [low, high), on their way, by window and key."""
        step, wire, asked, keys = self.step, self.wire, *self._asked(plan, low, high, wanted)
        events = self._prefix(plan)
        if not self.step.by_key:
            events = events.where(self._inside(self._spans(plan, low, high, asked.starts)))
        have = set(events.columns)
        columns = self.frame.columns(step)
        missing = [c for c in columns if c not in have]
        types = {f.name: f for f in from_arrow_schema(self.events.schema)}
        for name in missing:
            events = events.withColumn(name, F.lit(None).cast(types[name].dataType))
        tasks = int(str(self.spark.conf.get(PARTITIONS)))
        parts = events.select(*columns).mapInArrow(
            mapping(step, self.events.schema, tasks, keys), from_arrow_schema(parts_of_shards(wire))
        )
        answers = parts.groupBy("shard").applyInArrow(
            reducing(step, asked), from_arrow_schema(wire.answers)
        )
        return self._of_the_plan(plan, answers.toArrow(), wanted)

    def _asked(
        self, plan: CorrectionPlan, low: int, high: int, wanted: pa.Table | None
    ) -> tuple[Asked, Longs | None]:
        """What a chunk asks for, and hashes of the keys that it needs; none: of all."""
        keys, starts = None, None
        if wanted is not None and self.step.by_key:
            keys = np.unique(self._hashes(wanted))
        elif wanted is not None:
            starts = np.unique(starts_of(wanted))
        asked = Asked(low, high, starts, plan.watermark, plan.after_seq, plan.answered)
        return asked, keys

    def _hashes(self, rows: pa.Table) -> Longs:
        """Of the keys, as they travel."""
        return hash_keys(self.wire.to_inner(rows), self.step.key_names)

    def _of_the_plan(
        self, plan: CorrectionPlan, found: pa.Table, wanted: pa.Table | None
    ) -> pa.Table:
        by_touch = self._by_touch(plan) and not self.step.by_key
        return self._semi_join(found, wanted) if by_touch else found

    @staticmethod
    def _inside(spans: list[tuple[int, int]]) -> Column:
        """Whether a record's event time is in one of some spans [since, until), us."""
        inside = F.lit(False)
        for since, until in spans:
            inside |= (F.col("event_time") >= F.timestamp_micros(F.lit(since))) & (
                F.col("event_time") < F.timestamp_micros(F.lit(until))
            )
        return inside

    def _spans(
        self, plan: CorrectionPlan, low: int, high: int, starts: Longs | None
    ) -> list[tuple[int, int]]:
        """The event times [since, until) of the windows that start in [low, high)."""
        size = self.step.window.size
        spans = [(low, high + size)] if starts is None else spans_of(starts, size)
        return [(since, max(min(until, plan.watermark), since)) for since, until in spans]

    def _on_the_way(self, rows: pa.Table) -> pa.Table:
        """Rows with instants as whole microseconds, as what is computed again has them."""
        rows = self.wire.to_inner(rows)
        at = rows.schema.get_field_index("window_start")
        return rows.set_column(at, "window_start", pc.cast(rows["window_start"], pa.int64()))

    def _semi_join(self, found: pa.Table, wanted: pa.Table | None) -> pa.Table:
        if wanted is None:
            return found
        names = ["window_start", *self.step.identity_names]
        wanted = self._on_the_way(wanted)
        at = pa.array(np.arange(found.num_rows))  # a join cannot carry lists
        rows = found.select(names).append_column("row", at)
        rows = rows.join(wanted.select(names), names, join_type="left semi")
        return found.take(rows["row"])

    def _revised(
        self, found: pa.Table, known: pa.Table | None, plan: CorrectionPlan
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
        if plan.recheck or self.step.by_key:
            both = both.filter(pc.invert(same))
        different = pc.sum(pc.cast(pc.invert(same), pa.int64())).as_py() or 0
        return both.select(schema.names).cast(schema), int(different)


def _alike(a: pa.ChunkedArray, b: pa.ChunkedArray) -> pa.ChunkedArray:
    both_null = pc.and_(pc.is_null(a), pc.is_null(b))
    return pc.or_(pc.fill_null(pc.equal(a, b), False), both_null)
