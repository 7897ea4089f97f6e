"""The one place that makes a Spark session, with the settings that were measured."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.config.settings import Settings, pin_python
from penstock.core.errors import ConfigError

DELTA_JARS = ("delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar")
KEEP_MEMORY = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "16777216",
}
"""For Spark's Python workers: memory of one micro-batch serves the next."""
PREFIX = "org.apache.spark.sql.execution.streaming"


def delta_jars(folder: Path) -> str:
    """The value of ``spark.jars``.

    Raises:
        ConfigError: a jar is not there.
    """
    paths = [folder / name for name in DELTA_JARS]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise ConfigError(f"{folder}: {', '.join(missing)} not there. Fetch them: make setup")
    return ",".join(str(path) for path in paths)


def settings_of(settings: Settings) -> dict[str, str]:
    """Spark's configuration of a job on this machine."""
    return configuration(
        settings.jars, master=settings.spark_master, memory=settings.driver_memory, partitions=2
    )


def configuration(jars: Path, *, master: str, memory: str, partitions: int) -> dict[str, str]:
    """Spark's configuration; the reasons are in docs/concepts/spark-settings.md."""
    return {
        "spark.master": master,
        "spark.driver.memory": memory,
        "spark.jars": delta_jars(jars),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.adaptive.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": (
            f"{PREFIX}.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{PREFIX}.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.pollingDelay": "50ms",
        **{f"spark.executorEnv.{name}": value for name, value in KEEP_MEMORY.items()},
        "spark.locality.wait": "0s",
        "spark.driver.maxResultSize": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }


@contextmanager
def open_session(name: str, options: dict[str, str]) -> Iterator[SparkSession]:
    """A session that is stopped at the end."""
    pin_python(sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in options.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
