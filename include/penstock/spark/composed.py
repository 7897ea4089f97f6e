"""The truth of a step over answers: composed from the events, not from what was answered.

What a step above must have answered is recomputed from its own records, up to the position at which
the log of its answers knows it, and so on up to the events: plain Spark SQL over plain Spark SQL.
Windows in which some step above waits for a correction are not compared: their answer is pending.
"""

from collections.abc import Sequence

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
from penstock.spark.frames import Frames
from penstock.spark.scoped import inside
from penstock.spark.truth import in_windows, records, truth_of

WAITS = "above$"
"""Whether something waits for a correction of which a record, or an answer, is made."""


class OverComparison(Comparison):
    """Of a step over the answers of another one."""

    def _truth(self) -> DataFrame:
        """As of any step: what is counted, of its log; values, of what that must hold."""
        assert isinstance(self.pipeline, OverAnswers)  # noqa: S101
        runs, by = self.scope.reach(), ["window_start", *self.step.key_names]
        made_of = self._made_of(self.pipeline, self.tables, self.at, runs)
        if self.step.where is not None:
            made_of = made_of.where(F.expr(to_sql(self.step.where)))
        exact = _answered(made_of, self.step).where(inside("window_start", self.scope))
        return super()._truth().join(exact, by, "full_outer")

    def _waits_above(self) -> Column:
        return F.coalesce(WAITS, F.lit(False))

    def _made_of(
        self, pipeline: OverAnswers, tables: Tables, at: Position, runs: Sequence[Run]
    ) -> DataFrame:
        """What the records of some windows must be: event time, columns, ``WAITS``.

        Args:
            pipeline: whose.
            tables: its tables.
            at: position of a step of its.
            runs: first and last starts of the windows, us.
        """
        above, source = pipeline.over, Tables(tables.lake, pipeline.other.log)
        there = as_taken(source, above, taken_at(tables, at.sealed.block))
        size, own = self.step.window.size, above.window.size
        wider = [(first - own + 1, last + size) for first, last in runs]
        found = _answered(self._records(pipeline.other, source, above, there, wider), above)
        closed = F.unix_micros("window_start") + F.lit(own) <= F.lit(there.sealed.state.watermark)
        found = _waiting(self.frames, found.where(closed), source, above, there)
        last = F.timestamp_micros(F.unix_micros("window_start") + F.lit(own - 1))
        return found.withColumn("event_time", last).select("event_time", *pipeline.types, WAITS)

    def _records(
        self, pipeline: Pipeline, tables: Tables, step: StepSpec, at: Position, runs: Sequence[Run]
    ) -> DataFrame:
        """What a step above reads, of some of its windows."""
        if isinstance(pipeline, OverAnswers):
            found = self._made_of(pipeline, tables, at, runs)
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
