"""The truth of a step over answers: composed from the events, not from what was answered.

What a step above must have answered is recomputed from its own records, up to the position at which
the log of its answers knows it, and so on up to the events: plain Spark SQL over plain Spark SQL.
Windows in which some step above waits for a correction are not compared: their answer is pending.
"""

from collections.abc import Sequence
from functools import cached_property, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.config.answers import OverAnswers
from penstock.config.pipeline import Pipeline
from penstock.core.expression import to_sql
from penstock.core.step import StepSpec
from penstock.lake.history.correction import pending
from penstock.lake.history.position import Position
from penstock.lake.over.taken import as_taken, taken_at
from penstock.lake.proof.scope import Run, Scope
from penstock.lake.storage.tables import Tables
from penstock.spark.compare import Comparison
from penstock.spark.compare_alarms import AlarmComparison
from penstock.spark.frames import Frames
from penstock.spark.scoped import inside
from penstock.spark.truth import in_windows, records, truth_of

WHICH = "arrival_seq"
WAITS = "above$"
"""Whether something waits for a correction of which a record, or an answer, is made."""


class OverComparison(Comparison):
    """Of a step over the answers of another one."""

    def _truth(self) -> DataFrame:
        """As of any step: what is counted, of its log; values, of what that must hold."""
        by, made_of = ["window_start", *self.step.key_names], composed(self)
        if WHICH in {value.name for value in self.step.values}:
            made_of = numbered(made_of, self._found(), self.step)
        exact = _answered(made_of, self.step).where(inside("window_start", self.scope))
        return super()._truth().join(exact, by, "full_outer")

    def _waits_above(self) -> Column:
        return F.coalesce(WAITS, F.lit(False))


class OverAlarms(AlarmComparison):
    """Of a step that compares answers of another one with each other."""

    @cached_property
    def exact(self) -> DataFrame:
        """What the log must hold; records are known by where it has the newest of each."""
        exact = composed(self)
        for column in self.step.required:
            exact = exact.where(F.col(column.name).isNotNull())
        return self.frames.keep(numbered(exact, self.found, self.step))

    def _every(self, given: DataFrame) -> DataFrame:
        """Of what the log must hold."""
        del given
        return self._alarms_of(self.exact.withColumn("shed$", F.lit(False)))[0]

    def _with_waits(self, both: DataFrame) -> DataFrame:
        """Where something waits between the two records, or one of them does."""
        keys = [*self.step.key_names]
        times = [F.unix_micros(F.coalesce(name, f"found${name}")) for name in self.step.made_at]
        low, high = F.least(*times), F.greatest(*times)
        at = F.collect_list(F.unix_micros("event_time")).alias(WAITS)
        waiting = self.exact.where(F.col(WAITS)).groupBy(*keys).agg(at)
        both = both.join(waiting, keys, "left") if keys else both.crossJoin(waiting)
        waits = F.exists(WAITS, lambda at: at.between(low, high))
        return both.withColumn(WAITS, F.coalesce(waits, F.lit(False)))


def numbered(made_of: DataFrame, found: DataFrame, step: StepSpec) -> DataFrame:
    """Records as they must be, with ``arrival_seq``; below 0: the log has none of that answer.

    Args:
        made_of: the records.
        found: those of the log.
        step: that takes them.
    """
    assert step.above is not None  # noqa: S101
    known = ["event_time", *step.above.keys]
    newest = found.groupBy(*known).agg(F.max(WHICH).alias("newest$"))
    newest = newest.select("newest$", *(F.col(name).alias(f"{name}$") for name in known))
    same = (F.col(name).eqNullSafe(F.col(f"{name}$")) for name in known)
    both = made_of.join(newest, reduce(lambda a, b: a & b, same), "left")
    nowhere = F.lit(-1) - F.monotonically_increasing_id()
    both = both.withColumn(WHICH, F.coalesce("newest$", nowhere))
    return both.drop("newest$", *(f"{name}$" for name in known))


def composed(one: Comparison) -> DataFrame:
    """What the records of a compared step must be: event time, columns, ``WAITS``."""
    runs = one.scope.reach()
    return _Composed(one.frames).records(one.pipeline, one.tables, one.step, one.at, runs)


class _Composed:
    """Goes from a step's records up to the events that they are made of."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames

    def _made_of(
        self, pipeline: OverAnswers, tables: Tables, size: int, at: Position, runs: Sequence[Run]
    ) -> DataFrame:
        """What the records of some windows must be: event time, columns, ``WAITS``.

        Args:
            pipeline: whose.
            tables: its tables.
            size: of the windows, us.
            at: position of a step of its.
            runs: first and last starts of the windows, us.
        """
        above, source = pipeline.over, Tables(tables.lake, pipeline.other.log)
        there = as_taken(source, above, taken_at(tables, at.sealed.block))
        own = above.window.size
        wider = [(first - own + 1, last + size) for first, last in runs]
        found = _answered(self.records(pipeline.other, source, above, there, wider), above)
        closed = F.unix_micros("window_start") + F.lit(own) <= F.lit(there.sealed.state.watermark)
        found = _waiting(self.frames, found.where(closed), source, above, there)
        last = F.timestamp_micros(F.unix_micros("window_start") + F.lit(own - 1))
        return found.withColumn("event_time", last).select("event_time", *pipeline.types, WAITS)

    def records(
        self, pipeline: Pipeline, tables: Tables, step: StepSpec, at: Position, runs: Sequence[Run]
    ) -> DataFrame:
        """What a step reads, of some of its windows."""
        if isinstance(pipeline, OverAnswers):
            found = self._made_of(pipeline, tables, step.window.size, at, runs)
            return found if step.where is None else found.where(F.expr(to_sql(step.where)))
        scope = Scope([(0, 0)], at.sealed.state.watermark, [], [], starts=tuple(runs))
        found = records(self.frames, tables, pipeline.types, step, at, scope)
        return found.withColumn(WAITS, F.lit(False))


def _answered(made_of: DataFrame, step: StepSpec) -> DataFrame:
    """What a step must answer of some records, by ``window_start`` and keys."""
    values = [F.count(F.lit(1)).alias("n_records"), *truth_of(step).values(step)]
    found = in_windows(made_of, step).groupBy("w$", *step.key_names)
    found = found.agg(*values, F.bool_or(WAITS).alias(WAITS))
    names = [name for name in found.columns if name != "w$"]
    return found.select(F.col("w$.start").alias("window_start"), *names)


def _waiting(
    frames: Frames, answers: DataFrame, tables: Tables, step: StepSpec, at: Position
) -> DataFrame:
    """With what waits for a correction of the step itself, too."""
    waits = pending(tables, step, at)
    if not waits.num_rows:
        return answers
    by = ["window_start", *step.key_names]
    own = frames.spark.createDataFrame(waits.select(by)).withColumn("own$", F.lit(True))
    both = answers.join(F.broadcast(own), by, "left")
    return both.withColumn(WAITS, F.col(WAITS) | F.coalesce("own$", F.lit(False))).drop("own$")
