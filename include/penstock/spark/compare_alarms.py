"""The truth of a step whose answers hang on all records of their key, beside what it answered."""

from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.core.window import micros
from penstock.lake.history.position import SHED
from penstock.lake.history.view import excluded_at, excluded_since
from penstock.spark.compare import Comparison
from penstock.spark.faults import faults
from penstock.spark.scoped import inside
from penstock.spark.sides import sides_of
from penstock.spark.truth import truth_of

LATE = ("late", "must_late", "must_last_seq", "last_seq", "must_exclude")
COUNTED = ("new", "on_time_new", "late_new", "shed_new", "preloaded", "excluded")
"""Columns that rows of other comparisons count; no alarm does."""


class AlarmComparison(Comparison):
    """One row an alarm; besides, one a window and key with late records, and one of all records.

    The last two are not answers: they are never closed.
    """

    def _answered_then(self) -> Column:
        """Its later record is one of the micro-batch's; a span may also end without one."""
        return F.lit(self.step.by_span) | (F.col("through_seq") > F.col("low_seq$"))

    def _meant(self) -> Column:
        """Always: a plan takes back alarms wherever they stand."""
        return F.lit(True)

    def rows(self) -> DataFrame:
        """What stands beside what must, with what still waits and what is wrong."""
        step, at, keep = self.step, self.at, self.frames.keep
        found = self.found
        given, fails = self._alarms_of(found)
        given = given.where(inside("window_start", self.scope))
        every = self._every(given)
        must, late = truth_of(step).told(found, given, step, at.epoch.seq, self.sides, keep)
        return (
            self._alarms(every, must)
            .unionByName(self._late_records(late), allowMissingColumns=True)
            .unionByName(self._all(found), allowMissingColumns=True)
            .unionByName(self._left_out(found, fails), allowMissingColumns=True)
            .withColumn("faults$", faults())
        )

    def _alarms_of(self, found: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        """All alarms of some records, and those of them that the step must leave out."""
        at, keep, sides = self.at, self.frames.keep, self.sides
        marks, ends = self.scope.marks, (at.epoch.seq, at.sealed.seq)
        return truth_of(self.step).alarms(found, self.step, sides, keep, marks, ends)

    @cached_property
    def found(self) -> DataFrame:
        """Its records, held in memory."""
        return self.frames.keep(self._found())

    @cached_property
    def sides(self) -> dict[str, DataFrame]:
        """Its side data."""
        return sides_of(self.frames, self.tables, self.step)

    def _every(self, given: DataFrame) -> DataFrame:
        """All alarms that there must be; ``given``: of the records that were found."""
        return given

    def _with_waits(self, both: DataFrame) -> DataFrame:
        """Alarms with whether what they are made of waits for a correction (``above$``)."""
        return both.withColumn("above$", F.lit(False))

    def _late(self) -> DataFrame:
        """Of all records that are kept: to be late is not a matter of windows."""
        return self._sealed(self.frames.load(self.tables.late(self.step, [])))

    def _alarms(self, truth: DataFrame, must: DataFrame) -> DataFrame:
        step, at = self.step, self.at
        both = truth.join(self._in_force(), self.by, "full_outer")
        both = both.join(must.withColumn("must$", F.lit(True)), self.by, "full_outer")
        settled, least = self.finished.settled, step.open_after(self.finished.settled_us)
        new = F.col("last_seq") > F.lit(settled)
        near = (F.col("reason") == SHED) & (F.unix_micros("window_end") > F.lit(least))
        waits = self._late().where(new | near).groupBy(*step.key_names)
        waits = waits.agg(
            F.min(F.when(new, F.col("published_at"))).alias("waits_since$"),
            F.bool_or(near).alias("shed_near$"),
        )
        keys = [*step.key_names]
        both = both.join(waits, keys, "left") if keys else both.crossJoin(waits)
        both = self._with_waits(both)
        pending, since = F.col("waits_since$").isNotNull(), F.col("waits_since$")
        pending |= F.col("above$")
        if step.withholds:
            newer = reduce(F.greatest, map(F.col, step.told_by)) > F.lit(settled)
            pending |= F.coalesce(F.col("shed_near$"), F.lit(False)) & newer
        if self.history_waits:
            made = reduce(F.greatest, map(F.col, step.told_by))
            owed = (made <= F.lit(at.epoch.seq)) & F.col("found$").isNull()
            started = F.timestamp_micros(F.lit(micros(at.epoch.started)))
            pending, since = pending | owed, F.least(since, F.when(owed, started))
        alike = reduce(lambda a, b: a & b, map(truth_of(step).same, step.values), F.lit(True))
        alike &= F.col("n_records") == F.col("found$n_records")
        there = F.coalesce(F.col("found$n_records") > 0, F.lit(False))
        shown = there & (F.col("n_records").isNotNull() | ~pending)
        timely = F.col("must$").isNotNull() != F.col("on_time$").isNotNull()
        return both.select(
            *self.by,
            *(v.name for v in step.values),
            "n_records",
            *(f"found${v.name}" for v in step.values),
            "found$n_records",
            "on_time$",
            F.coalesce("doubled$", F.lit(False)).alias("doubled$"),
            F.coalesce("forged$", F.lit(False)).alias("forged$"),
            (F.col("n_records").isNotNull() | shown).alias("closed$"),
            pending.alias("pending$"),
            since.alias("waits_since$"),
            shown.alias("found$"),
            F.coalesce(alike, F.lit(False)).alias("same$"),
            timely.alias("timely_wrong$"),
            *(F.lit(False).alias(n) for n in ("late_wrong$", "exclusion_wrong$", "reached$")),
            *(F.lit(None).cast("long").alias(f"{n}$") for n in LATE),
            *(F.lit(0).cast("long").alias(f"{n}$") for n in COUNTED),
        )

    def _late_records(self, must: DataFrame) -> DataFrame:
        """Late records by window and key, as they stand and as they must."""
        by = ["window_start", *self.step.key_names]
        stand = self._late().groupBy(*by).agg(
            F.sum("n_records").alias("late$"), F.max("last_seq").alias("stands$"),
            F.sum(F.when(F.col("reason") == SHED, F.col("n_records"))).alias("sheds$"),
        )  # fmt: skip
        shed = F.col("shed$") if self.step.withholds else F.lit(False)
        must = must.groupBy(*by).agg(
            F.count(F.lit(1)).alias("must_late$"), F.max("arrival_seq").alias("must_last_seq$"),
            F.sum(F.when(shed, 1)).alias("must_shed$"),
        )  # fmt: skip
        both = must.join(stand, by, "full_outer")
        wrong = ~F.col("late$").eqNullSafe(F.col("must_late$")) | ~F.col("stands$").eqNullSafe(
            F.col("must_last_seq$")
        )
        wrong |= ~F.col("sheds$").eqNullSafe(F.col("must_shed$"))
        counted = [
            F.coalesce(f"{said}$", F.lit(0)).alias(f"{name}_new$")
            for said, name in (("late", "late"), ("sheds", "shed"))
        ]
        names = [*by, "late$", "must_late$", "must_last_seq$"]
        return _no_answers(both.select(*names, *counted, wrong.alias("late_wrong$")))

    def _left_out(self, found: DataFrame, fails: DataFrame | None) -> DataFrame:
        """Records that are left out and need not be, or the other way round."""
        listed = excluded_at(self.tables, self.step, self.at)["arrival_seq"]
        stand = self.frames.of(["arrival_seq"], [(seq,) for seq in listed.to_pylist()])
        if fails is None or not self.at.lasts:  # the stream writes them down, of a history too
            fails = found.select("arrival_seq").where(F.lit(False))
        must = fails.distinct().withColumn("must$", F.lit(True))
        both = stand.withColumn("stands$", F.lit(True)).join(must, "arrival_seq", "full_outer")
        wrong = F.col("must$").isNull() | F.col("stands$").isNull()
        when = found.select("arrival_seq", F.col("event_time").alias("window_start"))
        rows = both.where(wrong).join(when, "arrival_seq", "left")
        named = F.col("must$").isNotNull().cast("long").alias("must_exclude$")
        rows = rows.select("window_start", "arrival_seq", named)
        return _no_answers(rows.withColumn("exclusion_wrong$", F.lit(True)))

    def _all(self, found: DataFrame) -> DataFrame:
        """How many records there are, and how many were answered."""
        history = F.count(F.when(F.col("arrival_seq") <= F.lit(self.at.epoch.seq), 1))
        preloaded = F.lit(0) if self.history_waits else history
        answered = sum(last.answered for last in self.at.lasts)
        row = found.agg(
            F.count(F.lit(1)).alias("new$"),
            F.lit(answered).cast("long").alias("on_time_new$"),
            preloaded.cast("long").alias("preloaded$"),
            F.lit(excluded_since(self.tables, self.step, self.at).num_rows).alias("excluded$"),
        )
        return _no_answers(row.withColumn("late_wrong$", F.lit(False)))


def _no_answers(rows: DataFrame) -> DataFrame:
    named = ("closed$", "pending$", "found$", "same$", "timely_wrong$", "doubled$", "forged$",
             "reached$")  # fmt: skip
    for name in named:
        rows = rows.withColumn(name, F.lit(False))
    return rows
