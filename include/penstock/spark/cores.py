"""How many cores a session's tasks share, and into how many partitions its shuffles go."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

PARTITIONS = "spark.sql.shuffle.partitions"
LEAST = 2
"""Partitions of a job that is no stream: one task alone would hold all its keys."""


def cores_of(spark: SparkSession) -> int:
    """Threads of a local master; of another one the cores that its executors have now, or 2."""
    return int(spark.sparkContext.defaultParallelism)


def cores_at_work(spark: SparkSession) -> int:
    """The same once there are executors: a job waits for the first of them, and others register."""
    if not str(spark.sparkContext.master).startswith("local"):
        spark.range(1).count()
    return cores_of(spark)


def partition(spark: SparkSession) -> None:
    """Let the session's jobs go into as many partitions as it has cores now, and 2 at least."""
    spark.conf.set(PARTITIONS, str(max(cores_of(spark), LEAST)))


@contextmanager
def partitioned(spark: SparkSession, number: int) -> Iterator[None]:
    """Let a query that starts meanwhile have so many partitions: it keeps the number."""
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, str(number))
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS, str(before))
