"""A live join: how long a pair waits, what a record costs, and the state, as the log grows.

    python benchmarks/join_live.py [--rate 4000] [--minutes 10]

Two streams of ``--rate`` records a second each: a feeder process of its own writes a file every 250
ms, of either stream in turn, event time = clock time with up to 0.5 s of disorder. Pairs lie within
60 s and far apart in value, slack 1 s. Row by row of the table a minute of the log:

- latency: from the commit of the block with a pair's newer record to the commit of the pair;
- processor: the time of all processes of the stream, by records;
- state: bytes of what is kept, and merged runs that stay for a while.

The first minute does not count, in the mean: the JVM warms up, and the state is not full yet. All
pairs of the timely are counted against numpy's in the end, with those that a correction finds.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path

import measuring
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from latency import Alone, rows_of

from penstock.core.clock import SystemClock
from penstock.lake.history.balance import balance
from penstock.lake.history.standing import answers_in_force
from penstock.spark.correct import correct_pipeline
from penstock.spark.stream_host import StreamHost

EVERY, REACH, MINUTE, APART = 0.25, 60 * 10**6, 60.0, 99.9
STREAMS = ("ours", "theirs")
PIPELINE = f"""
sources:
  ours: {{source: {{files: ours}}, columns: {{v: double}}, event_time: ts}}
  theirs: {{source: {{files: theirs}}, columns: {{v: double}}, event_time: ts}}
steps:
  pairs:
    kind: join
    left: ours
    right: theirs
    within: PT60S
    where: abs(left.v - right.v) > {APART}
    select: [left.v, right.v]
    slack: {{fixed: PT1S}}
"""


def feed(home: Path, rate: int, seconds: float) -> None:
    """Write files of the streams in turn, at an even pace; each appears when it is whole."""
    rng, number, began = np.random.default_rng(5), 0, time.time()
    each = int(rate * EVERY * len(STREAMS))
    while time.time() - began < seconds:
        now, name = int(time.time() * 1e6), STREAMS[number % len(STREAMS)]
        ts = pa.array(now - rng.integers(0, 500_000, each), pa.timestamp("us", "UTC"))
        table = pa.table({"ts": ts, "v": rng.random(each) * 100})
        measuring.appear(table, home / name / f"part-{number:06}.parquet")
        number += 1
        time.sleep(max(0.0, began + number * EVERY - time.time()))


def used() -> float:
    """Processor time of this process and all below it, s; of those that ended, too."""
    me = psutil.Process()
    every = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return sum(t.user + t.system + t.children_user + t.children_system for t in every)


def size(home: Path) -> int:
    """Bytes of the runs of the state."""
    found = 0
    for path in home.rglob("*.arrow"):
        try:
            found += path.stat().st_size
        except FileNotFoundError:  # merged and removed meanwhile
            continue
    return found


def waits(tables: object, step: object) -> list[tuple[float, float]]:
    """Of each commit of pairs: when it was, and of each of its pairs the seconds; in order."""
    sealed = {row["last_seq"]: when for when, row in rows_of(tables.blocks().uri, "last_seq")}
    ends, found = sorted(sealed), []
    for when, row in rows_of(tables.answers(step).uri, "left_seq", "right_seq"):
        newer = max(row["left_seq"], row["right_seq"])
        found.append((when, when - sealed[ends[bisect_left(ends, newer)]]))
    return sorted(found)


def pairs(home: Path) -> int:
    """How many there are; one of their values lies near the least, and one near the greatest."""
    made = []
    for name in STREAMS:
        table = pq.read_table(home / name).sort_by("ts")
        times, v = np.asarray(table["ts"].cast(pa.int64())), np.asarray(table["v"])
        outer = (v < 100 - APART) | (v > APART)
        made.append((times[outer], v[outer]))
    (times, v), (others, w) = made
    low = np.searchsorted(others, times - REACH)
    high = np.searchsorted(others, times + REACH, "right")
    return sum(int((np.abs(v[n] - w[low[n] : high[n]]) > APART).sum()) for n in range(len(times)))


def measured(spark: object, home: Path, args: argparse.Namespace) -> list[list[str]]:
    """One run; rows of the table."""
    pipeline, tables = measuring.pipeline_in(home, PIPELINE)
    for name in STREAMS:
        (home / name).mkdir()
    alone, step = Alone(), pipeline.specs[0]
    host = StreamHost(spark, tables, pipeline, home, SystemClock(), alone)
    running = threading.Thread(target=host.run)
    running.start()
    feeder = multiprocessing.get_context("spawn").Process(
        target=feed, args=(home, args.rate, args.minutes * MINUTE)
    )
    feeder.start()
    looks = [(time.time(), used(), host.progress.answered, size(home))]
    for number in range(1, args.minutes + 1):
        time.sleep(max(0.0, looks[0][0] + number * MINUTE - time.time()))
        looks.append((time.time(), used(), host.progress.answered, size(home)))
        print(json.dumps(looks[-1]), file=sys.stderr, flush=True)
    feeder.join()
    files = sum(len([*(home / name).iterdir()]) for name in STREAMS)
    written = files * int(args.rate * EVERY * len(STREAMS))
    while host.progress.answered < written:
        time.sleep(0.5)
    alone.stop.set()
    running.join()
    found = waits(tables, step)
    correct_pipeline(spark, tables, pipeline, SystemClock(), "benchmark")
    counts, there, wanted = balance(tables, step), answers_in_force(tables, step), pairs(home)
    print(f"{len(found):,} pairs at once, {there.num_rows:,} in the end, {wanted:,} by numpy;"
          f" late {counts.late:,}", file=sys.stderr)  # fmt: skip
    if there.num_rows != wanted:
        raise SystemExit("pairs are missing, or were invented")
    rows, every = [], [s for when, s in found if when > looks[1][0]]
    for (at, cpu, done, _), (until, more, upto, held) in pairwise(looks):
        mine, count = [s for when, s in found if at < when <= until], max(1, upto - done)
        rate, cost = (upto - done) / (until - at), (more - cpu) / count * 1e6
        rows.append(
            [f"{len(rows) + 1}", *figures(mine), f"{rate:,.0f}", f"{cost:.0f}", f"{held / 1e6:.1f}"]
        )
    rows.append(["2 and later", *figures(every), "", "", ""])
    return rows


def figures(some: list[float]) -> list[str]:
    """Mean, 95th percentile and greatest."""
    if not some:
        return ["", "", ""]
    return [f"{np.mean(some):.2f}", f"{np.percentile(some, 95):.2f}", f"{max(some):.2f}"]


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=4_000)
    parser.add_argument("--minutes", type=int, default=10)
    args = parser.parse_args()
    state = measuring.machine()
    with measuring.session("join_live") as spark, tempfile.TemporaryDirectory() as scratch:
        rows = measured(spark, Path(scratch), args)
    head = ["minute", "latency, mean, s", "p95, s", "greatest, s", "records/s",
            "processor, us a record", "state, MB"]  # fmt: skip
    print(f"\n{args.rate:,} records a second and stream; {state}\n")
    print(measuring.markdown(head, rows))


if __name__ == "__main__":
    main()
