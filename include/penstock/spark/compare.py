"""The truth of a step beside its answers and late rows: one row a window and key.

Columns of its own end in ``$``, which no column of a pipeline can.
"""

from dataclasses import astuple
from functools import reduce

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from penstock.config.pipeline import Pipeline
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER, micros
from penstock.lake.history.position import BACKFILL, LATE, SHED, SPEED, Position
from penstock.lake.log.sheds import ever_shed
from penstock.lake.proof.retrace import Plans, read_plans
from penstock.lake.proof.scope import Scope
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables
from penstock.spark.faults import counts_up, faults, of_the_last, shared
from penstock.spark.frames import Frames
from penstock.spark.scoped import changed, inside
from penstock.spark.truth import recomputed, records, truth_of


class Comparison:
    """Of one step at one position, over all its windows or those of a scope."""

    def __init__(
        self,
        spark: SparkSession,
        tables: Tables,
        pipeline: Pipeline,
        step: StepSpec,
        at: Position,
        scope: Scope,
        finished: Plans,
    ) -> None:
        self.frames, self.tables, self.types = Frames(spark), tables, pipeline.types
        self.pipeline = pipeline
        self.step, self.at, self.scope, self.finished = step, at, scope, finished
        self.by = ["window_start", *step.identity_names]
        self.done = at.done
        self.sheds = bool(ever_shed(Table(tables.decisions()), step))

    def _sealed(self, frame: DataFrame) -> DataFrame:
        """Rows of sealed micro-batches, with what those took and closed, if that is covered."""
        names = ["generation", "micro_batch", "low_seq$", "high_seq$", "low$", "high$", "new$"]
        scope, by = self.scope, ["generation", "micro_batch"]
        rows = [(*astuple(s), n) for n, some in enumerate((scope.again, scope.spans)) for s in some]
        spans = F.broadcast(self.frames.of(names, rows))
        if scope.whole:
            return frame.join(spans, by)
        lasts = [(last.generation, last.micro_batch) for last in self.at.lasts]
        sealed = F.broadcast(self.frames.of(["generation", "sealed$"], lasts))
        known = frame.join(spans, by, "left").join(sealed, "generation")
        return known.where(F.col("micro_batch") <= F.col("sealed$"))

    def _answers(self) -> DataFrame:
        """All rows of the epoch: ``known`` ones the position has, ``ok`` ones could be written."""
        spec, at = self.tables.answers(self.step), self.at
        rows = self.frames.load(spec, Spans("window_start", self.scope.reach()))
        rows = rows.where(inside("window_start", self.scope))
        end = F.unix_micros("window_end")
        fits = end - F.unix_micros("window_start") == F.lit(self.step.window.size)
        through, revision = F.col("through_seq"), F.col("revision")
        speed = self._sealed(rows.where(F.col("reason") == SPEED))
        speed = speed.withColumn("ok$", self._timely_fits(fits))
        former = F.col("low$").isNull() & changed(end, self.scope)  # compared with its micro-batch
        ok = F.when(former, fits & (revision == 0)).otherwise(F.col("ok$"))
        speed = speed.withColumn("ok$", ok)
        plans, history = self._plans(), F.col("reason") == BACKFILL
        carried = history & F.col("plan").isin(sorted(self.done))
        mine = (F.col("reason") != SPEED) & (F.col("epoch") == at.epoch.number)
        other = rows.where(mine | carried)
        other = other.join(F.broadcast(plans), "plan", "left")
        other = other.withColumn("ok$", self._repair_fits(fits))
        finished = F.col("plan").isin(sorted(self.done))
        names = [*self.by, *(v.name for v in self.step.values), "n_records", "revision",
                 "reason", "through_seq", "plan", "published_at"]  # fmt: skip
        ok = F.coalesce("ok$", F.lit(False)).alias("ok$")
        none = F.lit(None).cast("long")
        return speed.select(
            *names,
            F.lit(True).alias("known$"),
            ok,
            none.alias("planned$"),
            none.alias("done$"),
            F.coalesce("new$", F.lit(0)).alias("new$"),
        ).unionByName(
            other.select(
                *names,
                ((through <= at.sealed.seq) & finished).alias("known$"),
                ok,
                "planned$",
                "done$",
                F.lit(0).alias("new$"),
            )
        )

    def _timely_fits(self, fits: Column) -> Column:
        """Whether the micro-batch that a timely answer names could write it."""
        taken = F.col("through_seq").between(F.col("low_seq$"), F.col("high_seq$"))
        return fits & (F.col("revision") == 0) & taken & self._answered_then()

    def _answered_then(self) -> Column:
        """Whether its window closed in that micro-batch."""
        end = F.unix_micros("window_end")
        return (end > F.col("low$")) & (end <= F.col("high$"))

    def _repair_fits(self, fits: Column) -> Column:
        """Whether the plan that an answer names could write it."""
        history, revision = F.col("reason") == BACKFILL, F.col("revision")
        return (
            fits
            & (F.when(history, 1).otherwise(0) == F.col("p_history$"))
            & (F.col("through_seq") == F.col("p_through$"))
            & self._meant()
            & F.when(history, revision == 0).otherwise(revision > 0)
        )

    def _meant(self) -> Column:
        """Whether that plan means its window."""
        start, end = F.unix_micros("window_start"), F.unix_micros("window_end")
        within = start.between(F.col("p_from$"), F.col("p_to$") - 1)
        return (end <= F.col("p_watermark$")) & within

    def _plans(self) -> DataFrame:
        """Plans as they are after the answers were read: none of those is newer."""
        at, spec = self.at, self.tables.answers(self.step)
        if self.scope.whole:
            found = read_plans(self.tables, self.step)
        else:
            within = Spans("window_start", self.scope.reach())
            named = read_table(Table(spec), ["plan"], pc.field("plan").is_valid(), within)["plan"]
            found = read_plans(self.tables, self.step, pc.field("plan").isin(named.unique()))
            self.done = at.done & {*named.to_pylist()}
        plans = Plans([r for r in found if r["epoch"] == at.epoch.number or r["plan"] in at.done])
        rows = []
        for number, plan in plans.planned.items():
            done = plans.done.get(number)
            low, high = plan["window_from_us"], plan["window_to_us"]
            rows.append(
                (number, int(plan["reason"] == BACKFILL), plan["through_seq"], plan["watermark_us"],
                 BEGINNING if low is None else low, FOREVER if high is None else high,
                 micros(plan["recorded_at"]),
                 FOREVER if done is None else micros(done["recorded_at"]))
            )  # fmt: skip
        names = ["plan", "p_history$", "p_through$", "p_watermark$", "p_from$", "p_to$",
                 "planned$", "done$"]  # fmt: skip
        return self.frames.of(names, rows)

    def _late(self) -> DataFrame:
        rows = self.frames.load(
            self.tables.late(self.step, []), Spans("window_start", self.scope.reach())
        )
        return self._sealed(rows.where(inside("window_start", self.scope)))

    def _in_force(self) -> DataFrame:
        """One row per window and key: the answer in force, and what there is besides it.

        Most have one row, and need no lists: to make those takes longer than all the rest.
        """
        every = F.count(F.lit(1)).over(Window.partitionBy(*self.by))
        rows = self._answers().withColumn("rows$", every)
        one, several = rows.where(F.col("rows$") == 1), rows.where(F.col("rows$") > 1)
        found = self._of_one(one).unionByName(self._of_several(several))
        # One that no reader sees stays if it is forged: nobody could have written it.
        return found.where(F.col("found$") | ~F.col("ok$")).drop("ok$")

    def _of_one(self, rows: DataFrame) -> DataFrame:
        """As ``_of_several``, where there is nothing beside a row."""
        known, reason, through = F.col("known$"), F.col("reason"), F.col("through_seq")
        timely, counted = known & (reason == SPEED), F.col("n_records")
        counts = known & (reason != SPEED) if self.sheds else known
        doubled = ((reason != SPEED) & F.col("plan").isNull()) | (counts & through.isNull())
        shown = [F.when(known, F.col(v.name)).alias(f"found${v.name}") for v in self.step.values]
        return rows.select(
            *self.by,
            *shown,
            F.when(known, counted).alias("found$n_records"),
            known.alias("found$"),
            F.when(known & (reason != SPEED), through).alias("repaired$"),
            F.when(timely, counted).alias("on_time$"),
            F.when(timely & (F.col("new$") > 0), counted).alias("on_time_new$"),
            F.when(timely, F.col("published_at")).alias("told$"),
            F.when(known & (reason == BACKFILL), counted).alias("preloaded$"),
            doubled.alias("doubled$"),
            (~F.col("ok$") | ~counts_up(F.array("revision"))).alias("forged$"),
            "ok$",
        )

    def _of_several(self, rows: DataFrame) -> DataFrame:
        """The newest of some rows, and whether they go together."""
        step = self.step
        known, reason, through = F.col("known$"), F.col("reason"), F.col("through_seq")
        content = F.struct(*(F.col(v.name) for v in step.values), "n_records", "revision")
        timely = known & (reason == SPEED)
        told = F.when(known & (reason == BACKFILL), F.struct(through, "n_records"))
        shown = F.struct(*(F.col(v.name) for v in step.values), "n_records")
        counts = known & (reason != SPEED) if self.sheds else known  # closed and corrected at once
        says = F.when(counts, F.struct("through_seq", shown.alias("content")))
        newest = F.when(known, F.struct("through_seq", "revision"))
        corrected = F.struct(
            "revision", F.col("planned$").alias("planned"), F.col("done$").alias("done")
        )
        grouped = rows.groupBy(*self.by).agg(
            F.max_by(content, newest).alias("c$"),
            F.max(F.when(known & (reason != SPEED), through)).alias("repaired$"),
            F.sum(F.when(timely, F.col("n_records"))).alias("on_time$"),
            F.max(F.when(timely, F.col("published_at"))).alias("told$"),
            F.sum(F.when(timely & (F.col("new$") > 0), F.col("n_records"))).alias("on_time_new$"),
            F.collect_list(told).alias("histories$"),
            F.count(F.when(timely, 1)).alias("timely$"),
            F.count(F.when(reason != SPEED, 1)).alias("corrections$"),
            F.count_distinct(F.when(reason != SPEED, F.col("plan"))).alias("plans$"),
            F.collect_set(says).alias("says$"),
            F.collect_set(F.when(counts, through)).alias("prefixes$"),
            F.collect_set("revision").alias("revisions$"),
            F.collect_list(F.when(reason == LATE, corrected)).alias("rows$"),
            F.bool_and("ok$").alias("ok$"),
            F.bool_or("known$").alias("found$"),
        )  # fmt: skip
        doubled = (
            (F.col("timely$") > 1)
            | (F.col("corrections$") > F.col("plans$"))
            | (F.size("says$") > F.size("prefixes$"))
        )
        found = [F.col(f"c$.{v.name}").alias(f"found${v.name}") for v in step.values]
        return grouped.select(
            *self.by,
            *found,
            F.col("c$.n_records").alias("found$n_records"),
            "found$",
            "repaired$",
            "on_time$",
            "on_time_new$",
            "told$",
            of_the_last("histories$").alias("preloaded$"),
            doubled.alias("doubled$"),
            (~F.col("ok$") | ~counts_up(F.col("revisions$")) | shared("rows$")).alias("forged$"),
            "ok$",
        )

    def rows(self) -> DataFrame:
        """Truth beside the answer in force, with what still waits and what is wrong."""
        step, at, came = self.step, self.at, F.col("new$") > 0
        shed = F.col("reason") == SHED
        waiting = (
            self._late()
            .groupBy(*self.by)
            .agg(
                F.max("last_seq").alias("last_seq$"),
                F.min("published_at").alias("waits_since$"),
                F.sum("n_records").alias("late$"),
                F.sum(F.when(came, F.col("n_records"))).alias("late_new$"),
                F.max(F.when(came, F.col("last_seq"))).alias("last_new$"),
                F.sum(F.when(shed, F.col("n_records"))).alias("shed$"),
                F.sum(F.when(shed & came, F.col("n_records"))).alias("shed_new$"),
            )
        )
        truth = self._truth()
        both = truth.join(self._in_force(), self.by, "full_outer")
        both = both.join(waiting, self.by, "full_outer")
        end = F.col("window_start") + F.expr(f"INTERVAL {step.window.size} MICROSECOND")
        closed = F.unix_micros(end) <= F.lit(self.scope.watermark)
        taken = F.greatest(F.coalesce("repaired$", F.lit(-1)), F.lit(self.finished.settled))
        was_open = F.unix_micros(end) > F.lit(self.finished.settled_us)
        kept_back = (F.col("shed$") > 0) & was_open & F.col("repaired$").isNull()
        kept_back = F.coalesce(kept_back, F.lit(False))
        pending = closed & (F.coalesce(F.col("last_seq$") > taken, F.lit(False)) | kept_back)
        pending |= closed & self._waits_above()
        waits, since = self.history_waits, F.col("waits_since$")
        since = F.when(kept_back, F.greatest(since, "told$")).otherwise(since)
        if waits:  # it is owed from the start on
            before = F.unix_micros(end) <= F.lit(at.epoch.state.watermark)
            owed = before & F.col("found$").isNull()
            started = F.timestamp_micros(F.lit(micros(at.epoch.started)))
            pending, since = pending | owed, F.least(since, F.when(owed, started))
        alike = reduce(lambda a, b: a & b, map(truth_of(step).same, step.values), F.lit(True))
        alike = alike & (F.col("n_records") == F.col("found$n_records"))
        none = F.lit(0)
        must_late, must_preloaded = (F.coalesce(n, none) for n in ("must_late$", "must_preloaded$"))
        mine = changed(F.unix_micros(end), self.scope)
        missed = F.when(mine, F.coalesce("late$", none)).otherwise(must_late)
        must_on_time = F.coalesce("pairs$", none) - missed - must_preloaded
        timely = F.coalesce("on_time$", none) != F.when(closed, must_on_time).otherwise(none)
        if not waits:
            timely = timely | (F.coalesce("preloaded$", none) != must_preloaded)
        late_found = F.when(mine, F.col("late_new$")).otherwise(F.col("late$"))
        last_found = F.when(mine, F.col("last_new$")).otherwise(F.col("last_seq$"))
        late = (F.coalesce(late_found, none) != must_late) | ~last_found.eqNullSafe(
            F.col("must_last_seq$")
        )
        shed_found = F.coalesce(F.when(mine, F.col("shed_new$")).otherwise(F.col("shed$")), none)
        late |= shed_found != F.coalesce("must_shed$", none)
        return (
            both.withColumn("closed$", closed)
            .withColumn("reached$", closed & F.col("last_seq$").isNotNull())
            .withColumn("excluded$", none)
            .withColumn("exclusion_wrong$", F.lit(False))
            .withColumn("pending$", pending)
            .withColumn("waits_since$", since)
            .withColumn("same$", F.coalesce(alike, F.lit(False)))
            .withColumn("timely_wrong$", timely)
            .withColumn("late_wrong$", late)
            .withColumn("faults$", faults())
        )

    def _waits_above(self) -> Column:
        """Whether what an answer is made of waits for a correction."""
        return F.lit(False)

    def _truth(self) -> DataFrame:
        """What every window and key must answer."""
        step, at = self.step, self.at
        return recomputed(self._found(), step, at.epoch.seq, self.scope)

    def _found(self) -> DataFrame:
        """The step's records."""
        return records(self.frames, self.tables, self.types, self.step, self.at, self.scope)

    @property
    def history_waits(self) -> bool:
        """Whether the windows from before the epoch still wait for their first answers."""
        at, plans = self.at, self.finished
        if not self.scope.whole or self.scope.seq >= 0:  # where it does, there is no footing
            return False
        if at.epoch.seq < 0 or at.epoch.state.watermark == BEGINNING:
            return False
        done = plans.done.keys()
        return not any(p["reason"] == BACKFILL and n in done for n, p in plans.planned.items())
