"""Sizes of micro-batches: found while the stream runs, fixed, and as published.

    python benchmarks/batch_size.py [--records 48000000] [--reps 3] [--simulated]

First simulated: what takes 0.25 s and 1 s for 400,000 records, with noise, while loads change. Ours
beside RTMR's algorithm 1 word for word, and a picture of both. Then real: a log is answered by
Spark with sizes that are fixed, and with one that is found under a bound of two seconds; the rate
of the second half of the records, and how long its micro-batches took.
"""

import argparse
import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

import measuring
import numpy as np
import step
from pyspark.sql import SparkSession

from penstock.config.pipeline import TOGETHER
from penstock.core.batch_size import BatchSize, Bounds, Measured
from penstock.core.clock import SystemClock
from penstock.spark.query import LogQuery

BOUNDS = Bounds(65_536, 4_000_000, 2.0)
FIXED = (250_000, 1_000_000, 4_000_000)
FIXED_SECONDS, NOISE, SEEDS = 0.25, 0.05, 20
LOADS = ((200, math.inf, 4e5), (200, 1e5, 4e5), (200, math.inf, 1e5), (200, math.inf, 8e5))
"""Micro-batches, records a second that arrive, records a second that one more record costs."""


@dataclass
class Published:
    """Algorithm 1 of RTMR, word for word: speeds of the last batch, no noise, no bound."""

    beta: float = 1.0
    arriving: float = 0.0
    speed: float = 0.0

    def after(self, records: int, seconds: float, arrived: float) -> None:
        """Measure lambda' and mu'; adjust beta."""
        arriving, speed = arrived / seconds, records / seconds
        if speed < self.speed:
            self.beta /= 1.05
        elif speed < arriving:
            self.beta += arrived
        else:
            self.beta *= 1.05
        self.beta = min(max(self.beta, 1.0), 1e8)  # or it leaves every machine
        self.arriving, self.speed = arriving, speed


def loads(seed: int) -> Iterator[tuple[float, Callable[[int], float]]]:
    """What arrives, records/s, and what so many take, s, batch by batch."""
    draw = random.Random(seed)  # noqa: S311
    for batches, arriving, speed in LOADS:
        for _ in range(batches):
            slower = math.exp(draw.gauss(0, NOISE))
            yield (
                2e6 if math.isinf(arriving) else arriving,
                lambda records, s=slower, v=speed: (FIXED_SECONDS + records / v) * s,
            )


def simulated(seed: int, published: bool) -> list[tuple[int, float]]:
    """Size and seconds of each batch."""
    ours, theirs, waiting, found = BatchSize.first(BOUNDS), Published(), 1e6, []
    for arriving, takes in loads(seed):
        size = int(theirs.beta) if published else ours.records
        records = max(min(size, int(waiting)), 1)
        seconds = takes(records)
        arrived = arriving * seconds
        waiting = min(waiting + arrived - records, 1e8)
        if published:
            theirs.after(records, seconds, arrived)
        else:
            ours, _ = ours.after(Measured(records, seconds, int(waiting)), BOUNDS)
        found.append((size, seconds))
    return found


def picture(lives: dict[str, list[tuple[int, float]]]) -> Path:
    """Sizes and seconds of one life of each."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5))
    sizes, times = figure.subplots(2, sharex=True)
    for (name, life), colour in zip(lives.items(), ("#0b7285", "#e8590c"), strict=True):
        sizes.semilogy([size for size, _ in life], label=name, color=colour, linewidth=1)
        times.semilogy([seconds for _, seconds in life], color=colour, linewidth=1)
    times.axhline(BOUNDS.seconds, color="#868e96", linewidth=0.8)
    sizes.set_ylabel("records")
    times.set_ylabel("seconds")
    times.set_xlabel("micro-batch")
    sizes.legend(frameon=False)
    path = measuring.PICTURES / "batch_size.svg"
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    return path


def simulate() -> None:
    """Print both, load by load: changes of size and times in the second half of each."""
    lives = {name: [simulated(seed, name == "as published") for seed in range(SEEDS)]
             for name in ("Penstock", "as published")}  # fmt: skip
    rows, first = [], 0
    for batches, arriving, speed in LOADS:
        last = slice(first + batches // 2, first + batches)
        load = f"{'more than can be taken' if math.isinf(arriving) else f'{arriving:,.0f}/s'}"
        for name, some in lives.items():
            tails = [life[last] for life in some]
            rows.append([
                f"{load}, {speed:,.0f}/s", name,
                f"{median(size for life in tails for size, _ in life):,.0f}",
                f"{mean(sum(a[0] != b[0] for a, b in pairwise(life)) for life in tails):.1f}",
                f"{median(s for life in tails for _, s in life):.2f}",
                f"{max(s for life in tails for _, s in life):.2f}",
            ])  # fmt: skip
        first += batches
    heads = ["arriving, processing", "", "size", "changes in 100", "median s", "longest s"]
    print(measuring.markdown(heads, rows))
    print(f"\n{picture({name: some[0] for name, some in lives.items()})}")


def answered(
    spark: SparkSession, home: Path, log: Path, bounds: Bounds
) -> tuple[float, list[float], int]:
    """Answer a log anew: records/s, seconds between sealed micro-batches, and the last size.

    Of its second half: in the first one a size is sought.
    """
    work = home / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(log, work / "log")
    pipeline, tables = measuring.pipeline_in(work, step.MARS.yaml)
    sealed = list[tuple[float, int, int]]()

    def told(_: str, row: dict[str, int]) -> None:
        sealed.append((time.monotonic(), row["records"], row["size"]))

    query = LogQuery(
        spark, tables, pipeline, TOGETHER, SystemClock(), told,
        lambda name, cause: sys.exit(f"{name}: {cause}"), bounds,
    ).start(pipeline.queries[TOGETHER])  # fmt: skip
    query.processAllAvailable()
    query.stop()
    taken = np.cumsum([records for _, records, _ in sealed])
    first = int(np.searchsorted(taken, taken[-1] / 2))
    times = [at for at, *_ in sealed[first:]]
    apart = [b - a for a, b in pairwise(times)]
    return (taken[-1] - taken[first]) / (times[-1] - times[0]), apart, sealed[-1][2]


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=48_000_000)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--simulated", action="store_true", help="only that")
    args = parser.parse_args()
    simulate()
    if args.simulated:
        return
    state = measuring.machine()
    ways = {f"{records:,}": Bounds.fixed(records) for records in FIXED} | {"found": BOUNDS}
    found: dict[str, list[tuple[float, list[float], int]]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as scratch, measuring.session("batch_size") as spark:
        home = Path(scratch)
        step.generate(home / "source", args.records, 100)
        pipeline, tables = measuring.pipeline_in(home, step.MARS.yaml)
        measuring.start_of_log(tables, pipeline)
        measuring.ingest(tables, pipeline, home, each=True)
        answered(spark, home, home / "log", Bounds.fixed(500_000))  # the session's classes
        for rep in range(args.reps):
            for name, bounds in ways.items():
                found[name].append(answered(spark, home, home / "log", bounds))
                print(f"rep {rep} {name}: {found[name][-1][0]:,.0f} records/s",
                      file=sys.stderr, flush=True)  # fmt: skip
    rows = [
        [name, f"{median(speed for speed, _, _ in some):,.0f}",
         f"{median(s for _, apart, _ in some for s in apart):.2f}",
         f"{max(s for _, apart, _ in some for s in apart):.2f}",
         f"{median(size for *_, size in some):,.0f}"]
        for name, some in found.items()
    ]  # fmt: skip
    print(f"\n{args.records:,} records, {state}\n")
    print(measuring.markdown(["size", "records/s", "median s", "longest s", "last size"], rows))


if __name__ == "__main__":
    main()
