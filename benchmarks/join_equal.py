"""A join of two streams by equal keys, beside Spark's own stream-stream join, with the same sink.

    python benchmarks/join_equal.py [--records N] [--keys N] [--batch N]

Two streams of ``--records`` each; event times in disorder of up to half a second, one record of a
hundred by up to a minute. Pairs have the same key and lie within a minute. Both wait for one
second, both write Delta tables, both take about as many records a micro-batch, both keep their
state in RocksDB; throughput is that of the second half, when the state is full. Ours reads
committed events, Spark reads source files; the table says what the door takes besides. All pairs
are counted by DuckDB: what is missing at once, and after a correction.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.core.clock import SystemClock
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.ingest import door
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.spark.correct import correct_pipeline

BEGIN, RATE, FILE = 1_700_000_000_000_000, 10_000, 20_000
STREAMS = ("ours", "theirs")
PIPELINE = """
sources:
  ours: {source: {files: ours, mode: bounded}, columns: {k: long, v: double}, event_time: ts}
  theirs: {source: {files: theirs, mode: bounded}, columns: {k: long, v: double}, event_time: ts}
steps:
  pairs:
    kind: join
    left: ours
    right: theirs
    on: [k]
    within: PT60S
    select: [left.v, right.v]
    slack: {fixed: PT1S}
"""
SHOWN = {"left_time": "l.ts", "right_time": "r.ts", "left_v": "l.v", "right_v": "r.v"}
EQUAL = "l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL 60 SECONDS AND l.ts + INTERVAL 60 SECONDS"


def write(home: Path, records: int, keys: int) -> None:
    """Files of ``FILE`` records, in the order of arrival."""
    for number, name in enumerate(STREAMS):
        rng = np.random.default_rng(number)
        times = BEGIN + np.arange(records) * (10**6 // RATE) + number
        lags = rng.integers(0, 500_000, records)
        lags += (rng.random(records) < 0.01) * rng.integers(0, 60_000_000, records)
        order = np.argsort(times + lags, kind="stable")
        ts = pa.array(times[order], pa.timestamp("us", "UTC"))
        rows = {"ts": ts, "k": rng.integers(0, keys, records), "v": rng.random(records)}
        table, folder = pa.table(rows), home / name
        folder.mkdir()
        for at in range(0, records, FILE):
            pq.write_table(table.slice(at, FILE), folder / f"{at:09}.parquet")


def ours(
    spark: SparkSession, home: Path, args: argparse.Namespace
) -> tuple[float, float, int, int]:
    """Records a second of the step and of the door, pairs at once and after a correction."""
    pipeline, tables = measuring.pipeline_in(home, PIPELINE)
    step, sealed = pipeline.specs[0], list[float]()
    measuring.start_of_log(tables, pipeline)
    began = time.perf_counter()
    records = measuring.ingest(tables, pipeline, home)
    through_the_door = records / (time.perf_counter() - began)
    query = measuring.stream(
        spark, tables, pipeline, lambda *_: sealed.append(time.perf_counter()), args.batch
    )
    measuring.answered(query, tables, step, records)
    rows = read_table(Table(tables.control(step))).sort_by("micro_batch").to_pylist()
    half = next(n for n, row in enumerate(rows) if row["through_seq"] > records / 2)
    taken = sum(row["records"] for row in rows[half + 1 :])
    rate = taken / (sealed[len(rows) - 1] - sealed[half])
    timely = timely_answers(tables, step).num_rows
    correct_pipeline(spark, tables, pipeline, SystemClock(), "benchmark")
    return rate, through_the_door, timely, answers_in_force(tables, step).num_rows


def spark_s_own(spark: SparkSession, home: Path, args: argparse.Namespace) -> tuple[float, int]:
    """Records a second, and pairs."""
    schema = "ts timestamp, k long, v double"
    read = spark.readStream.schema(schema).option("maxFilesPerTrigger", args.batch // 2 // FILE)
    left, right = (
        read.parquet(str(home / name)).withWatermark("ts", "1 second").alias(alias)
        for name, alias in zip(STREAMS, "lr", strict=True)
    )
    found = left.join(right, F.expr(EQUAL))
    found = found.select("l.k", *(F.col(column).alias(name) for name, column in SHOWN.items()))
    sink = found.writeStream.format("delta").option("checkpointLocation", str(home / "cp"))
    query = sink.trigger(availableNow=True).start(str(home / "out"))
    query.awaitTermination()
    told = [p for p in query.recentProgress if p["numInputRows"]]
    late = told[len(told) // 2 :]
    rows, took = sum(p["numInputRows"] for p in late), sum(p["batchDuration"] for p in late) / 1e3
    return rows / took, spark.read.format("delta").load(str(home / "out")).count()


def true_pairs(home: Path) -> int:
    """By DuckDB, from the source files."""
    left, right = (f"read_parquet('{home / name}/*.parquet')" for name in STREAMS)
    rows = duckdb.sql(f"SELECT count(*) FROM {left} l JOIN {right} r ON {EQUAL}").fetchall()
    return int(rows[0][0])


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_600_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=200_000)
    args = parser.parse_args()
    door.BLOCK, state, rows = 65_536, measuring.machine(), list[list[str]]()
    more = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
    with tempfile.TemporaryDirectory() as scratch, measuring.session("join", **more) as spark:
        home = Path(scratch)
        write(home, args.records, args.keys)
        every = true_pairs(home)
        rate, through, timely, exact = ours(spark, home, args)
        rows.append(["Penstock", f"{rate:,.0f}", f"{through:,.0f}", f"{timely:,}",
                     f"{every - timely:,}", f"{every - exact:,}"])  # fmt: skip
        print(*rows[-1], file=sys.stderr, flush=True)
        rate, pairs = spark_s_own(spark, home, args)
        rows.append(["Spark's own join", f"{rate:,.0f}", "-", f"{pairs:,}", f"{every - pairs:,}",
                     f"{every - pairs:,}"])  # fmt: skip
    head = ["", "records/s", "door, records/s", "pairs at once", "missing", "missing in the end"]
    print(f"\n{args.records:,} records a stream, {args.keys:,} keys, {every:,} pairs; {state}\n")
    print(measuring.markdown(head, rows))


if __name__ == "__main__":
    main()
