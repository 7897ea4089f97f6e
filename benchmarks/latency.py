"""How long a closed window waits for its answer, with the stream running and Airflow stopped.

    python benchmarks/latency.py [--rates 5000 20000] [--seconds 60]

A feeder process of its own writes a Parquet file every 250 ms, event time = clock time with up to
0.5 s of disorder; windows of 1 s by 50 keys, slack 1 s. Times are those of the files themselves:

- block: from the commit of the block that closed a window to the commit of its answers;
- file: from the moment the source file with that block's last record was there.

The first 15 s do not count: the JVM warms up. One line a window.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.config.pipeline import Pipeline
from penstock.core.clock import SystemClock
from penstock.lake.storage.tables import Tables
from penstock.spark.stream_host import StreamHost

EVERY = 0.25
WARM_UP = 15.0
PIPELINE = """
source: {files: source}
columns: {key: string, value: double}
event_time: ts
steps:
  live:
    keys: [key]
    window: {size: PT1S}
    measures: {n: count(*), total: sum(value)}
    slack: {fixed: PT1S}
"""


class Alone:
    """Nobody watches the stream; it stops when told."""

    def __init__(self) -> None:
        self.stop = threading.Event()

    def beat(self, *, step: str | None = None, **figures: object) -> None:
        """Nobody listens."""

    def works(self, sealed: int) -> None:
        """Nobody listens."""

    def fail(self, error: str) -> None:
        """Nobody listens."""

    def should_stop(self) -> bool:
        """Whether the measurement is over."""
        return self.stop.is_set()


def feed(folder: Path, rate: int, seconds: float) -> None:
    """Write files at an even pace; a file appears under its name when it is whole."""
    rng, number, began = np.random.default_rng(5), 0, time.time()
    each = int(rate * EVERY)
    while time.time() - began < seconds:
        now = int(time.time() * 1e6)
        ts = now - rng.integers(0, 500_000, each)
        table = pa.table(
            {
                "ts": pa.array(ts, pa.timestamp("us", "UTC")),
                "key": pa.array([f"k{i}" for i in rng.integers(0, 50, each)]),
                "value": rng.random(each),
            }
        )
        measuring.appear(table, folder / f"part-{number:06}.parquet")
        number += 1
        time.sleep(max(0.0, began + number * EVERY - time.time()))


def some(folder: Path, count: int, each: int = 100_000) -> None:
    """So many records at once, in files, from a fixed instant on, 10,000 a second."""
    rng, begin = np.random.default_rng(5), 1_700_000_000_000_000
    for first in range(0, count, each):
        ts = begin + np.arange(first, first + each) * 100 - rng.integers(0, 500_000, each)
        table = pa.table({
            "ts": pa.array(ts, pa.timestamp("us", "UTC")),
            "key": pa.array([f"k{i}" for i in rng.integers(0, 50, each)]),
            "value": rng.random(each),
        })  # fmt: skip
        measuring.appear(table, folder / f"part-{first:09}.parquet")


def rows_of(uri: str, *columns: str) -> Iterator[tuple[float, dict[str, Any]]]:
    """Rows of a Delta table, each with the time at which its commit was there."""
    for path in sorted(Path(uri, "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for file in (a["add"]["path"] for a in actions if "add" in a):
            for row in pq.read_table(f"{uri}/{file}", columns=list(columns)).to_pylist():
                yield path.stat().st_mtime, row


def waits(tables: Tables, pipeline: Pipeline, folder: Path) -> tuple[list[float], list[float]]:
    """Seconds from block to answer and from file to answer, one a window."""
    sealed = {
        row["last_seq"]: (when, row["plan"])
        for when, row in rows_of(tables.blocks().uri, "last_seq", "plan")
    }
    files = {
        row["number"]: [folder / item["path"] for item in json.loads(row["positions"])]
        for _, row in rows_of(tables.plans().uri, "number", "positions")
    }
    begin = min(when for when, _ in sealed.values()) + WARM_UP
    first: dict[datetime, tuple[float, int]] = {}
    answers = rows_of(tables.answers(pipeline.specs[0]).uri, "window_start", "through_seq")
    for when, row in answers:
        first.setdefault(row["window_start"], (when, row["through_seq"]))
    blocks, whole, ends = [], [], sorted(sealed)
    for when, through in first.values():
        there, plan = sealed[ends[bisect_left(ends, through)]]
        if there >= begin:
            blocks.append(when - there)
            whole.append(when - max(path.stat().st_mtime for path in files[plan]))
    return blocks, whole


def measured(spark: object, home: Path, rate: int, seconds: float) -> list[tuple[str, list[float]]]:
    """One run at one rate."""
    pipeline, tables = measuring.pipeline_in(home, PIPELINE)
    source = home / "source"
    source.mkdir()
    alone = Alone()
    host = StreamHost(spark, tables, pipeline, home, SystemClock(), alone)
    running = threading.Thread(target=host.run)
    running.start()
    feeder = multiprocessing.get_context("spawn").Process(
        target=feed, args=(source, rate, seconds + WARM_UP)
    )
    feeder.start()
    feeder.join()
    time.sleep(5)
    alone.stop.set()
    running.join()
    blocks, whole = waits(tables, pipeline, home / "source")
    return [("block", blocks), ("file", whole)]


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rates", type=int, nargs="*", default=[5_000, 20_000])
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    state = measuring.machine()
    rows, groups = [], {}
    with tempfile.TemporaryDirectory() as scratch, measuring.session("latency") as spark:
        for rate in args.rates:
            for what, found in measured(spark, Path(scratch, str(rate)), rate, args.seconds):
                cuts = statistics.quantiles(found, n=100)
                mean = statistics.mean(found)
                rows.append(
                    (f"{rate:,}", f"{what} to answer", len(found), f"{mean:.3f}",
                     f"{cuts[49]:.3f}", f"{cuts[94]:.3f}", f"{cuts[98]:.3f}", f"{max(found):.3f}")
                )  # fmt: skip
                groups[f"{what}, {rate:,} records/s"] = {"mean": mean, "p99": cuts[98]}
    headers = ("records/s", "from", "windows", "mean s", "median", "p95", "p99", "max")
    print(f"\n{state}\n")
    print(measuring.markdown(headers, rows))
    measuring.bars("latency", "From a closed window to its answer", "s", groups)


if __name__ == "__main__":
    main()
