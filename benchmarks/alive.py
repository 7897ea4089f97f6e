"""What a stream costs on a log of a year: its start, its start after kill -9, its micro-batches.

    python benchmarks/alive.py [--days 1 365] [--batches 30]

The metadata of so many days is made as by age.py, with the records of the last minutes. A process
of its own then opens Spark, starts the query of the pipeline (no checkpoint is there: the state is
rebuilt from the log), and takes files of 5,000 records, one after the other. It is killed with -9
and started again.
"""

import argparse
import queue
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from age import DAY, FIRST, KEYS, PIPELINE, RECORDS, SECOND, aged, table_of

from penstock.lake.history.position import position
from penstock.lake.storage.commit import Table

RECENT = 60
KEPT = 180
"""Seconds of records that are there: more than the open windows hold."""
PATIENCE = 120.0


def recorded(first: int, count: int) -> dict[str, Any]:
    """Columns of records, ``RECORDS`` a second, from a second of the log on."""
    number = np.arange(first * RECORDS, (first + count) * RECORDS, dtype=np.int64)
    at = FIRST + number // RECORDS * SECOND
    keys = np.array([f"key{n}" for n in range(KEYS)])[number % KEYS]
    return {"arrival_seq": number, "event_time": at, "ingest_time": at, "key": keys,
            "block": number // RECORDS, "value": number % 97 * 0.5}  # fmt: skip


def made(home: Path, days: int) -> None:
    """A log of so many days with its last records."""
    pipeline, tables, _ = aged(home, days, RECENT)
    events, last = Table(tables.events(pipeline.types)), days * DAY
    rows = recorded(last - KEPT, KEPT)
    count, none = KEPT * RECORDS, pa.nulls(KEPT * RECORDS)
    rows |= {"origin": ["live"] * count, "extra": none, "read_as": none}
    events.append(table_of(events.spec.schema, rows), "made", 0)


def live(home: Path, batches: int) -> None:
    """Run the stream in this process; prints when it has sealed each file."""
    pipeline, tables = measuring.pipeline_in(home, PIPELINE)
    step, sealed = pipeline.specs[0], queue.SimpleQueue[int]()
    with measuring.session("alive") as spark:
        measuring.stream(spark, tables, pipeline, lambda _, row: sealed.put(row["through_seq"]))
        at = position(tables, step)
        assert at is not None
        first = (at.sealed.seq + 1) // RECORDS
        for number in range(first, first + batches):
            rows = recorded(number, 1)
            times = pa.array(rows["event_time"]).cast(pa.timestamp("us", "UTC"))
            file = {"ts": times, "key": rows["key"], "value": rows["value"]}
            pq.write_table(pa.table(file), home / "source" / f"{number}.parquet")
            began = time.perf_counter()
            measuring.ingest(tables, pipeline, home)
            while sealed.get(timeout=PATIENCE) < (number + 1) * RECORDS - 1:
                pass
            print(f"sealed {time.perf_counter() - began}", flush=True)
        sys.stdin.read()  # it is killed


def lived(home: Path, batches: int) -> tuple[float, list[float]]:
    """Seconds until the first file is sealed, from the start of a process; and of each file."""
    command = [sys.executable, __file__, "--live", str(home), "--batches", str(batches)]
    began, times, first = time.perf_counter(), list[float](), 0.0
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("sealed "):
                first = first or time.perf_counter() - began
                times.append(float(line.split()[1]))
            if len(times) == batches:
                break
        subprocess.run(["pkill", "-9", "-s", str(process.pid)], check=False)
    if len(times) < batches:
        raise SystemExit("the stream ended")
    return first, times


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--live", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--days", type=int, nargs="*", default=[1, 365])
    parser.add_argument("--batches", type=int, default=30, help="more than five")
    args = parser.parse_args()
    if args.live:
        live(args.live, args.batches)
        return
    state, found = measuring.machine(), dict[str, list[float]]()
    for days in args.days:
        with tempfile.TemporaryDirectory() as scratch:
            home = Path(scratch)
            made(home, days)
            start, _ = lived(home, 3)
            again, times = lived(home, args.batches)
            figures = {
                "start, the state rebuilt from the log, s": start,
                "start after kill -9, s": again,
                "micro-batch of 5,000 records, with its ingest, s": median(times[5:]),
            }
            for name, figure in figures.items():
                found.setdefault(name, []).append(figure)
    heads = ("", *(f"day {days}" for days in args.days), "last / first")
    body = [(name, *(f"{each:.2f}" for each in some), f"{some[-1] / some[0]:.2f}")
            for name, some in found.items()]  # fmt: skip
    print(f"\n{state}\n\n{measuring.markdown(heads, body)}")


if __name__ == "__main__":
    main()
