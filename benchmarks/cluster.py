"""What a cluster costs: the same log, answered by two cores of this process and by two nodes.

    PYTHONPATH=include:plugins:. .venv/bin/python benchmarks/cluster.py [--records N] [--reps 3]

Nodes of the pool ``standalone`` with one core each, on this machine: it shows cost and behaviour,
not speed-up. In turn: the log in micro-batches of some 500,000 records (throughput from the first
sealed to the last), then in micro-batches of one file (the median of the times between them). Every
answer is compared with DuckDB's.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import measuring
import step
from pyspark.sql import SparkSession

from penstock.config.settings import Settings
from penstock.core.clock import SystemClock
from penstock.lake.history.standing import answers_in_force
from penstock.spark.correct import correct_pipeline
from penstock.spark.session import open_session, settings_of_a_stream
from tests.clusters import a_cluster

LARGE = 500_000
T = TypeVar("T")


@contextmanager
def session_on(settings: Settings) -> Iterator[SparkSession]:
    """Spark as the product configures it, where the settings say."""
    options = settings_of_a_stream(settings) | {"spark.driver.memory": "2g"}
    with open_session("cluster", options) as spark:
        yield spark


def answered(spark: SparkSession, home: Path, log: Path, records: int) -> list[tuple[float, int]]:
    """Answer a log anew; when each micro-batch was sealed, and how many records it had."""
    work = home / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(log, work / "log")
    pipeline, tables = measuring.pipeline_in(work, step.MARS.yaml)
    sealed = list[tuple[float, int]]()
    query = measuring.stream(
        spark, tables, pipeline, lambda _, row: sealed.append((time.monotonic(), row["records"])),
        records,
    )  # fmt: skip
    query.processAllAvailable()
    query.stop()
    return sealed


def by_itself(work: Callable[..., T], *arguments: object) -> T:
    """Do it in a process, and so a JVM, of its own: a JVM keeps the secret of its first session."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        return other.submit(work, *arguments).result()


def measured(settings: Settings, home: Path, log: Path) -> tuple[float, float]:
    """Records a second, and ms between small micro-batches."""
    with session_on(settings) as spark:
        answered(spark, home, log, LARGE)  # the session's classes
        fast = throughput(answered(spark, home, log, LARGE))
        return fast, apart(answered(spark, home, log, 1)[5:])


def throughput(sealed: list[tuple[float, int]]) -> float:
    """Records a second, from the first sealed micro-batch to the last."""
    seconds = sealed[-1][0] - sealed[0][0]
    return sum(records for _, records in sealed[1:]) / seconds


def apart(sealed: list[tuple[float, int]]) -> float:
    """Median time between two micro-batches, ms."""
    times = [at for at, _ in sealed]
    return 1e3 * statistics.median(b - a for a, b in pairwise(times))


def checked(home: Path) -> str:
    """Whether all answers of the last run are DuckDB's, once late records are repaired."""
    pipeline, tables = measuring.pipeline_in(home / "work", step.MARS.yaml)
    os.environ["PENSTOCK_SPARK_MASTER"] = "local[2]"
    with measuring.session("check") as spark:
        correct_pipeline(spark, tables, pipeline, SystemClock(), "benchmark")
    found = answers_in_force(tables, pipeline.specs[0])
    bad, windows = step.wrong(found, home / "source", step.MARS)
    return f"{bad:,} of {windows:,} answers wrong"


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=2_000_000, help="a million at least")
    parser.add_argument("--reps", type=int, default=3)
    args = parser.parse_args()
    state = measuring.machine()
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        step.generate(home / "source", args.records, 100)
        pipeline, tables = measuring.pipeline_in(home, step.MARS.yaml)
        measuring.start_of_log(tables, pipeline)
        measuring.ingest(tables, pipeline, home, each=True)
        log = home / "log"
        rows: dict[str, list[tuple[float, float]]] = {"local[2]": [], "2 nodes": []}
        with a_cluster(home / "cluster", 2) as cluster:
            os.environ.update(cluster.environment, PENSTOCK_HOME=str(cluster.settings.home))
            here = cluster.settings.model_copy(update={"spark_master": "local[2]"})
            places = {"local[2]": here, "2 nodes": cluster.settings}
            for rep in range(args.reps + 1):  # the first warms the disk up
                for name, settings in places.items():
                    os.environ["PENSTOCK_SPARK_MASTER"] = settings.spark_master
                    fast, slow = by_itself(measured, settings, home, log)
                    if rep:
                        rows[name].append((fast, slow))
                    print(f"rep {rep} {name}: {fast:,.0f} records/s, {slow:.0f} ms",
                          file=sys.stderr, flush=True)  # fmt: skip
            said = by_itself(checked, home)
    told = [
        [name, f"{statistics.median(f for f, _ in each):,.0f}",
         f"{statistics.median(s for _, s in each):.0f}"]
        for name, each in rows.items()
    ]  # fmt: skip
    print(f"{args.records:,} records, {state}; {said}\n")
    print(measuring.markdown(["", "records a second", "small micro-batch, ms"], told))


if __name__ == "__main__":
    main()
