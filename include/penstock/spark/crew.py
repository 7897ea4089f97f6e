"""Spark's workers as a crew of the door: a part of its work is a task."""

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from penstock.lake.ingest.crew import P, R


class SparkCrew:
    """Python workers of a session, on this machine or on others.

    A task that fails by itself, or whose executor is lost, is Spark's to repeat.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    @property
    def hands(self) -> int:
        """Cores that the session has now."""
        return int(self._context.defaultParallelism)

    def map(self, work: Callable[[P], R], parts: Sequence[P]) -> list[R]:
        """Parts in a row are a task: two for each core, as one may be slower."""
        tasks = min(len(parts), 2 * self.hands)
        return self._context.parallelize(parts, tasks).map(work).collect()
