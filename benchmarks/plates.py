"""Fake plates over ten million plates: a look-up's history is loaded, and live records compared.

    python benchmarks/plates.py [--plates 10000000] [--seen 1] [--rates 5000 10000] [--seconds 30]

Records of 200 bytes: plate, site, and what else a camera says. History: each plate ``--seen`` times
in the last two days. A live record names another plate each time. A pair of sites of side data says
how soon a plate may be seen again; two pairs of a hundred say four days. Processes of their own
preload (as the job does) and run the stream; times are those of files and of commits:

- preload: until the job has ended; first answer: from the start of the stream's process until a
  live record is sealed; again after kill -9;
- latency: from a source file to the commit that seals it, by records a second;
- backlog: so many records at once.

All alarms, of the history too, are compared with numpy's.
"""

import argparse
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import mean, quantiles

import measuring
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from latency import EVERY, Alone, rows_of

from penstock.core.clock import SystemClock
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import HISTORY
from penstock.spark.correct import correct_pipeline, start_epochs
from penstock.spark.crew import SparkCrew
from penstock.spark.stream_host import StreamHost

SITES, FILE, DAY, HOUR = 100, 500_000, 86_400 * 10**6, 3_600 * 10**6
SOON, LONG = 60.0, 4 * 86_400.0
LIVE = 1_000
"""What time it is that a live record sees a plate."""
LIMITS = np.where(np.random.default_rng(1).random((SITES, SITES)) < 0.02, LONG, SOON)
PIPELINE = """
source: {files: source}
history: {files: history}
columns: {plate: string, site: string}
event_time: ts
load:
  limits:
    files: limits.parquet
    columns: {here: string, there: string, seconds: double}
    keys: [here, there]
steps:
  fakes:
    kind: lookup
    keys: [plate]
    keep: {last: 4}
    pairs: consecutive
    columns: [site]
    load: {limits: {here: old.site, there: new.site}}
    alarm: new.site <> old.site AND apart < limits.seconds
"""


def site_of(plates: np.ndarray, which: int) -> np.ndarray:
    """A site for each plate, another one for each time it is seen."""
    return (plates * 7_919 + which * 104_729) % 1_000_003 % SITES


def limit(here: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Seconds between two sites."""
    return LIMITS[here, there]


def write(path: Path, plates: np.ndarray, sites: np.ndarray, times: np.ndarray) -> None:
    """A file of records, there once it is whole; 170 bytes of each do not repeat."""
    rng = np.random.default_rng(len(plates) + int(plates[0]))
    rest = rng.integers(97, 123, (len(plates), 170), np.uint8).view("S170").ravel()
    table = pa.table({
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
        "plate": pa.array([f"P{n:09}" for n in plates.tolist()]),
        "site": pa.array([f"s{n:03}" for n in range(SITES)]).take(pa.array(sites)),
        "rest": pa.array(rest.astype("U170")),
    })  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    measuring.appear(table, path, compression="snappy")


def prepare(home: Path, plates: int, seen: int) -> None:
    """History and side data."""
    here, there = np.divmod(np.arange(SITES * SITES), SITES)
    names = pa.array([f"s{n:03}" for n in range(SITES)])
    limits = {"here": names.take(pa.array(here)), "there": names.take(pa.array(there))}
    pq.write_table(pa.table(limits | {"seconds": limit(here, there)}), home / "limits.parquet")
    begin = int(time.time() * 1e6) - 2 * DAY
    for which in range(seen):
        for first in range(0, plates, FILE):
            some = np.arange(first, min(first + FILE, plates))
            times = begin + which * DAY // seen + some * (DAY // seen) // plates
            write(
                home / "history" / f"{which}-{first:010}.parquet", some, site_of(some, which), times
            )


def feed(folder: Path, first: int, plates: int, rate: int, seconds: float) -> None:
    """Files at an even pace, each record of another plate."""
    began, each = time.time(), int(rate * EVERY)
    for number in range(int(seconds / EVERY)):
        at = first + number * each
        live(folder, at, each, plates)
        time.sleep(max(0.0, began + (number + 1) * EVERY - time.time()))


def live(folder: Path, first: int, count: int, plates: int, late: int = 0) -> None:
    """Live records, numbered from ``first`` on, in one file; one of so many is an hour late."""
    some = plate_of(np.arange(first, first + count), plates)
    times = np.full(count, int(time.time() * 1e6))
    if late:
        times[::late] -= HOUR
    write(folder / f"{first:012}.parquet", some, site_of(some, LIVE), times)


def plate_of(number: np.ndarray, plates: int) -> np.ndarray:
    """Scattered, no plate twice."""
    return number * 7_368_787 % plates


def preload(home: Path) -> None:
    """As the job."""
    pipeline, tables = measuring.pipeline_in(home, PIPELINE)
    with measuring.session("preload") as spark:
        door = Door(tables, pipeline, home, SystemClock(), SparkCrew(spark))
        run_through(door, HISTORY, None, None)
        start_epochs(tables, pipeline, SystemClock())
        correct_pipeline(spark, tables, pipeline, SystemClock(), "benchmark")


def stream(home: Path) -> None:
    """Until it is killed."""
    pipeline, tables = measuring.pipeline_in(home, PIPELINE)
    with measuring.session("plates") as spark:
        StreamHost(spark, tables, pipeline, home, SystemClock(), Alone()).run()


def begun(home: Path, role: str) -> subprocess.Popen[bytes]:
    """A process of its own."""
    command = [sys.executable, __file__, "--role", role, "--home", str(home)]
    with (home / f"{role}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


class Seen:
    """What commits say."""

    def __init__(self, home: Path) -> None:
        self.pipeline, self.tables = measuring.pipeline_in(home, PIPELINE)
        self.home, self.step = home, self.pipeline.specs[0]

    def sealed(self) -> dict[int, float]:
        """When a position was sealed."""
        rows = rows_of(self.tables.control(self.step).uri, "through_seq")
        return {row["through_seq"]: when for when, row in rows}

    def upto(self, seq: int, process: subprocess.Popen[bytes]) -> float:
        """When a position was; waits for it."""
        while True:
            if found := [when for last, when in self.sealed().items() if last >= seq]:
                return min(found)
            if process.poll() is not None:
                raise SystemExit(f"the stream ended: see {self.home}/stream.log")
            time.sleep(0.5)

    def waits(self, first: int, count: int, each: int, before: int) -> list[float]:
        """Seconds from each file to the commit that sealed it.

        Args:
            first: number of its first live record.
            count, each: so many records in files of so many.
            before: positions of the log before the first live record.
        """
        sealed, found = sorted(self.sealed().items()), []
        for at in range(first, first + count, each):
            there = (self.home / "source" / f"{at:012}.parquet").stat().st_mtime
            found.append(min(w for last, w in sealed if last >= before + at + each - 1) - there)
        return found


def alarms(seen: Seen) -> Counter[str]:
    """How often each plate was an alarm."""
    rows = rows_of(seen.tables.answers(seen.step).uri, "plate", "reason", "n_records")
    return Counter(row["plate"] for _, row in rows)


def expected(count: int, plates: int, seen: int) -> Counter[str]:
    """The same, by numpy: each observation with the one before it, in the history and live."""
    every, live_ones = np.arange(plates), plate_of(np.arange(count), plates)
    pairs = [(every, which - 1, which) for which in range(1, seen)]
    found = Counter[str]()
    for some, before, now in [*pairs, (live_ones, seen - 1, LIVE)]:
        old, new = site_of(some, before), site_of(some, now)
        fake = (old != new) & (limit(old, new) > 3 * 86_400)
        found.update(f"P{n:09}" for n in some[fake].tolist())
    return found


def compared(seen: Seen, count: int, plates: int, times: int) -> str:
    """How many alarms there must be; how many are missing, and how many more there are."""
    found, truth = alarms(seen), expected(count, plates, times)
    if not truth:
        raise SystemExit("nothing was compared: there is no alarm")
    return f"{truth.total():,}; {(truth - found).total():,}, {(found - truth).total():,}"


def memory(process: subprocess.Popen[bytes]) -> float:
    """Of a process and its children, MiB: what only they have, and their share of the rest."""
    parent = psutil.Process(process.pid)
    return sum(p.memory_full_info().pss for p in [parent, *parent.children(recursive=True)]) / 2**20


def main() -> None:
    """Run and print Markdown tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--role", choices=("preload", "stream"), help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--plates", type=int, default=10_000_000)
    parser.add_argument("--seen", type=int, default=1)
    parser.add_argument("--rates", type=int, nargs="*", default=[5_000, 10_000])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--backlog", type=int, default=1_000_000)
    args = parser.parse_args()
    if args.role:
        {"preload": preload, "stream": stream}[args.role](args.home)
        return
    state = measuring.machine()
    with tempfile.TemporaryDirectory() as scratch:
        measure(Path(scratch), args, state)


def measure(home: Path, args: argparse.Namespace, state: str) -> None:
    """All of it in one folder."""
    prepare(home, args.plates, args.seen)
    (home / "source").mkdir()
    seen, source, before, number = Seen(home), home / "source", args.plates * args.seen, 0
    rows = list[tuple[str, str]]()

    def told(what: str, figure: str) -> None:
        rows.append((what, figure))
        print(f"{what}: {figure}", file=sys.stderr, flush=True)

    began = time.time()
    process = begun(home, "preload")
    if process.wait():
        raise SystemExit((home / "preload.log").read_text()[-3_000:])
    preloaded = time.time() - began
    told("preload, s", f"{preloaded:.1f}")
    for what in ("first answer after the preload, s", "first answer after kill -9, s"):
        live(source, number, 1, args.plates)
        number, began = number + 1, time.time()
        process = begun(home, "stream")
        told(what, f"{seen.upto(before + number - 1, process) - began:.1f}")
        if "kill" not in what:
            number = rated(args, seen, process, number, told)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    live(source, number, args.backlog, args.plates)
    number, began = number + args.backlog, time.time()
    told("a backlog, records/s",
         f"{args.backlog / (seen.upto(before + number - 1, process) - began):,.0f}")  # fmt: skip
    told("memory of the stream, MiB", f"{memory(process):,.0f}")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    told("alarms; missing, invented", compared(seen, number, args.plates, args.seen))
    print(f"\n{args.plates:,} plates, seen {args.seen} times; {state}\n")
    print(measuring.markdown(["", ""], rows))


def rated(args: argparse.Namespace, seen: Seen, process: subprocess.Popen[bytes], number: int,
          told: object) -> int:  # fmt: skip
    """Feed at each rate; returns the number of the next live record."""
    assert callable(told)
    before = args.plates * args.seen
    for rate in args.rates:
        each = int(rate * EVERY)
        count = int(args.seconds / EVERY) * each
        feeder = multiprocessing.get_context("spawn").Process(
            target=feed, args=(seen.home / "source", number, args.plates, rate, args.seconds)
        )
        feeder.start()
        feeder.join()
        seen.upto(before + number + count - 1, process)
        waits = seen.waits(number, count, each, before)
        cuts = quantiles(waits, n=100)
        told(f"latency at {rate:,} records/s: mean, p95, longest, s",
             f"{mean(waits):.2f}, {cuts[94]:.2f}, {max(waits):.2f}")  # fmt: skip
        number += count
    return number


if __name__ == "__main__":
    main()
