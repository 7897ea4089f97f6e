"""A join that gets more than it can bear for a minute: with shedding, and without it.

    python benchmarks/overload.py [--relaxed 600] [--overload 2400] [--base 0.8] [--seconds 60]

A feeder process of its own writes a file every 250 ms: first a while at the relaxed rate, then
``--seconds`` at that of the overload, then at the relaxed one again until the stream has caught up.
Each record is compared with all those within 10 s of it: the condition has no index. How far the
stream is behind is looked at once a second: seconds since the newest record came of which all pairs
were told. In the end a correction finds the pairs of what was shed, and all are compared with
numpy's. Both runs have the same records.
"""

import argparse
import multiprocessing
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import measuring
import numpy as np
import pyarrow as pa
from latency import Alone
from pyspark.sql import SparkSession

from penstock.core.clock import SystemClock
from penstock.lake.history.balance import balance
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.spark.correct import correct_pipeline
from penstock.spark.stream_host import StreamHost

EVERY, REACH, WARM_UP = 0.25, 10 * 10**6, 30.0
LEAST = 9_990.0
PIPELINE = """
source: {{files: source}}
columns: {{v: double, w: double}}
event_time: ts
steps:
  pairs:
    kind: join
    within: PT10S
    where: left.v * right.w > {least}
    slack: {{fixed: PT1S}}
{shed}"""


@dataclass
class Feed:
    """What comes, and when: file by file.

    Attributes:
        sizes: records of each file.
        began: when the first one came, s.
    """

    sizes: list[int]
    began: float = field(default_factory=time.time)

    def file(self, number: int) -> pa.Table:
        """Records up to half a second old."""
        rng = np.random.default_rng(number)
        count, now = self.sizes[number], int((self.began + number * EVERY) * 1e6)
        ts = pa.array(now - rng.integers(0, 500_000, count), pa.timestamp("us", "UTC"))
        return pa.table({"ts": ts, "v": rng.random(count) * 100, "w": rng.random(count) * 100})

    def write(self, folder: str) -> None:
        """Write all of them, each at its time."""
        for number in range(len(self.sizes)):
            time.sleep(max(0.0, self.began + number * EVERY - time.time()))
            measuring.appear(self.file(number), Path(folder, f"part-{number:06}.parquet"))


def run(spark: SparkSession, home: Path, args: argparse.Namespace, base: float) -> list[str]:
    """One run; a row of the table."""
    shed = f"    shed: {{base: {base}, within: PT{args.within}S}}\n" if base else ""
    pipeline, tables = measuring.pipeline_in(home, PIPELINE.format(least=LEAST, shed=shed))
    source, alone, step = home / "source", Alone(), pipeline.specs[0]
    source.mkdir()
    host = StreamHost(spark, tables, pipeline, home, SystemClock(), alone)
    running = threading.Thread(target=host.run)
    running.start()
    phases = ((WARM_UP, args.relaxed), (args.seconds, args.overload), (args.after, args.relaxed))
    feed = Feed([int(rate * EVERY) for last, rate in phases for _ in range(int(last / EVERY))])
    context = multiprocessing.get_context("spawn")
    feeder = context.Process(target=feed.write, args=(str(source),))
    feeder.start()
    ends, behind = [*accumulate(feed.sizes)], list[tuple[float, float]]()
    while True:
        time.sleep(1)
        now, answered = time.time(), host.progress.answered
        whole = bisect_right(ends, answered)  # files that are answered
        if whole < len(ends):
            behind.append((now - feed.began, now - feed.began - whole * EVERY))
        elif not feeder.is_alive():
            break
    caught_up = time.time() - feed.began - sum(last for last, _ in phases)
    alone.stop.set()
    running.join()
    timely = timely_answers(tables, step).num_rows
    known = balance(tables, step)
    assert known is not None
    began = time.perf_counter()
    correct_pipeline(spark, tables, pipeline, SystemClock(), "benchmark")
    took = time.perf_counter() - began
    there, wanted = answers_in_force(tables, step).num_rows, pairs(feed)
    if there != wanted:
        raise SystemExit(f"{there:,} pairs after the correction, {wanted:,} expected")
    over = [lag for at, lag in behind if WARM_UP <= at <= WARM_UP + args.seconds]
    late = [lag for at, lag in behind if at > WARM_UP + args.seconds]
    return [
        f"{base:.0%}" if base else "none", f"{np.median(over):.1f}", f"{max(over):.1f}",
        f"{max([0.0, *late]):.1f}", f"{max(0.0, caught_up):.0f}",
        f"{known.shed / known.accepted:.1%}", f"{wanted:,}", f"{timely / wanted:.1%}",
        f"{wanted - there}", f"{took:.0f}",
    ]  # fmt: skip


def pairs(feed: Feed) -> int:
    """How many there are, by looking at all that lie within reach."""
    whole = pa.concat_tables([feed.file(number) for number in range(len(feed.sizes))])
    times = np.asarray(whole["ts"].cast(pa.int64()))
    order = np.argsort(times, kind="stable")
    times, v, w = times[order], np.asarray(whole["v"])[order], np.asarray(whole["w"])[order]
    low = np.searchsorted(times, times - REACH)
    high = np.searchsorted(times, times + REACH, "right")
    return sum(
        int((v[n] * w[low[n] : high[n]] > LEAST).sum()) - int(v[n] * w[n] > LEAST)
        for n in range(len(times))
    )


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--relaxed", type=int, default=600)
    parser.add_argument("--overload", type=int, default=2_400)
    parser.add_argument("--base", type=float, default=0.8)
    parser.add_argument("--within", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--after", type=float, default=60)
    args = parser.parse_args()
    state, rows = measuring.machine(), list[list[str]]()
    with measuring.session("overload") as spark:
        for base in (0.0, args.base):
            with tempfile.TemporaryDirectory() as scratch:
                rows.append(run(spark, Path(scratch), args, base))
                print(*rows[-1], file=sys.stderr, flush=True)
    head = ["sheds at most", "behind, median, s", "greatest, s", "afterwards, s",
            "caught up after, s", "shed", "pairs", "in time", "missing",
            "correction, s"]  # fmt: skip
    print(f"\n{args.overload:,} records/s for {args.seconds:.0f} s; {state}\n")
    print(measuring.markdown(head, rows))


if __name__ == "__main__":
    main()
