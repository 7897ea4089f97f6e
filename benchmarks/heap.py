"""How many answers a correction repairs with the default heap of Spark's driver.

    python benchmarks/heap.py [--records 3000000] [--heap 1g]

Hourly windows sliding by 15 minutes with a median by 90 keys; half of the records come a day late,
so that every answer is to be repaired. "largest" is what a chunk's answers weigh on their way
through the driver, "largest before" the answers in force that they are compared with. Prints what
became of it: a heap that is full ends Spark.
"""

import argparse
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import measuring
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.clock import SystemClock
from penstock.spark.by_window import ByWindow
from penstock.spark.correct import correct_pipeline
from penstock.spark.prefix import SparkPrefix

DAY = timedelta(days=1) // timedelta(microseconds=1)
RECORDS_A_DAY, KEYS, FILES = 50_000, 90, 20
BEGIN = 1_700_000_000_000_000
PIPELINE = """
source: {files: source, order: name}
columns: {key: string, value: double}
event_time: ts
arrival_time: arrived
steps:
  hourly:
    keys: [key]
    window: {size: PT1H, slide: PT15M}
    measures: {n: count(*), middle: median(value), total: sum(value)}
    slack: {fixed: PT1M}
"""


def generate(folder: Path, records: int) -> None:
    """Files in order of arrival."""
    rng = np.random.default_rng(3)
    times = np.sort(BEGIN + rng.integers(0, records * DAY // RECORDS_A_DAY, records))
    arrived = times + np.where(rng.random(records) < 0.5, DAY, 0)
    order = np.argsort(arrived, kind="stable")
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "arrived": pa.array(arrived, pa.timestamp("us", "UTC")),
            "key": np.array([f"k{n:02}" for n in range(KEYS)])[rng.integers(0, KEYS, records)],
            "value": rng.normal(size=records),
        }
    ).take(pa.array(order))
    folder.mkdir(parents=True)
    for part, rows in enumerate(np.array_split(np.arange(records), FILES)):
        pq.write_table(table.slice(rows[0], len(rows)), folder / f"part-{part:05}.parquet")


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, nargs="*", default=[3_000_000])
    parser.add_argument("--heap", default="1g")
    args = parser.parse_args()
    state, chunks, known = measuring.machine(), list[int](), list[int]()
    recompute, before = SparkPrefix.answers, ByWindow._known

    def counted(self: SparkPrefix, *arguments: object) -> pa.Table:
        found = recompute(self, *arguments)  # type: ignore[arg-type]
        chunks.append(found.nbytes)
        return found

    def weighed(self: ByWindow, *arguments: object) -> pa.Table:
        found = before(self, *arguments)  # type: ignore[arg-type]
        known.append(found.nbytes)
        return found

    SparkPrefix.answers = counted  # type: ignore[method-assign]
    ByWindow._known = weighed  # type: ignore[method-assign]
    headers = ("records", "answers", "chunks", "largest MB", "largest before MB", "seconds",
               "JVM MB at the end")  # fmt: skip
    rows = []
    for records in args.records:
        memory = {"spark.driver.memory": args.heap}
        with tempfile.TemporaryDirectory() as scratch, measuring.session("heap", **memory) as spark:
            home = Path(scratch)
            generate(home / "source", records)
            pipeline, tables = measuring.pipeline_in(home, PIPELINE)
            measuring.start_of_log(tables, pipeline)
            measuring.ingest(tables, pipeline, home)
            clock = SystemClock()
            query = measuring.stream(spark, tables, pipeline)
            query.processAllAvailable()
            query.stop()
            chunks.clear()
            known.clear()
            began = time.monotonic()
            done = correct_pipeline(spark, tables, pipeline, clock, "benchmark")
            taken = time.monotonic() - began
            java = [p for p in psutil.Process().children(recursive=True) if p.name() == "java"]
            held = sum(p.memory_info().rss for p in java) / 1e6
            rows.append(
                (f"{records:,}", f"{done.answers:,}", len(chunks), f"{max(chunks) / 1e6:.0f}",
                 f"{max(known) / 1e6:.0f}", f"{taken:.0f}", f"{held:.0f}")
            )  # fmt: skip
    print(f"\n{state}, heap {args.heap}\n")
    print(measuring.markdown(headers, rows))


if __name__ == "__main__":
    main()
