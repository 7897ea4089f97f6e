"""What the driver does for a micro-batch of many answers: through it as rows, or past it as files.

    python benchmarks/answers.py [--records 10000 100000 1000000] [--batches 8]

Each micro-batch brings a record of each of so many keys, and closes the window before: as many
answers. Both ways run in one session on copies of one log, by turns. Of each micro-batch after the
first two, as medians:

- whole: of Spark's trigger, from its offset to its commit;
- driver: from the end of the last task, by Spark's event log, to the step's row of ``control``;
- CPU of the driver: its Python process, and the JVM's threads that run no task, of all processes'.

At the end the tables of both are compared.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import measuring
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.config.pipeline import TOGETHER, Pipeline
from penstock.core.batch_size import Bounds
from penstock.core.clock import SystemClock
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from penstock.spark import results
from penstock.spark.query import LogQuery

WARM = 2
MINUTE = 60_000_000
BEGIN = 1_767_225_600_000_000
WAYS = {"rows": 1 << 40, "files": results.LARGE}
PIPELINE = """
source: {files: source, mode: bounded, order: name}
columns: {key: string, value: double}
event_time: ts
skew: P3650D
steps:
  minutes:
    keys: [key]
    window: {size: PT1M}
    measures: {n: count(*), total: sum(value), most: max(value)}
    slack: {fixed: PT0S}
"""


def generate(folder: Path, records: int, batches: int) -> None:
    """A file a window: a record of each key, the last one of all at its end."""
    rng = np.random.default_rng(7)
    folder.mkdir(parents=True)
    for number in range(batches + 1):
        times = BEGIN + number * MINUTE + np.sort(rng.integers(0, MINUTE, records))
        table = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "key": pa.array([f"k{n:07}" for n in rng.permutation(records)]),
                "value": rng.normal(size=records),
            }
        )
        pq.write_table(table, folder / f"part-{number:04}.parquet")


class Gauge:
    """CPU seconds so far, by who spent them."""

    def __init__(self, spark: SparkSession) -> None:
        self.own = psutil.Process()
        beans = spark.sparkContext._jvm.java.lang.management.ManagementFactory
        self.threads = beans.getThreadMXBean()

    def read(self) -> dict[str, float]:
        """Of the driver's Python, of the JVM's threads that run no task, of all."""
        every = [self.own, *self.own.children(recursive=True)]
        whole = 0.0
        for process in every:
            try:
                spent = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            whole += spent.user + spent.system
        ids = self.threads.getAllThreadIds()
        infos = self.threads.getThreadInfo(ids)
        driver = sum(
            self.threads.getThreadCpuTime(info.getThreadId()) / 1e9
            for info in infos
            if info is not None and not _works(info.getThreadName())
        )
        mine = self.own.cpu_times()
        return {"python": mine.user + mine.system, "jvm": driver, "all": whole}


def _works(thread: str) -> bool:
    """Whether a thread of the JVM runs tasks, or feeds their Python."""
    return "task launch" in thread or "Writer" in thread or "writer" in thread


def run(
    spark: SparkSession, home: Path, tables: Tables, pipeline: Pipeline, records: int, large: int
) -> list[dict[str, float]]:
    """One query over a log; what each micro-batch took, by its number."""
    sealed: dict[int, float] = {}
    spent: dict[int, dict[str, float]] = {}
    gauge = Gauge(spark)

    def told(_: str, row: dict[str, Any]) -> None:
        sealed[row["micro_batch"]] = time.time()
        spent[row["micro_batch"]] = gauge.read()

    def stands_still(step: str, cause: str) -> None:
        raise SystemExit(f"{step}: {cause}")

    results.LARGE = large
    query = LogQuery(
        spark, tables, pipeline, TOGETHER, SystemClock(), told, stands_still, Bounds.fixed(records)
    ).start(pipeline.queries[TOGETHER])
    query.processAllAvailable()
    triggers = {p["batchId"]: p["durationMs"]["triggerExecution"] / 1e3
                for p in query.recentProgress}  # fmt: skip
    query.stop()
    ends = sorted(_task_ends(home / "events"))
    found = []
    for number in sorted(sealed)[WARM:-1]:
        last = max(end for end in ends if end <= sealed[number])
        cpu = {k: spent[number][k] - spent[number - 1][k] for k in spent[number]}
        found.append({"whole": triggers[number], "driver": sealed[number] - last, **cpu})
    return found


def _task_ends(folder: Path) -> Iterator[float]:
    for path in folder.rglob("*"):
        if path.is_file():
            for line in path.read_text(errors="replace").splitlines():
                if '"SparkListenerTaskEnd"' in line[:60]:
                    yield json.loads(line)["Task Info"]["Finish Time"] / 1e3


def content(tables: Tables, pipeline: Pipeline) -> pa.Table:
    """The rows of answers, without when they were published."""
    step = pipeline.specs[0]
    rows = read_table(Table(tables.answers(step)))
    return rows.drop_columns(["published_at"])


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--reps", type=int, default=2)
    parser.add_argument("--large", type=int, default=results.LARGE)
    args = parser.parse_args()
    ways = WAYS | {"files": args.large}
    state, table = measuring.machine(), []
    with tempfile.TemporaryDirectory() as scratch:
        top = Path(scratch)
        (top / "events").mkdir()
        logs = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{top / 'events'}",
                "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
                "spark.eventLog.buffer.kb": "1k"}  # fmt: skip
        with measuring.session("answers", **logs) as spark:
            for records in args.records:
                home = top / str(records)
                generate(home / "source", records, args.batches + WARM)
                pipeline, tables = measuring.pipeline_in(home, PIPELINE)
                measuring.start_of_log(tables, pipeline)
                measuring.ingest(tables, pipeline, home, each=True)
                taken: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
                for rep in range(args.reps + 1):  # the first warms up
                    rows = {}
                    for way, large in ways.items():
                        copy = Tables(str(home / f"{way}-{rep}"), pipeline.name)
                        shutil.copytree(home / "log", copy.lake)
                        found = run(spark, top, copy, pipeline, records, large)
                        taken[way] += found if rep else []
                        rows[way] = content(copy, pipeline)
                        shutil.rmtree(copy.lake)
                    same(rows["rows"], rows["files"])
                table += [_row(records, way, each) for way, each in taken.items()]
                shutil.rmtree(home)
    headers = ("records and answers", "by", "whole ms", "driver ms", "share",
               "driver's Python, CPU ms", "JVM without tasks, CPU ms", "of all CPU")  # fmt: skip
    print(f"\n{state}; after: {os.getloadavg()[0]:.1f}; medians of {args.reps} runs\n")
    print(measuring.markdown(headers, table))


def same(rows: pa.Table, files: pa.Table) -> None:
    """End if two tables differ."""
    con = duckdb.connect()
    con.register("a", rows)
    con.register("b", files)
    (apart,) = con.execute(
        "SELECT (SELECT count(*) FROM (FROM a EXCEPT ALL FROM b))"
        " + (SELECT count(*) FROM (FROM b EXCEPT ALL FROM a))"
    ).fetchone()
    if apart or not rows.num_rows:
        raise SystemExit(f"{apart} rows differ of {rows.num_rows}")


def _row(records: int, way: str, each: list[dict[str, float]]) -> tuple[object, ...]:
    middle = {name: statistics.median(one[name] for one in each) for name in each[0]}
    share = statistics.median(one["driver"] / one["whole"] for one in each)
    busy = middle["python"] + middle["jvm"]
    return (f"{records:,}", way, f"{middle['whole'] * 1e3:,.0f}", f"{middle['driver'] * 1e3:,.0f}",
            f"{share:.0%}", f"{middle['python'] * 1e3:,.0f}", f"{middle['jvm'] * 1e3:,.0f}",
            f"{busy / middle['all']:.0%}")  # fmt: skip


if __name__ == "__main__":
    main()
