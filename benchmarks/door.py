"""The door's two ways side by side: one process, and Spark's tasks on the same two cores.

    python benchmarks/door.py [--records 1000000] [--reps 3]

Files as in ingest.py. Both ways take turns over the same source. The first plan, which shows the
columns there are, is one process's in both, and is not measured. Beside the time on the clock
stands what processors worked, in the whole session (Python, JVM, workers): on a busy machine only
that tells what a way costs. Run it in a session of its own: setsid -w.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import ingest
import measuring
import step

from penstock.core.clock import SystemClock
from penstock.lake.ingest.crew import Alone, Crew
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import LIVE
from penstock.spark.crew import SparkCrew

TICKS = os.sysconf("SC_CLK_TCK")


def worked() -> float:
    """Seconds of processors that this session's processes have used, ended ones included."""
    mine, total = os.getsid(0), 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile; whoever waits for it has its time
            continue
        if int(fields[3]) == mine:
            total += sum(map(int, fields[11:15]))
    return total / TICKS


def measured(home: Path, kind: str, source: Path, crew: Crew) -> tuple[float, float, int]:
    """Seconds on the clock, of processors, and records, after the first plan."""
    home.mkdir()
    (home / "source").symlink_to(source)
    pipeline, tables = measuring.pipeline_in(home, ingest.reading(kind))
    door = Door(tables, pipeline, home, SystemClock(), crew)
    door.work()
    began, before = time.monotonic(), worked()
    received = run_through(door, LIVE, None, None)
    assert received, "the first plan took all: more records"
    return time.monotonic() - began, worked() - before, received


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--formats", nargs="+", default=["parquet", "jsonl", "csv"])
    args = parser.parse_args()
    state, rows = measuring.machine(), []
    with tempfile.TemporaryDirectory() as scratch, measuring.session("door") as spark:
        made = Path(scratch, "made")
        files = args.records // ingest.EACH
        step.generate(made, args.records, 100, args.records / 3_333, files)
        crews = {"one process": Alone(), "tasks": SparkCrew(spark)}
        for kind in args.formats:
            source = Path(scratch, f"source-{kind}")
            ingest.write_as(kind, made, source)
            found: dict[str, list[tuple[float, float, int]]] = {way: [] for way in crews}
            for rep in range(args.reps + 1):
                for way, crew in crews.items():
                    home = Path(scratch, f"{kind}-{rep}-{way.replace(' ', '-')}")
                    found[way].append(measured(home, kind, source, crew))
            ratios = [a[0] / b[0] for a, b in zip(*found.values(), strict=True)][1:]
            told = " ".join(f"{ratio:.2f}" for ratio in ratios)
            print(f"{kind}: times faster {told}; seconds and processors: {found}", flush=True)
            for way, each in found.items():
                seconds = [seconds for seconds, _, _ in each[1:]]
                cpu = statistics.median(cpu for _, cpu, _ in each[1:])
                received = each[0][2]
                rows.append(
                    (
                        kind,
                        way,
                        f"{received / statistics.median(seconds):,.0f}",
                        f"{min(seconds):.2f}-{max(seconds):.2f}",
                        f"{cpu / received * 1e6:.2f}",
                        ""
                        if way == "one process"
                        else f"{statistics.median(ratios):.2f}"
                        f" ({min(ratios):.2f}-{max(ratios):.2f})",
                    )
                )
    headers = ("format", "way", "records/s", "seconds", "processors, us a record", "times faster")
    print(f"\n{args.records:,} records; {state}\n")
    print(measuring.markdown(headers, rows))


if __name__ == "__main__":
    main()
