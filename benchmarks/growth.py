"""Cost of a record as the log grows, and the state that a step keeps.

    python benchmarks/growth.py [--sizes 100000 1000000 10000000]

Mars' count (see step.py) at 3,333 records a second of event time, at most 40 files. The query runs
already and has answered the first file when the rest is committed: its start does not count. State
is the bytes in the checkpoint that answered the data, and the (record, window) pairs then open.
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import measuring
import step
from pyspark.sql import SparkSession

from penstock.config.pipeline import TOGETHER
from penstock.lake.history.checkpoint import newest_checkpoint
from penstock.lake.history.position import position
from penstock.lake.log.blocks import read_summaries
from penstock.lake.storage.tables import Tables, local

RATE, EACH, MOST = 10_000 / 3, 50_000, 40


def measured(spark: SparkSession, home: Path, records: int) -> tuple[float, float, int, int]:
    """Seconds of ingest and of the step, bytes of state, most pairs open."""
    files = max(2, min(records // EACH, MOST))  # before Delta writes a checkpoint of its log
    step.generate(home / "source", records, 100, records / RATE, files)
    pipeline, tables = measuring.pipeline_in(home, step.MARS.yaml)
    measuring.start_of_log(tables, pipeline)
    began = time.monotonic()
    measuring.ingest(tables, pipeline, home, each=True)
    ingest = time.monotonic() - began
    held = step.Held(
        home / "log", home / "work", Tables(str(home / "log"), pipeline.name), pipeline
    )
    most = 0

    def told(_: str, row: dict[str, int]) -> None:
        nonlocal most
        most = max(most, row["pairs_open"])

    spec = pipeline.specs[0]
    query = measuring.stream(spark, held.tables, pipeline, told)
    query.processAllAvailable()
    held.release()
    began = time.monotonic()
    query.processAllAvailable()
    seconds = time.monotonic() - began
    query.stop()
    at = position(held.tables, spec)
    assert at is not None
    assert at.sealed.seq == read_summaries(held.tables)[-1].last_seq
    state = local(newest_checkpoint(held.tables, TOGETHER).uri) / "state"
    size = sum(f.stat().st_size for f in state.rglob("*") if f.is_file())
    return ingest, seconds, size, most


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="*", default=[100_000, 1_000_000, 10_000_000])
    args = parser.parse_args()
    state, rows, costs = measuring.machine(), [], {}
    with measuring.session("growth") as spark:
        for number, records in enumerate([args.sizes[0], *args.sizes]):  # the first warms up
            with tempfile.TemporaryDirectory() as scratch:
                ingest, seconds, size, most = measured(spark, Path(scratch), records)
                shutil.rmtree(scratch, ignore_errors=True)
                Path(scratch).mkdir()
            if not number:
                continue
            cost = (ingest + seconds) / records * 1e6
            costs[f"{records:,}"] = {"us a record": cost}
            base = costs[f"{args.sizes[0]:,}"]["us a record"]
            rows.append(
                (f"{records:,}", f"{ingest:.2f}", f"{seconds:.2f}", f"{cost:.2f}",
                 f"{cost / base:.2f}", f"{size / 1e6:.2f}", f"{most:,}")
            )  # fmt: skip
    headers = (
        "records",
        "ingest s",
        "step s",
        "us a record",
        "to the first",
        "state MB",
        "pairs open, most",
    )
    print(f"\n{state}; after: {os.getloadavg()[0]:.1f}\n")
    print(measuring.markdown(headers, rows))
    measuring.bars("growth", "Cost of a record, ingest and step", "us", costs)


if __name__ == "__main__":
    main()
