"""Joins of two streams on any condition: candidates a second, and many queries on one join.

    python benchmarks/join.py [--rate 4000] [--seconds 240] [--queries 1 2 8 100] [--batch 40000]

Two streams of ``--rate`` records a second each, event times in disorder of up to half a second;
pairs lie within 60 s, before or after. A query asks for values that lie far apart; of several each
asks for more than the one before. The log is full before the stream starts, in blocks of about a
second; micro-batches in which the state is not full yet do not count. Candidates are the pairs near
in time, as a nested loop would compare them; compared are those that the join has looked at. Pairs
of some left records are compared with numpy's.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import measuring
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.lake.history.standing import answers_in_force
from penstock.lake.ingest import door
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table

REACH, LAG, FILE = 60 * 10**6, 500_000, 10
LEAST, MOST = 99.5, 99.9
SAMPLE, WARM = 200, 0.5
"""Left records that are checked; share of the records before which nothing counts."""
STREAMS = ("ours", "theirs")
PIPELINE = """
sources:
  ours: {{source: {{files: ours, mode: bounded}}, columns: {{v: double}}, event_time: ts}}
  theirs: {{source: {{files: theirs, mode: bounded}}, columns: {{v: double}}, event_time: ts}}
steps:
  pairs:
    kind: join
    left: ours
    right: theirs
    within: PT60S
    queries: {{{queries}}}
    select: [left.v, right.v]
    slack: {{fixed: PT1S}}
"""


def thresholds(count: int) -> list[float]:
    """How far apart values must lie, query by query."""
    return np.linspace(LEAST, MOST, count).round(4).tolist()


def write(home: Path, rate: int, seconds: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Files of ten seconds each; returns times and values of both streams, in order of time."""
    begin, made = 1_700_000_000_000_000, {}
    for number, name in enumerate(STREAMS):
        rng = np.random.default_rng(number)
        times = begin + np.arange(rate * seconds) * (10**6 // rate) + number
        values = rng.random(len(times)) * 100
        arrived = np.argsort(times + rng.integers(0, LAG, len(times)), kind="stable")
        (home / name).mkdir()
        for at in range(0, len(times), rate * FILE):
            some = arrived[at : at + rate * FILE]
            rows = {"ts": pa.array(times[some], pa.timestamp("us", "UTC")), "v": values[some]}
            pq.write_table(pa.table(rows), home / name / f"{at:09}.parquet")
        made[name] = times, values
    return made


def run(spark: SparkSession, home: Path, args: argparse.Namespace, count: int) -> list[str]:
    """One run with so many queries: a row of the table."""
    made = write(home, args.rate, args.seconds)
    asked = ", ".join(
        f"q{n:03}: abs(left.v - right.v) > {t}" for n, t in enumerate(thresholds(count))
    )
    pipeline, tables = measuring.pipeline_in(home, PIPELINE.format(queries=asked))
    step, sealed = pipeline.specs[0], list[float]()
    measuring.start_of_log(tables, pipeline)
    door.BLOCK = args.rate
    records = measuring.ingest(tables, pipeline, home)
    query = measuring.stream(
        spark, tables, pipeline, lambda *_: sealed.append(time.perf_counter()), args.batch
    )
    measuring.answered(query, tables, step, records)
    rows = read_table(Table(tables.control(step))).sort_by("micro_batch").to_pylist()
    warm = next(n for n, row in enumerate(rows) if row["through_seq"] > records * WARM) + 1
    counted = [row for row in rows[warm:] if row["records"]]
    took = sealed[len(rows) - 1] - sealed[warm - 1]
    taken, looked = (sum(row[name] for row in counted) for name in ("records", "compared"))
    told = sum(row["answers"] for row in counted)
    near = candidates(made) * taken / records
    check(made, answers_in_force(tables, step), thresholds(count))
    return [f"{count}", f"{taken / took:,.0f}", f"{near / took:.3g}", f"{looked / took:.3g}",
            f"{told / took:,.0f}", f"{told / max(looked, 1):.3f}"]  # fmt: skip


def candidates(made: dict[str, tuple[np.ndarray, np.ndarray]]) -> int:
    """Pairs near in time."""
    left, right = (made[name][0] for name in STREAMS)
    low, high = np.searchsorted(right, left - REACH), np.searchsorted(right, left + REACH, "right")
    return int((high - low).sum())


def check(
    made: dict[str, tuple[np.ndarray, np.ndarray]], found: pa.Table, apart: list[float]
) -> None:
    """Of some left records: how many pairs, and how many queries they name."""
    (times, values), (others, beside) = (made[name] for name in STREAMS)
    some = np.random.default_rng(9).choice(len(times), SAMPLE, replace=False)
    near = np.abs(times[some][:, None] - others[None, :]) <= REACH
    off = np.abs(values[some][:, None] - beside[None, :])
    wanted = sum(int((near & (off > each)).sum()) for each in apart)
    mine = np.isin(np.asarray(found["left_time"].cast(pa.int64())), times[some])
    named = found.filter(pa.array(mine))["queries"].to_pylist()
    there = sum(len(each.split(",")) for each in named)
    if there != wanted or not wanted:
        raise SystemExit(f"{there} names of queries in pairs of a sample, {wanted} expected")


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=4_000)
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--queries", type=int, nargs="*", default=[1, 2, 8, 100])
    parser.add_argument("--batch", type=int, default=40_000)
    args = parser.parse_args()
    state, rows = measuring.machine(), list[list[str]]()
    with measuring.session("join") as spark:
        for count in args.queries:
            with tempfile.TemporaryDirectory() as scratch:
                rows.append(run(spark, Path(scratch), args, count))
                print(*rows[-1], file=sys.stderr, flush=True)
    head = ["queries", "records/s", "candidates/s", "compared/s", "pairs/s", "P"]
    print(f"\n{args.rate:,} records a second and stream, {args.seconds} s; {state}\n")
    print(measuring.markdown(head, rows))


if __name__ == "__main__":
    main()
