"""What an audit costs beside what it audits.

    python benchmarks/audit.py [--records 5000000]

Mars' count (see step.py). "audit" recomputes every answer and judges it (Spark's comparison and the
suite of Great Expectations). All is warm: a tenth of the records went the whole way before.
"""

import argparse
import os
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import measuring
import pandas as pd
import step
from pyspark.sql import SparkSession

from penstock.config.pipeline import Pipeline
from penstock.core.clock import SystemClock
from penstock.lake.storage.tables import Tables
from penstock.quality import suite
from penstock.spark import audit
from penstock.spark.correct import correct_pipeline

INTERVAL = timedelta(hours=1)


@dataclass
class Log:
    """An answered log, and the seconds that took."""

    pipeline: Pipeline
    tables: Tables
    home: Path
    ingest: float
    step: float


def audited(spark: SparkSession, log: Log) -> tuple[float, float]:
    """Seconds of the comparison, and of the suite over it."""
    began = time.monotonic()
    rows = audit.Audit(spark, log.tables, log.pipeline, SystemClock()).comparisons(INTERVAL)
    compared = time.monotonic()
    verdict = suite.run_suite(
        pd.DataFrame(rows),
        pipeline=log.pipeline.name,
        steps=[row["step"] for row in rows],
        run_name=f"benchmark-{time.time_ns()}",
        root=log.home / "gx",
        site=log.home / "docs",
        at=datetime.now(UTC),
    )
    assert verdict.success, [f.claim for f in verdict.failed]
    return compared - began, time.monotonic() - compared


def answered(spark: SparkSession, home: Path, records: int) -> Log:
    """A log taken in, answered and corrected."""
    step.generate(home / "source", records, 100)
    pipeline, tables = measuring.pipeline_in(home, step.MARS.yaml)
    measuring.start_of_log(tables, pipeline)
    began = time.monotonic()
    measuring.ingest(tables, pipeline, home)
    ingested = time.monotonic()
    query = measuring.stream(spark, tables, pipeline)
    query.processAllAvailable()
    done = time.monotonic()
    query.stop()
    correct_pipeline(spark, tables, pipeline, SystemClock(), "benchmark")
    return Log(pipeline, tables, home, ingested - began, done - ingested)


def apart(spark: SparkSession, log: Log) -> float:
    """Seconds of as many audits as there are checks, each with one of them."""
    every, total = suite.CHECKS, 0.0
    try:
        for check in every:
            suite.CHECKS = (check,)
            total += sum(audited(spark, log))
    finally:
        suite.CHECKS = every
    return total


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=5_000_000)
    args = parser.parse_args()
    state = measuring.machine()
    with tempfile.TemporaryDirectory() as scratch, measuring.session("audit") as spark:
        warm = answered(spark, Path(scratch) / "warm", args.records // 10)
        for _ in range(2):
            audited(spark, warm)
        log = answered(spark, Path(scratch) / "measured", args.records)
        compared, judged = sorted(audited(spark, log) for _ in range(3))[1]
        singly = apart(spark, log)
    cost = log.ingest + log.step
    rows = [
        ("ingest", f"{log.ingest:.2f}", ""),
        ("step, with the start of its query", f"{log.step:.2f}", ""),
        ("audit: comparison", f"{compared:.2f}", f"{compared / cost:.0%}"),
        ("audit: suite and report", f"{judged:.2f}", f"{judged / cost:.0%}"),
        ("audit, whole", f"{compared + judged:.2f}", f"{(compared + judged) / cost:.0%}"),
        ("one expectation at a time", f"{singly:.2f}", f"{singly / (compared + judged):.1f} times"),
    ]
    print(f"\n{args.records:,} records; {state}; after: {os.getloadavg()[0]:.1f}\n")
    print(measuring.markdown(("what", "s", "of ingest and step"), rows))
    bars = {"ingest": log.ingest, "step": log.step, "audit": compared + judged}
    measuring.bars("audit", f"Audit of {args.records:,} records", "s", {"": bars})


if __name__ == "__main__":
    main()
