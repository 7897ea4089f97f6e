"""The audit's recomputation: plain Spark SQL over ``events``, apart from everything above.

It shares no aggregation, no pane and no watermark with the speed layer: Spark's own ``window``
assigns records, Spark's own aggregates answer. Its result is the small table of comparisons
that ``penstock.quality`` judges.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from croniter import croniter
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.expression import MeasureSpec, to_sql
from penstock.core.measure import ColumnType, Function
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, EPOCH, instant, micros
from penstock.lake.commit import Table
from penstock.lake.correction import plans
from penstock.lake.tables import Tables
from penstock.lake.view import BACKFILL, SPEED, Position, position

TOLERANCE = 1e-9
"""Of sum|x|, for sums and averages of doubles: what an outside comparison allows."""
EXAMPLES = 20
INTERVALS = 2
"""A window may wait for so many correction intervals."""
WRONG, MISSING, EXTRA = "wrong answer", "missing answer", "extra answer"


@dataclass(frozen=True, slots=True)
class Door:
    """What the door's numbers say up to a position."""

    received: int
    accepted: int
    quarantined: int
    numbers_missing: int
    numbers_doubled: int


class Audit:
    """Recomputes every step of a pipeline at its newest sealed position."""

    def __init__(
        self, spark: SparkSession, tables: Tables, pipeline: Pipeline, clock: Clock
    ) -> None:
        self.spark, self.tables, self.pipeline, self.clock = spark, tables, pipeline, clock
        self._doors: dict[int, Door] = {}

    def comparisons(self, interval: timedelta) -> list[dict[str, Any]]:
        """One row a step; a step that sealed nothing yet has none.

        Args:
            interval: between two scheduled corrections.
        """
        rows = []
        for step in self.pipeline.specs:
            at = position(self.tables, step)
            if at is not None:
                rows.append(self._step(step, at, interval))
        return rows

    def _load(self, uri: str) -> DataFrame:
        return self.spark.read.format("delta").load(uri)

    def _step(self, step: StepSpec, at: Position, interval: timedelta) -> dict[str, Any]:
        through = at.sealed.seq
        door = self._door(through)
        truth = recomputed(self._events(step, through), step)
        both = self._compared(step, truth, at).cache()
        figures = both.agg(*_figures(self._overdue(interval))).collect()[0].asDict()
        out = {
            "step": step.name,
            "through_seq": through,
            "received": door.received,
            "accepted": door.accepted,
            "quarantined": door.quarantined,
            "numbers_missing": door.numbers_missing,
            "numbers_doubled": door.numbers_doubled,
            "pairs_open": at.sealed.open_pairs,
            "pairs_excluded": 0,
            **{name: int(value or 0) for name, value in figures.items()},
        }
        if self._history_waits(step, at):  # its answers are pending, so is their count
            others = sum(out[f"pairs_{n}"] for n in ("on_time", "late", "open"))
            out["pairs_preloaded"] = max(0, out["pairs_events"] - others)
        accounted = ("on_time", "late", "open", "preloaded", "excluded")
        out["pairs_unaccounted"] = out["pairs_events"] - sum(out[f"pairs_{n}"] for n in accounted)
        bad = sum(out[n] for n in ("wrong_answers", "missing_answers", "extra_answers"))
        out["examples"] = json.dumps(self._examples(step, both) if bad else [])
        both.unpersist()
        return out

    def _door(self, through: int) -> Door:
        """Every number up to a position must stand exactly once in events or quarantine."""
        if through not in self._doors:
            self._doors[through] = self._counted(through)
        return self._doors[through]

    def _counted(self, through: int) -> Door:
        events = self._load(self.tables.uri("events")).select("arrival_seq")
        accepted = events.where(F.col("arrival_seq") <= through)
        seqs, refused = accepted, 0
        if Table(self.tables.quarantine()).exists():
            bad = self._load(self.tables.uri("quarantine")).select("arrival_seq")
            bad = bad.where(F.col("arrival_seq") <= through)
            refused = bad.count()
            seqs = accepted.unionByName(bad)
        seqs = seqs.where(F.col("arrival_seq") >= 0)
        buckets = seqs.groupBy(F.bitmap_bucket_number("arrival_seq").alias("bucket")).agg(
            F.bitmap_count(F.bitmap_construct_agg(F.bitmap_bit_position("arrival_seq"))).alias("d"),
            F.count(F.lit(1)).alias("n"),
        )
        row = buckets.agg(F.sum("d").alias("d"), F.sum("n").alias("n")).collect()[0]
        distinct, count = row["d"] or 0, row["n"] or 0
        return Door(count, count - refused, refused, through + 1 - distinct, count - distinct)

    def _events(self, step: StepSpec, through: int) -> DataFrame:
        events = self._load(self.tables.uri("events"))
        events = events.where(F.col("arrival_seq") <= through)
        types = {c.name: c.type for c in step.keys}
        for name in step.columns:
            if name not in events.columns:
                kind = types.get(name, self.pipeline.types[name])
                events = events.withColumn(name, F.lit(None).cast(SQL_TYPES[kind]))
        for key in step.key_names:  # declared later than the record came: it has no answer
            events = events.where(F.col(key).isNotNull())
        return events if step.where is None else events.where(F.expr(to_sql(step.where)))

    def _sealed(self, frame: DataFrame, at: Position) -> DataFrame:
        known = [(s.generation, s.micro_batch) for s in at.rows]
        schema = "generation bigint, micro_batch bigint"
        return frame.join(
            F.broadcast(self.spark.createDataFrame(known, schema)),
            ["generation", "micro_batch"],
            "left_semi",
        )

    def _answers(self, step: StepSpec, at: Position) -> DataFrame:
        spec = self.tables.answers(step)
        if not Table(spec).exists():
            return _empty(self.spark, step)
        rows = self._load(spec.uri)
        speed = self._sealed(rows.where(F.col("reason") == SPEED), at)
        other = rows.where(
            (F.col("reason") != SPEED)
            & (F.col("generation") == at.epoch.number)
            & (F.col("through_seq") <= at.sealed.seq)
        )
        return speed.unionByName(other)

    def _late(self, step: StepSpec, at: Position) -> DataFrame:
        spec = self.tables.late(step, [])
        if not Table(spec).exists():
            columns = ["window_start", *step.key_names]
            return (
                _empty(self.spark, step)
                .select(*columns, "n_records", "published_at")
                .withColumn("last_seq", F.lit(0).cast("long"))
            )
        return self._sealed(self._load(spec.uri), at)

    def _in_force(self, step: StepSpec, at: Position) -> DataFrame:
        """One row per window and key: the answer in force, and what there is besides it."""
        answers = self._answers(step, at)
        content = F.struct(*(F.col(m.name) for m in step.measures), "n_records", "revision")
        timely = F.col("reason") == SPEED
        history = (F.col("reason") == BACKFILL) & (F.col("through_seq") == at.epoch.seq)
        shown = F.struct(*(F.col(m.name) for m in step.measures), "n_records")
        says = F.struct("through_seq", shown.alias("content"))
        newest = F.struct("through_seq", "revision")
        grouped = answers.groupBy("window_start", *step.key_names).agg(
            F.max_by(content, newest).alias("c"),
            F.max(F.when(~timely, F.col("through_seq"))).alias("repaired"),
            F.sum(F.when(timely, F.col("n_records"))).alias("on_time"),
            F.sum(F.when(history, F.col("n_records"))).alias("preloaded"),
            F.count(F.when(timely, 1)).alias("timely"),
            (F.size(F.collect_set(says)) > F.size(F.collect_set("through_seq"))).alias(
                "contradicts"
            ),
        )
        measures = [F.col(f"c.{m.name}").alias(f"found_{m.name}") for m in step.measures]
        return grouped.select(
            "window_start",
            *step.key_names,
            *measures,
            F.col("c.n_records").alias("found_n_records"),
            F.lit(True).alias("found"),
            "repaired",
            "on_time",
            "preloaded",
            ((F.col("timely") > 1) | F.col("contradicts")).alias("doubled"),
        )

    def _compared(self, step: StepSpec, truth: DataFrame, at: Position) -> DataFrame:
        """Truth beside the answer in force, with what still waits for a correction."""
        by = ["window_start", *step.key_names]
        waiting = (
            self._late(step, at)
            .groupBy(*by)
            .agg(
                F.max("last_seq").alias("last_seq"),
                F.min("published_at").alias("waits_since"),
                F.sum("n_records").alias("late"),
            )
        )
        both = truth.join(self._in_force(step, at), by, "full_outer")
        both = both.join(waiting, by, "full_outer")
        end = F.col("window_start") + F.expr(f"INTERVAL {step.window.size} MICROSECOND")
        closed = F.unix_micros(end) <= F.lit(at.sealed.state.watermark)
        pending = F.coalesce(F.col("last_seq") > F.coalesce("repaired", F.lit(-1)), F.lit(False))
        if self._history_waits(step, at):
            before = F.unix_micros(end) <= F.lit(at.epoch.state.watermark)
            pending = pending | (before & F.col("found").isNull())
        same = F.lit(True)
        for measure in step.measures:
            same = same & _same(measure)
        same = same & (F.col("n_records") == F.col("found_n_records"))
        return (
            both.withColumn("closed", closed)
            .withColumn("pending", pending)
            .withColumn("same", F.coalesce(same, F.lit(False)))
        )

    def _history_waits(self, step: StepSpec, at: Position) -> bool:
        """Whether the windows from before the epoch still wait for their first answers."""
        if at.epoch.seq < 0 or at.epoch.state.watermark == BEGINNING:
            return False
        planned, done = plans(self.tables, step)
        return not any(p.reason == BACKFILL and p.number in done for p in planned)

    def _overdue(self, interval: timedelta) -> Column:
        limit = micros(self.clock.now()) - INTERVALS * micros(interval)
        return F.unix_micros("waits_since") < F.lit(limit)

    def _examples(self, step: StepSpec, both: DataFrame) -> list[dict[str, Any]]:
        names = [m.name for m in step.measures]
        rows = both.withColumn("what", _what()).where(F.col("what").isNotNull())
        out = []
        for row in rows.orderBy("window_start").limit(EXAMPLES).collect():
            cells = row.asDict()
            expected = {n: cells[n] for n in (*names, "n_records")}
            found = {n: cells[f"found_{n}"] for n in (*names, "n_records")}
            out.append(
                {
                    "window_start": instant(_micros_of(cells["window_start"])).isoformat(),
                    "key": {k: str(cells[k]) for k in step.key_names},
                    "what": cells["what"],
                    "expected": json.dumps(expected, default=str),
                    "found": json.dumps(found, default=str),
                }
            )
        return out


SQL_TYPES = {
    ColumnType.STRING: T.StringType(),
    ColumnType.LONG: T.LongType(),
    ColumnType.DOUBLE: T.DoubleType(),
    ColumnType.BOOLEAN: T.BooleanType(),
    ColumnType.TIMESTAMP: T.TimestampType(),
}


def recomputed(events: DataFrame, step: StepSpec) -> DataFrame:
    """Every window and key that has a record, with its measures, by Spark's own aggregates."""
    spec = step.window
    if spec.landmark:
        events = events.where(F.unix_micros("event_time") >= F.lit(spec.origin))
    start = f"{spec.origin % spec.slide} microseconds"
    span = F.window("event_time", f"{spec.size} microseconds", f"{spec.slide} microseconds", start)
    measures = [column for m in step.measures for column in _aggregates(m)]
    grouped = events.withColumn("w", span).groupBy("w", *step.key_names)
    found = grouped.agg(F.count(F.lit(1)).alias("n_records"), *measures)
    names = [c for c in found.columns if c not in {"w", *step.key_names}]
    return found.select(F.col("w.start").alias("window_start"), *step.key_names, *names)


def _aggregates(measure: MeasureSpec) -> list[Column]:
    if measure.over is None:
        return [F.count(F.lit(1)).alias(measure.name)]
    over = F.expr(to_sql(measure.over))
    if measure.over_type is ColumnType.LONG and measure.function is Function.SUM:
        return [F.sum(over.cast("decimal(38,0)")).cast("long").alias(measure.name)]
    functions = {
        Function.COUNT: F.count,
        Function.SUM: F.sum,
        Function.AVG: F.avg,
        Function.MIN: F.min,
        Function.MAX: F.max,
    }
    columns = [functions[measure.function](over).alias(measure.name)]
    if measure.type is ColumnType.DOUBLE and measure.function in {Function.SUM, Function.AVG}:
        size = functions[measure.function](F.abs(over.cast("double")))
        columns.append(size.alias(f"size_{measure.name}"))
    return columns


def _same(measure: MeasureSpec) -> Column:
    expected, found = F.col(measure.name), F.col(f"found_{measure.name}")
    equal = expected.eqNullSafe(found)
    if measure.type is ColumnType.DOUBLE and measure.function in {Function.SUM, Function.AVG}:
        near = F.abs(expected - found) <= F.col(f"size_{measure.name}") * F.lit(TOLERANCE)
        return equal | F.coalesce(near, F.lit(False))
    return equal


def _what() -> Column:
    """What is wrong with a compared row; null: nothing."""
    settled = F.col("closed") & ~F.col("pending")
    extra = F.col("n_records").isNull()
    missing = F.col("found").isNull()
    return (
        F.when(extra & F.col("found"), F.lit(EXTRA))
        .when(settled & missing, F.lit(MISSING))
        .when(settled & ~F.col("same"), F.lit(WRONG))
        .when(~F.col("closed") & F.col("found"), F.lit(EXTRA))
    )


def _figures(overdue: Column) -> list[Column]:
    what = _what()

    def count(condition: Column) -> Column:
        return F.count(F.when(condition, 1))

    return [
        F.sum("n_records").alias("pairs_events"),
        F.sum("on_time").alias("pairs_on_time"),
        F.sum("late").alias("pairs_late"),
        F.sum("preloaded").alias("pairs_preloaded"),
        count(F.col("doubled")).alias("doubled_answers"),
        count(F.col("closed") & ~F.col("pending")).alias("answers_compared"),
        count(what == WRONG).alias("wrong_answers"),
        count(what == MISSING).alias("missing_answers"),
        count(what == EXTRA).alias("extra_answers"),
        count(F.col("pending")).alias("pending_answers"),
        count(F.col("pending") & overdue).alias("overdue_answers"),
        count(F.col("last_seq").isNotNull() & ~F.col("pending") & F.col("found").isNull()).alias(
            "late_without_answer"
        ),
    ]


def _micros_of(value: Any) -> int:
    return micros(value.replace(tzinfo=UTC))


def _empty(spark: SparkSession, step: StepSpec) -> DataFrame:
    kinds = {k.name: SQL_TYPES[k.type] for k in step.keys}
    kinds |= {"window_start": T.TimestampType()}
    kinds |= {m.name: SQL_TYPES[m.type] for m in step.measures}
    kinds |= {"n_records": T.LongType(), "revision": T.LongType(), "reason": T.StringType()}
    kinds |= {"through_seq": T.LongType(), "published_at": T.TimestampType()}
    return spark.createDataFrame([], T.StructType([T.StructField(n, t) for n, t in kinds.items()]))


def correction_interval(pipeline: Pipeline) -> timedelta:
    """The longest time between two scheduled corrections, over the next few."""
    ticks = croniter(pipeline.correction.cron, EPOCH)
    times = [ticks.get_next(datetime) for _ in range(50)]
    return max(b - a for a, b in pairwise(times))
