"""What syncing costs: the same commits with and without it, in turns, on one disk.

    python benchmarks/sync.py [--plans 60] [--reps 3]

A plan is a file of 256 records through the door: commits of ``plans``, ``events`` and ``blocks``. A
large one has 50,000 records.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import measuring
import pyarrow.parquet as pq
import step

from penstock.core.clock import SystemClock
from penstock.lake.ingest.door import Door
from penstock.lake.storage import durable

SIZES = (256, 50_000)


def plans_taken(home: Path, records: pq.ParquetFile, size: int, count: int) -> float:
    """Seconds a plan, each made of one file; the first is not counted."""
    home.mkdir()
    pipeline, tables = measuring.pipeline_in(home, step.MARS.yaml)
    door, spent = Door(tables, pipeline, home, SystemClock()), 0.0
    (home / "source").mkdir(exist_ok=True)
    table = records.read()
    for number in range(count + 1):
        pq.write_table(table.slice(0, size), home / "source" / f"{number:04d}.parquet")
        began = time.monotonic()
        assert door.work() == size
        spent += (time.monotonic() - began) * (number > 0)
    return spent / count


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--plans", type=int, default=60)
    parser.add_argument("--reps", type=int, default=3)
    args = parser.parse_args()
    state, rows = measuring.machine(), []
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, "made")
        step.generate(made, max(SIZES), 100, max(SIZES) / 3_333, 1)
        records = pq.ParquetFile(next(iter(sorted(made.iterdir()))))
        for size in SIZES:
            found: dict[bool, list[float]] = {True: [], False: []}
            for rep in range(args.reps):
                for synced in (True, False):
                    durable.synced = lambda on=synced: on  # type: ignore[assignment,misc]
                    home = Path(scratch, f"{size}-{rep}-{synced}")
                    found[synced].append(plans_taken(home, records, size, args.plans) * 1e3)
            for synced, spans in found.items():
                middle = f"{statistics.median(spans):.1f}"
                spread = f"{min(spans):.1f}-{max(spans):.1f}"
                rows.append((f"{size:,}", "yes" if synced else "no", middle, spread))
    print(f"\n{args.plans} plans, {args.reps} times; {state}\n")
    print(measuring.markdown(("records a plan", "synced", "ms a plan", "ms, range"), rows))


if __name__ == "__main__":
    main()
