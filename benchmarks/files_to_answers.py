"""From source files to answers: everything between a folder of Parquet files and exact answers.

    python benchmarks/files_to_answers.py [--records 4000000] [--sips 100 10000] [--reps 3]

Mars' count on records of 20 columns in files of 200,000: five columns are declared, the other 15
are kept as they are. As in the stream host the door takes the files in a thread of its own while
the step's query starts and answers what is sealed. "timely" ends when every window has its timely
answer; "in force" also holds the correction of what late records touched. Spark runs already; the
first run warms it up. Every answer in force is compared with DuckDB's over all records; where one
is wrong the status is 1.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import measuring
import pyarrow as pa
import step
from pyspark.sql import SparkSession

from penstock.config.pipeline import Pipeline
from penstock.core.clock import SystemClock
from penstock.lake.history.standing import answers_in_force
from penstock.lake.storage.tables import Tables
from penstock.spark.correct import correct_pipeline

EACH = 200_000
DECLARED = "{sip: string, type: string, c0: long, c1: long}"
"""With the event time five columns."""
YAML = step.MARS.yaml.replace("{sip: string, type: string}", DECLARED)


@dataclass(frozen=True, slots=True)
class Taken:
    """One way from files to answers.

    Attributes:
        tables, pipeline: of the lake that it made.
        ingested: seconds until the last block was sealed.
        timely: seconds until the last timely answer.
    """

    tables: Tables
    pipeline: Pipeline
    ingested: float
    timely: float


def take(spark: SparkSession, home: Path, text: str) -> Taken:
    """Door and query beside each other, as in the stream host, until all is answered."""
    pipeline, tables = measuring.pipeline_in(home, text)
    measuring.start_of_log(tables, pipeline)
    ended = list[float]()
    began = time.monotonic()

    def ingest() -> None:
        measuring.ingest(tables, pipeline, home)
        ended.append(time.monotonic() - began)

    door = threading.Thread(target=ingest, name="ingest")
    door.start()
    query = measuring.stream(spark, tables, pipeline)
    door.join()
    query.processAllAvailable()
    timely = time.monotonic() - began
    query.stop()
    return Taken(tables, pipeline, ended[0], timely)


def correct(spark: SparkSession, taken: Taken) -> pa.Table:
    """The answers in force, after late records are repaired."""
    correct_pipeline(spark, taken.tables, taken.pipeline, SystemClock(), "benchmark")
    return answers_in_force(taken.tables, taken.pipeline.specs[0])


def main() -> int:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--sips", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--reps", type=int, default=3)
    args = parser.parse_args()
    state, rows, bad = measuring.machine(), [], 0
    with tempfile.TemporaryDirectory() as scratch, measuring.session("files to answers") as spark:
        for sips in args.sips:
            source = Path(scratch, f"source-{sips}")
            step.generate(source, args.records, sips, files=max(1, args.records // EACH))
            text = YAML.replace("files: source", f"files: {source}")
            found = list[tuple[float, float, float]]()
            for rep in range(args.reps + 1):
                home = Path(scratch, f"home-{rep}")
                taken = take(spark, home, text)
                began = time.monotonic()
                answers = correct(spark, taken)
                found.append((taken.ingested, taken.timely, time.monotonic() - began))
                wrong, windows = step.wrong(answers, source, step.MARS)
                bad += wrong
                shutil.rmtree(home)
            ingested, timely, corrected = zip(*found[1:], strict=True)
            middle = statistics.median(timely)
            in_force = statistics.median(t + c for t, c in zip(timely, corrected, strict=True))
            rows.append(
                (
                    f"{sips:,}",
                    f"{statistics.median(ingested):.2f}",
                    f"{min(timely):.2f}-{max(timely):.2f}",
                    f"{args.records / middle:,.0f}",
                    f"{args.records / in_force:,.0f}",
                    f"{wrong:,} of {windows:,}",
                )
            )
            shutil.rmtree(source)
    headers = ("sips", "last block, s", "timely, s", "timely, records/s", "in force, records/s",
               "windows wrong")  # fmt: skip
    print(f"\n{args.records:,} records of 20 columns; {state}\n")
    print(measuring.markdown(headers, rows))
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
