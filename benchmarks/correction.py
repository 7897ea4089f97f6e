"""Correction against full recomputation by the same engine.

    python benchmarks/correction.py [--events 5000000] [--share 0.01]

30 days of events by 100 keys, windows of 10 minutes, slack 1 h. Twice the same log: late records in
bursts, as after an outage (everything of some hours arrives a day later), and scattered over all
windows. "full" recomputes every window of the log with the same runner (``correct`` with recheck).
Bytes are what Spark's file systems read, and this process by system calls.
"""

import argparse
import os
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.config.pipeline import Pipeline
from penstock.core.clock import SystemClock
from penstock.lake.storage.tables import Tables
from penstock.spark.correct import correct_pipeline

DAYS, WINDOW, OUTAGES = 30, 600, 3
DAY = 86_400_000_000
COUNTED = {"spark.hadoop.parquet.hadoop.vectored.io.enabled": "false"}
"""Hadoop's statistics leave out what is read by ranges."""
PIPELINE = """
source: {files: source, mode: bounded}
columns: {key: string, value: double}
event_time: ts
arrival_time: arrived
skew: P3650D
steps:
  sums:
    keys: [key]
    window: {size: PT10M}
    measures: {n: count(*), total: sum(value), worst: max(value)}
    slack: {fixed: PT1H}
"""


def generate(folder: Path, events: int, share: float, shape: str) -> None:
    """One Parquet file an hour of arrival time; ``share`` of the windows get late records."""
    rng = np.random.default_rng(3)
    start = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1e6)
    ts = start + np.sort(rng.integers(0, DAYS * DAY, events))
    arrived = ts + rng.integers(0, 60_000_000, events)
    window = (ts - start) // (WINDOW * 1_000_000)
    windows = DAYS * DAY // (WINDOW * 1_000_000)
    touched = int(windows * share)
    if shape == "bursts":
        each = touched // OUTAGES
        firsts = [windows * (2 * i + 1) // (2 * OUTAGES + 1) for i in range(OUTAGES)]
        chosen = np.concatenate([np.arange(f, f + each) for f in firsts])
        late = np.isin(window, chosen) & (rng.random(events) < 0.5)
    else:
        chosen = rng.choice(windows, touched, replace=False)
        late = np.isin(window, chosen) & (rng.random(events) < 0.01)
    arrived = np.where(late, arrived + DAY, arrived)
    order = np.argsort(arrived, kind="stable")
    keys = np.array([f"k{i:03}" for i in range(100)])[rng.integers(0, 100, events)]
    table = pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us", "UTC")),
            "arrived": pa.array(arrived, pa.timestamp("us", "UTC")),
            "key": keys,
            "value": rng.random(events),
        }
    ).take(pa.array(order))
    folder.mkdir(parents=True)
    for part, rows in enumerate(np.array_split(np.arange(events), DAYS * 2)):
        pq.write_table(table.slice(rows[0], len(rows)), folder / f"part-{part:05}.parquet")


def corrected(
    spark: SparkSession, home: Path, pipeline: Pipeline, *, recheck: bool
) -> tuple[float, int, int]:
    """Seconds, bytes and answers of one correction, on a copy of the answered log."""
    work = home / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(home / "log", work)
    tables = Tables(str(work), pipeline.name)
    read, began = measuring.bytes_read(spark), time.monotonic()
    done = correct_pipeline(spark, tables, pipeline, SystemClock(), "benchmark", recheck=recheck)
    return time.monotonic() - began, measuring.bytes_read(spark) - read, done.answers


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--reps", type=int, default=3)
    args = parser.parse_args()
    state, rows, groups = measuring.machine(), [], {}
    with measuring.session("correction", **COUNTED) as spark:
        for shape in ("bursts", "scattered"):
            with tempfile.TemporaryDirectory() as scratch:
                home = Path(scratch)
                generate(home / "source", args.events, args.share, shape)
                pipeline, tables = measuring.pipeline_in(home, PIPELINE)
                measuring.start_of_log(tables, pipeline)
                measuring.ingest(tables, pipeline, home)
                query = measuring.stream(spark, tables, pipeline)
                query.processAllAvailable()
                query.stop()
                figures = {}
                for name, recheck in (("touched", False), ("full", True)):
                    runs = [
                        corrected(spark, home, pipeline, recheck=recheck)
                        for _ in range(args.reps + 1)
                    ][1:]
                    figures[name] = sorted(runs)[len(runs) // 2]
            full, part = figures["full"], figures["touched"]
            for name, (seconds, size, answers) in figures.items():
                rows.append(
                    (shape, name, f"{seconds:.2f}", f"{size / 1e6:,.1f}", f"{answers:,}",
                     f"{full[0] / seconds:.1f}", f"{full[1] / size:.1f}")
                )  # fmt: skip
            groups[shape] = {"time": full[0] / part[0], "bytes": full[1] / part[1]}
    headers = (
        "late records",
        "corrected",
        "s",
        "MB read",
        "answers written",
        "faster",
        "fewer bytes",
    )
    print(f"\n{args.events:,} events; {state}; after: {os.getloadavg()[0]:.1f}\n")
    print(measuring.markdown(headers, rows))
    measuring.bars("correction", "Full recomputation / correction", "x", groups)


if __name__ == "__main__":
    main()
