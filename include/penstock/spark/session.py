"""The one place that makes a Spark session, with the settings that were measured."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.config.settings import JVM_FULL, JVM_FULL_SAID, JVM_OPTIONS, Settings, pin_python
from penstock.core.errors import ConfigError, TransientError
from penstock.core.place import uri_of
from penstock.spark import nursery, worker
from penstock.spark.cores import partition
from penstock.spark.nodes import on_a_cluster

DELTA_JARS = ("delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar")
KEEP_MEMORY = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "16777216",
}
"""For Spark's Python workers: memory of one micro-batch serves the next."""
WORKER = Path(__file__).with_name("worker")
PACKAGES = Path(__file__).resolve().parents[2]
"""On the path of Spark's workers; it lies at the same place on every host."""
LOOPBACK = "127.0.0.1"
ENDING_SECONDS = 10.0
"""From a broken connection to the end of the process behind it."""
OF_JVMS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""A JVM compiles once, quickly; what it compiles for minutes otherwise hardly counts in a stream.
An audit's SQL is its own work, and gets the best code that there is. Room for code would shrink to
48 MB with it: a full one is swept, and its code compiled again and again."""
PATIENT = {"spark.network.timeout": "600s", "spark.executor.heartbeatInterval": "30s"}
"""Nobody can be lost."""
PROMPT = {
    "spark.network.timeout": "45s",
    "spark.network.timeoutInterval": "5s",
    "spark.executor.heartbeatInterval": "5s",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
}
"""A stream goes on within a minute after a node was cut off in the middle of a fetch."""
PREFIX = "org.apache.spark.sql.execution.streaming"


class SparkEndedError(TransientError):
    """The JVM under a session is gone."""


def delta_jars(folder: Path) -> str:
    """The value of ``spark.jars``.

    Raises:
        ConfigError: a jar is not there.
    """
    paths = [folder / name for name in DELTA_JARS]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise ConfigError(f"{folder}: {', '.join(missing)} not there. Fetch them: make setup")
    return ",".join(uri_of(path) for path in paths)


def settings_of(settings: Settings) -> dict[str, str]:
    """Spark's configuration of a job: here, or on the cluster that the settings name."""
    whole = configuration(
        settings.jars, master=settings.spark_master, memory=settings.driver_memory
    )
    return whole | on_a_cluster(settings)


def settings_of_a_stream(settings: Settings) -> dict[str, str]:
    """Spark's configuration of a stream, whose JVMs hand on what Python and native code do."""
    whole = settings_of(settings)
    quick = {name: f"{whole[name]} {QUICK}" for name in OF_JVMS}
    bound = {"boundedMemoryUsage": "true", "maxMemoryUsageMB": str(settings.state_memory)}
    return whole | quick | {f"{ROCKSDB}.{name}": value for name, value in bound.items()}


def configuration(jars: Path, *, master: str, memory: str) -> dict[str, str]:
    """Spark's configuration; the reasons are in docs/concepts/spark-settings.md."""
    here = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return {
        **(here if master.startswith("local") else {}),
        "spark.authenticate": "true",
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.master": master,
        "spark.driver.memory": memory,
        **dict.fromkeys(OF_JVMS, JVM_OPTIONS),
        "spark.jars": delta_jars(jars),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": (
            f"{PREFIX}.state.RocksDBStateStoreProvider"
        ),
        f"{ROCKSDB}.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{PREFIX}.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.sql.streaming.stopTimeout": "60s",
        **{
            f"spark.executorEnv.{name}": value
            for name, value in (KEEP_MEMORY | nursery.LIBRARIES).items()
        },
        "spark.executorEnv.WORKER_PYTHON": sys.executable,
        "spark.executorEnv.PYTHONPATH": str(PACKAGES),
        "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.python.authenticate.socketTimeout": "300s",
        **(PATIENT if master.startswith("local") else PROMPT),
        "spark.locality.wait": "0s",
        "spark.driver.maxResultSize": "0",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }


@contextmanager
def open_session(name: str, options: dict[str, str]) -> Iterator[SparkSession]:
    """A session that is stopped at the end."""
    address, _ = nursery.start(**KEEP_MEMORY)
    local = options["spark.master"].startswith("local")
    # said even if empty: a former session of this process may have been a local one
    here = {worker.NURSERY: address, worker.DAEMON_NURSERY: address if local else ""}
    pin_python(sys.executable, str(WORKER), **here)
    handed = {f"spark.executorEnv.{key}": value for key, value in here.items()}
    builder = SparkSession.builder.appName(name)
    for key, value in {**options, **handed}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    ended = None
    try:
        partition(spark)
        yield spark
    except Exception as failed:
        if (ended := end_of(failed)) is not None:
            raise SparkEndedError(ended) from failed
        raise
    finally:
        if ended is None:
            spark.stop()


def end_of(failed: BaseException) -> str | None:
    """Why the JVM of the session is no more.

    Args:
        failed: how that was noticed, perhaps a moment before the process has ended.

    Returns:
        None: it lives, or was not started here (by spark-submit, whose exit code tells).
    """
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001  no other way to it
    if process is None:
        return None
    if isinstance(failed, (Py4JNetworkError, ConnectionError)):
        with suppress(TimeoutExpired):
            process.wait(ENDING_SECONDS)
    if (code := process.poll()) is None:
        return None
    return JVM_FULL_SAID if code == JVM_FULL else f"Spark's JVM ended with exit code {code}"
