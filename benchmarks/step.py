"""A step's throughput against plain Spark Structured Streaming, in one run on the same events.

    python benchmarks/step.py [--records 1000000] [--sips 100] [--reps 3]

Workload: Mars' count, 20 columns, 60 s tumbling windows by (sip, type), 100 sips x 5 types,
1 % of the records later than the slack of 10 s. Both read the same committed ``events`` table.
"plain" is readStream of that table, withWatermark, a windowed count and foreachBatch append, once
with Spark's own Delta sink and once with the sink that ours uses (deltalake). All run warm in one
session, in micro-batches of about 250,000 records; the time is from starting the query to its
last commit. "wrong" counts windows that differ from DuckDB's over all records; for ours also after
the correction, which is not timed here. Windows still open at the end of the data count as wrong
for plain, which has no end of a source.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ROOT = Path(__file__).resolve().parents[1]

from penstock.config.catalog import read_pipeline  # noqa: E402
from penstock.config.pipeline import Pipeline  # noqa: E402
from penstock.core.clock import SystemClock  # noqa: E402
from penstock.lake.commit import Table  # noqa: E402
from penstock.lake.generation import Registry  # noqa: E402
from penstock.lake.ingest.door import Door, run_through  # noqa: E402
from penstock.lake.log import LIVE  # noqa: E402
from penstock.lake.tables import Tables  # noqa: E402
from penstock.lake.view import answers_in_force, timely_answers  # noqa: E402
from penstock.spark.correct import correct_pipeline  # noqa: E402
from penstock.spark.query import start_query  # noqa: E402
from penstock.spark.session import configuration, open_session  # noqa: E402

PIPELINE = """
source: {files: source, mode: bounded}
columns: {sip: string, type: string}
event_time: ts
skew: P3650D
steps:
  counts:
    keys: [sip, type]
    window: {size: PT60S}
    measures: {n: count(*)}
    slack: {fixed: PT10S}
"""


def generate(folder: Path, records: int, sips: int) -> None:
    """Parquet files of 20 columns, about 1,000 records per second of event time."""
    rng = np.random.default_rng(7)
    start = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1e6)
    ts = start + np.arange(records) * 1_000
    late = rng.random(records) < 0.01
    ts = ts - np.where(late, rng.integers(70_000_000, 600_000_000, records), 0)
    ts = np.maximum(ts, start)
    folder.mkdir(parents=True)
    for part, rows in enumerate(np.array_split(np.arange(records), max(1, records // 250_000))):
        n = len(rows)
        columns = {
            "ts": pa.array(ts[rows], pa.timestamp("us", "UTC")),
            "sip": pa.array([f"10.0.{i // 256}.{i % 256}" for i in rng.integers(0, sips, n)]),
            "type": pa.array([f"t{i}" for i in rng.integers(0, 5, n)]),
        }
        columns |= {f"c{i}": rng.integers(0, 1000, n) for i in range(17)}
        pq.write_table(pa.table(columns), folder / f"part-{part:04}.parquet")


def ours(
    spark: SparkSession, log: Path, work: Path, pipeline: Pipeline
) -> tuple[float, pa.Table, pa.Table]:
    """Events to committed answers and late rows: seconds, timely answers, those in force later."""
    shutil.copytree(log, work)
    tables, step = Tables(str(work), pipeline.name), pipeline.specs[0]
    started = time.monotonic()
    query = start_query(spark, tables, pipeline, step, SystemClock(), lambda _: None, 980)
    query.processAllAvailable()
    seconds = time.monotonic() - started
    query.stop()
    names = ["window_start", "sip", "type", "n"]
    timely = timely_answers(tables, step).select(names)
    correct_pipeline(spark, tables, pipeline, SystemClock(), "benchmark")
    return seconds, timely, answers_in_force(tables, step).select(names)


def plain(spark: SparkSession, events: str, work: Path, sink: str) -> tuple[float, pa.Table]:
    """The same by Structured Streaming alone."""
    out = str(work / "answers")

    def write(frame: DataFrame, number: int) -> None:
        if sink == "delta":
            frame.write.format("delta").mode("append").option("txnAppId", "plain").option(
                "txnVersion", number
            ).save(out)
            return
        rows = frame.toArrow()
        if rows.num_rows:
            write_deltalake(out, rows, mode="append")

    started = time.monotonic()
    counted = (
        spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(events)
        .withWatermark("event_time", "10 seconds")
        .groupBy(F.window("event_time", "60 seconds"), "sip", "type").agg(F.count("*").alias("n"))
        .select(F.col("window.start").alias("window_start"), "sip", "type", "n")
    )  # fmt: skip
    query = (
        counted.writeStream.foreachBatch(write).outputMode("append")
        .option("checkpointLocation", str(work / "checkpoint")).start()
    )  # fmt: skip
    query.processAllAvailable()
    seconds = time.monotonic() - started
    query.stop()
    return seconds, spark.read.format("delta").load(out).toArrow()


def wrong(answers: pa.Table, source: Path) -> tuple[int, int]:
    """Windows that differ from DuckDB's over all records, and how many there are."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("answers", answers)
    return con.execute(
        f"""WITH truth AS (SELECT time_bucket(INTERVAL 60 SECOND, ts) AS window_start, sip, type,
              count(*) AS n FROM '{source}/*.parquet' GROUP BY ALL)
            SELECT count(*) FILTER (a.n IS DISTINCT FROM t.n), count(*)
            FROM truth t FULL JOIN answers a USING (window_start, sip, type)"""
    ).fetchone()


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--sips", type=int, default=100)
    parser.add_argument("--reps", type=int, default=3)
    args = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        generate(home / "source", args.records, args.sips)
        (home / "counts.yaml").write_text(PIPELINE)
        pipeline, problems = read_pipeline(home / "counts.yaml")
        assert pipeline is not None, problems
        tables, clock = Tables(str(home / "log"), pipeline.name), SystemClock()
        registry = Registry(tables, clock, Table(tables.events(pipeline.types)))
        registry.begin_epoch(pipeline.specs[0])
        started = time.monotonic()
        run_through(Door(tables, pipeline, home, clock), LIVE, None, None)
        ingest = time.monotonic() - started
        options = configuration(ROOT / "jars", master="local[2]", memory="3g", partitions=2)
        rows: dict[str, list[float]] = {}
        notes: dict[str, str] = {"ingest": "Parquet to sealed blocks, no JVM"}
        with open_session("benchmark", options) as spark:
            for rep in range(args.reps + 1):  # the first warms up
                for name in ("ours", "plain, deltalake sink", "plain, Spark's Delta sink"):
                    corrected = None
                    work = home / f"{name[:8]}{name[-10:]}{rep}".replace(" ", "_")
                    if name == "ours":
                        seconds, answers, corrected = ours(spark, home / "log", work, pipeline)
                    else:
                        sink = "deltalake" if "deltalake" in name else "delta"
                        events = tables.events(pipeline.types).uri
                        seconds, answers = plain(spark, events, work, sink)
                    if rep:
                        rows.setdefault(name, []).append(seconds)
                    bad, windows = wrong(answers, home / "source")
                    notes[name] = f"{bad:,} of {windows:,} timely windows wrong"
                    if corrected is not None:
                        notes[name] += (
                            f", {wrong(corrected, home / 'source')[0]:,} after correction"
                        )
                    print(f"rep {rep} {name}: {seconds:.2f} s", file=sys.stderr, flush=True)
        rows["ingest"] = [ingest]
        base = statistics.median(rows["plain, deltalake sink"])
        print("\n| what | records/s (median) | seconds (min-max) | ratio to plain | note |")
        print("| --- | --- | --- | --- | --- |")
        for name, seconds in rows.items():
            middle = statistics.median(seconds)
            ratio = "" if name == "ingest" else f"{base / middle:.2f}"
            print(f"| {name} | {args.records / middle:,.0f} | {min(seconds):.2f}-{max(seconds):.2f}"
                  f" | {ratio} | {notes[name]} |")  # fmt: skip
        print(f"\n{args.records:,} records, {args.sips} sips x 5 types, local[2],"
              f" {timedelta(seconds=round(args.records / 1000))} of event time,"
              f" load average after: {os.getloadavg()[0]:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
