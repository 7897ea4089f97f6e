"""A stream of one lake on real Spark, in this process."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from penstock.core.batch_size import Bounds
from penstock.spark.stream_host import StreamHost
from tests.doubles import RecordingPulse, RisingClock
from tests.lakes import Lake


def answer(
    spark: SparkSession,
    lake: Lake,
    records: int,
    stop_when: Callable[[RecordingPulse], bool] = lambda _: False,
    shards: int = 3,
) -> None:
    """Run it to its end, or until it is to stop.

    Args:
        spark: the session.
        lake: the lake.
        records: a micro-batch takes no further block once it has so many.
        stop_when: asked at each beat.
        shards: into how many the state is cut; 0: as it is, or a core each.
    """
    host = StreamHost(
        spark, lake.tables, lake.pipeline, lake.home, RisingClock(), RecordingPulse(stop_when),
        shards=shards,
    )  # fmt: skip
    host.run(Bounds.fixed(records))
