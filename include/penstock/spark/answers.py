"""The answers in force as a DataFrame, for users of Spark.

The meaning is that of ``penstock.lake.history.view``: a timely answer counts only if ``control``
sealed its micro-batch, a corrected one only if its plan is finished, and of several for a window
and key the one that has seen most of the log is in force. After a step was defined anew it is the
former definition's until the new one has answered what that had. Who needs no Spark has the same
in two other forms:

- pandas: ``answers_in_force(tables, step).to_pandas()`` with the function of that name in
  ``penstock.lake.history.view``, which gives an Arrow table;
- DuckDB: ``penstock query PIPELINE "SELECT ..."``, or that Arrow table, by its name, in SQL.

docs/how-to/read-the-answers.md shows all three.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.core.step import StepSpec
from penstock.lake.history.position import BACKFILL, SPEED, Position
from penstock.lake.history.standing import standing
from penstock.lake.storage.tables import Tables


def answers_in_force(spark: SparkSession, tables: Tables, step: StepSpec) -> DataFrame:
    """One row per window and key, in the columns of ``answers``, as of the newest sealed position.

    Args:
        spark: a session that can read Delta.
        tables: of the pipeline.
        step: one of its steps.

    Returns:
        Lazy; empty as long as the step has sealed nothing. The position is chosen now: what is
        answered later does not come in.
    """
    found = standing(tables, step)
    if found is None:
        return spark.createDataFrame([], from_arrow_schema(tables.answers(step).schema))
    spec = tables.answers(found.step)
    by = ["window_start", *found.step.identity_names]
    rest = [name for name in spec.schema.names if name not in by]
    newest = F.max_by(F.struct(*rest), F.struct("through_seq", "revision"))
    return (
        _known(spark, spec.uri, found.at)
        .groupBy(*by)
        .agg(newest.alias("newest"))
        .select(*by, "newest.*")
        .where(F.col("n_records") > 0)  # others were taken back
        .select(*spec.schema.names)
    )


def _known(spark: SparkSession, uri: str, at: Position) -> DataFrame:
    """All answers that a position has."""
    rows = spark.read.format("delta").load(uri)
    sealed = F.lit(False)
    for last in at.lasts:
        is_own = F.col("generation") == last.generation
        sealed |= is_own & (F.col("micro_batch") <= last.micro_batch)
    timely = rows.where((F.col("reason") == SPEED) & sealed)
    repaired = rows.where(
        (F.col("reason") != SPEED)
        & ((F.col("epoch") == at.epoch.number) | (F.col("reason") == BACKFILL))
        & (F.col("through_seq") <= at.sealed.seq)
        & F.col("plan").isin(sorted(at.done))
    )
    return timely.unionByName(repaired)
