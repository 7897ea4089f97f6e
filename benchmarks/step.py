"""A step's throughput against plain Spark Structured Streaming, in one run on the same events.

    python benchmarks/step.py [--workload mars_100] [--records 4000000] [--reps 3]

``mars_100`` and ``mars_10k``: Mars' count, 20 columns, 60 s tumbling windows by (sip, type), 100
or 10,000 sips x 5 types, everyday disorder of up to 5 s, 1 % of the records 11 to 300 s late,
slack 10 s. ``aircraft``: count and mean lag by site, 1 h sliding 15 min, slack 2 h, on a Parquet
file of sightings (--source), half of them late.

All read the same committed ``events`` table, 20 files. "plain" is readStream of that table,
withWatermark, a windowed aggregate and foreachBatch append, once with the sink that ours uses
(deltalake) and once with Spark's own. The queries run already and have answered the first file when
the rest is committed: the time is from that commit to the last commit of answers and late rows.
"with start" also holds the start of the query. Every engine runs at three sizes of micro-batch.
"wrong" counts windows that differ from DuckDB's over all records; for ours also after the
correction. Windows still open at the end of the data count as wrong for plain, which has no end.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from penstock.config.pipeline import Pipeline
from penstock.core.clock import SystemClock
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.storage.tables import Tables
from penstock.spark.correct import correct_pipeline

FILES = 20
SPAN = 1_200
TYPES = ["http", "dns", "tls", "ssh", "icmp"]


@dataclass(frozen=True)
class Workload:
    """A pipeline file, the same for plain Spark, and the truth for DuckDB."""

    yaml: str
    delay: str
    window: tuple[str, str]
    keys: tuple[str, ...]
    measures: dict[str, str]
    truth: str


MARS = Workload(
    yaml="""
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
""",
    delay="10 seconds",
    window=("60 seconds", "60 seconds"),
    keys=("sip", "type"),
    measures={"n": "count(*)"},
    truth="""SELECT time_bucket(INTERVAL 60 SECOND, ts) AS window_start, sip, type, count(*) AS n
             FROM source GROUP BY ALL""",
)
AIRCRAFT = Workload(
    yaml="""
source: {files: source, mode: bounded}
columns: {site: string, lag_s: long}
event_time: ts
skew: P3650D
steps:
  sites:
    keys: [site]
    window: {size: PT1H, slide: PT15M}
    measures: {n: count(*), mean: avg(lag_s)}
    slack: {fixed: PT2H}
""",
    delay="2 hours",
    window=("1 hour", "15 minutes"),
    keys=("site",),
    measures={"n": "count(*)", "mean": "avg(lag_s)"},
    truth="""SELECT time_bucket(INTERVAL 15 MINUTE, ts) - k * INTERVAL 15 MINUTE AS window_start,
                    site, count(*) AS n FROM source, range(4) r(k) GROUP BY ALL""",
)


def generate(folder: Path, records: int, sips: int, span: float = SPAN, files: int = FILES) -> None:
    """Mars' stream: 20 columns, ``span`` seconds of event time."""
    rng = np.random.default_rng(20261121)
    start = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1e6)
    for part, rows in enumerate(np.array_split(np.arange(records), files)):
        n = len(rows)
        lag = rng.random(n) * 5e6
        late = rng.random(n) < 0.01
        lag[late] = np.exp(rng.uniform(np.log(11e6), np.log(300e6), int(late.sum())))
        ts = start + np.maximum(rows * (span * 1_000_000 / records) - lag, 0).astype(np.int64)
        sip, kind = rng.integers(0, sips, n), rng.integers(0, 5, n)
        columns = {
            "ts": pa.array(ts, pa.timestamp("us", "UTC")),
            "sip": pa.array([f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}" for i in sip]),
            "type": pa.array([TYPES[k] for k in kind]),
        }
        columns |= {f"c{i}": rng.integers(0, 1000, n) for i in range(17)}
        _write(pa.table(columns), folder, part)


def sightings(folder: Path, source: Path) -> None:
    """The aircraft sightings in the order they became known."""
    rows = pq.read_table(source)
    event, arrival = (rows[c].cast(pa.int64()).to_numpy() for c in ("event_time", "arrival_time"))
    table = pa.table(
        {"ts": rows["event_time"], "site": rows["site"], "lag_s": (arrival - event) // 1_000_000}
    )
    for part, chosen in enumerate(np.array_split(np.arange(table.num_rows), FILES)):
        _write(table.take(pa.array(chosen)), folder, part)


def _write(table: pa.Table, folder: Path, part: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f"part-{part:04}.parquet")


class Held:
    """A copy of the log whose later commits are held back until ``release``."""

    def __init__(self, log: Path, work: Path, tables: Tables, pipeline: Pipeline) -> None:
        shutil.copytree(log, work)
        self.tables = Tables(str(work), pipeline.name)
        specs = (self.tables.events(pipeline.types), self.tables.blocks())
        self._held: list[Path] = []
        for spec in specs:  # events first: blocks speak for them
            commits = sorted(Path(spec.uri, "_delta_log").glob("*.json"))
            for commit in commits[2:]:  # the table's creation and the first file
                self._held.append(commit.rename(commit.with_suffix(".held")))

    def release(self) -> None:
        """Commit the rest."""
        for path in self._held:
            path.rename(path.with_suffix(".json"))


def ours(
    spark: SparkSession, held: Held, pipeline: Pipeline, files: int, size: int
) -> StreamingQuery:
    """The product's query."""
    return measuring.stream(spark, held.tables, pipeline, records=size * files)


def plain(
    spark: SparkSession, held: Held, pipeline: Pipeline, workload: Workload, files: int, sink: str
) -> StreamingQuery:
    """The same by Structured Streaming alone."""
    out, checkpoint = held.tables.uri("plain"), held.tables.uri("plain-checkpoint")

    def write(frame: DataFrame, number: int) -> None:
        if sink == "spark":
            options = {"txnAppId": "plain", "txnVersion": str(number)}
            frame.write.format("delta").mode("append").options(**options).save(out)
            return
        rows = frame.toArrow()
        if rows.num_rows:
            write_deltalake(out, rows, mode="append")

    measures = [F.expr(text).alias(name) for name, text in workload.measures.items()]
    counted = (
        spark.readStream.format("delta").option("maxFilesPerTrigger", files)
        .load(held.tables.events(pipeline.types).uri)
        .withWatermark("event_time", workload.delay)
        .groupBy(F.window("event_time", *workload.window), *workload.keys).agg(*measures)
        .select(F.col("window.start").alias("window_start"), *workload.keys, *workload.measures)
    )  # fmt: skip
    return (
        counted.writeStream.foreachBatch(write).outputMode("append")
        .option("checkpointLocation", checkpoint).start()
    )  # fmt: skip


def wrong(answers: pa.Table, source: Path, workload: Workload) -> tuple[int, int]:
    """Windows whose count differs from DuckDB's over all records, and how many there are."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("answers", answers)
    keys = ", ".join(("window_start", *workload.keys))
    return con.execute(
        f"""WITH source AS (FROM '{source}/*.parquet'), truth AS ({workload.truth})
            SELECT count(*) FILTER (a.n IS DISTINCT FROM t.n), count(*)
            FROM truth t FULL JOIN answers a USING ({keys})"""
    ).fetchone()


@dataclass
class Row:
    """One engine at one size of micro-batch."""

    engine: str
    files: int
    steady: list[float]
    whole: list[float]
    note: str = ""


def measure(
    spark: SparkSession, home: Path, pipeline: Pipeline, workload: Workload, row: Row, records: int
) -> Callable[[], pa.Table]:
    """One run; returns what gives its timely answers."""
    work = home / "work"
    shutil.rmtree(work, ignore_errors=True)
    held = Held(home / "log", work, Tables(str(home / "log"), pipeline.name), pipeline)
    began = time.monotonic()
    size = -(-records // FILES)
    if row.engine == "ours":
        query = ours(spark, held, pipeline, row.files, size)
    else:
        query = plain(spark, held, pipeline, workload, row.files, row.engine.split()[-1])
    query.processAllAvailable()
    started = time.monotonic() - began
    held.release()
    released = time.monotonic()
    query.processAllAvailable()
    seconds = time.monotonic() - released
    query.stop()
    row.steady.append(seconds)
    row.whole.append(started + seconds)
    if row.engine == "ours":
        step = pipeline.specs[0]
        names = ["window_start", *workload.keys, "n"]
        timely = timely_answers(held.tables, step).select(names)

        def corrected() -> pa.Table:
            correct_pipeline(spark, held.tables, pipeline, SystemClock(), "benchmark")
            return answers_in_force(held.tables, step).select(names)

        row.note = f"{wrong(timely, home / 'source', workload)[0]:,}"
        return corrected
    out = held.tables.uri("plain")
    return lambda: spark.read.format("delta").load(out).toArrow()


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--workload", choices=["mars_100", "mars_10k", "aircraft"], default="mars_100"
    )
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--source", type=Path, help="sightings, for aircraft")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--files", type=int, nargs="*", default=[1, 4, FILES])
    args = parser.parse_args()
    workload = AIRCRAFT if args.workload == "aircraft" else MARS
    state = measuring.machine()
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        if workload is MARS:
            generate(home / "source", args.records, 100 if args.workload == "mars_100" else 10_000)
        else:
            sightings(home / "source", args.source)
        pipeline, tables = measuring.pipeline_in(home, workload.yaml)
        measuring.start_of_log(tables, pipeline)
        began = time.monotonic()
        records = measuring.ingest(tables, pipeline, home, each=True)
        taken = time.monotonic() - began
        engines = ("ours", "plain deltalake", "plain spark")
        rows = [Row(e, n, [], []) for n in args.files for e in engines]
        with measuring.session("benchmark") as spark:
            for rep in range(args.reps + 1):  # the first warms up
                for row in rows:
                    answers = measure(spark, home, pipeline, workload, row, records)
                    print(f"rep {rep} {row.engine} x{row.files}: {row.steady[-1]:.2f} s",
                          file=sys.stderr, flush=True)  # fmt: skip
                    if rep == args.reps:
                        bad, windows = wrong(answers(), home / "source", workload)
                        said = (
                            f"{row.note} timely, {bad:,} after correction"
                            if row.note
                            else f"{bad:,}"
                        )
                        row.note = f"{said} of {windows:,}"
                    shutil.rmtree(home / "work", ignore_errors=True)
        report(args.workload, rows, records, taken, state)


def report(name: str, rows: list[Row], records: int, taken: float, state: str) -> None:
    """The table, and the picture."""
    middle = {(r.engine, r.files): statistics.median(r.steady[1:]) for r in rows}
    rest = records - records // FILES
    table = []
    for row in rows:
        seconds = middle[row.engine, row.files]
        ratio = middle["plain deltalake", row.files] / seconds
        table.append(
            (row.engine, f"{row.files * records // FILES:,}", f"{rest / seconds:,.0f}",
             f"{min(row.steady[1:]):.2f}-{max(row.steady[1:]):.2f}", f"{ratio:.2f}",
             f"{records / statistics.median(row.whole[1:]):,.0f}", row.note)
        )  # fmt: skip
    headers = (
        "engine",
        "records a micro-batch",
        "records/s",
        "seconds",
        "ratio",
        "with start",
        "wrong windows",
    )
    print(f"\n{name}: {records:,} records; {state}; after: {os.getloadavg()[0]:.1f}\n")
    print(measuring.markdown(headers, table))
    print(f"\ningest, Parquet to sealed blocks: {records / taken:,.0f} records/s")
    groups = {
        f"{n * records // FILES:,} a micro-batch": {
            r.engine: rest / middle[r.engine, n] / 1e6 for r in rows if r.files == n
        }
        for n in dict.fromkeys(r.files for r in rows)
    }
    measuring.bars(f"step-{name}", f"A step's throughput, {name}", "M records/s", groups)


if __name__ == "__main__":
    main()
