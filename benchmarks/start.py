"""What a stream of several steps takes to start, and what its Python workers hold when idle.

    python benchmarks/start.py [--steps 2 7] [--records 2000]

Each stream is a process of its own over the same few records. Until every step has sealed its
first micro-batch: seconds, and seconds of a core (of the whole tree, which other work on the
machine does not change). Memory is proportional (PSS): what forked workers share counts once.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import measuring
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.clock import SystemClock
from penstock.spark.stream_host import StreamHost

IDLE = 10.0
PIPELINE = """
source: {files: source}
columns: {key: string, value: double}
event_time: ts
steps:
"""
STEP = """
  step_%d:
    keys: [key]
    window: {size: PT%dM}
    measures: {n: count(*), total: sum(value)}
    slack: {fixed: PT1S}
"""


class Starts:
    """A supervisor's ear: says when every step has sealed something."""

    def __init__(self, steps: int) -> None:
        self.steps, self.sealed = steps, set[str]()

    def beat(self, *, step: str | None = None, **figures: object) -> None:
        """Count the steps that sealed."""
        if step is not None and step not in self.sealed:
            self.sealed.add(step)
            if len(self.sealed) == self.steps:
                print("SEALED", flush=True)

    def works(self, sealed: int) -> None:
        """Nobody listens."""

    def fail(self, error: str) -> None:
        """Nobody listens."""

    def should_stop(self) -> bool:
        """It is killed."""
        return False


def run(home: Path, steps: int) -> None:
    """The stream itself."""
    text = PIPELINE + "".join(STEP % (n, n + 1) for n in range(steps))
    pipeline, tables = measuring.pipeline_in(home, text)
    with measuring.session("start") as spark:
        StreamHost(spark, tables, pipeline, home, SystemClock(), Starts(steps)).run()


def core_of(process: psutil.Process) -> float:
    """Seconds of a core, of itself and of those that it waited for; 0 once it has ended."""
    with suppress(psutil.NoSuchProcess):
        return float(sum(process.cpu_times()[:4]))
    return 0.0


def held_by(process: psutil.Process) -> int:
    """Bytes (PSS); 0 once it has ended."""
    with suppress(psutil.NoSuchProcess):
        return int(process.memory_full_info().pss)
    return 0


def measured(steps: int, records: int) -> tuple[float, float, float, int, float]:
    """Seconds, seconds of a core, MB of Python workers, how many, MB of the JVM."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "source")
        source.mkdir()
        begin = datetime(2024, 3, 1, tzinfo=UTC)
        times = [begin + timedelta(seconds=n) for n in range(records)]
        columns = {"ts": pa.array(times, pa.timestamp("us", "UTC"))}
        columns |= {"key": [f"k{n % 7}" for n in range(records)], "value": [1.0] * records}
        pq.write_table(pa.table(columns), source / "a.parquet")
        began = time.monotonic()
        command = [sys.executable, __file__, "--run", scratch, "--steps", str(steps)]
        stream = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        driver = psutil.Process(stream.pid)
        try:
            assert stream.stdout is not None
            while "SEALED" not in (line := stream.stdout.readline()):
                assert line, "the stream ended"
            taken = time.monotonic() - began
            every = [driver, *driver.children(recursive=True)]
            core = sum(map(core_of, every))
            threading.Event().wait(IDLE)
            children = driver.children(recursive=True)
            java = [each for each in children if each.name() == "java"]
            workers = [each for each in children if each.name().startswith("python")]
            held, heap = sum(map(held_by, workers)) / 1e6, sum(map(held_by, java)) / 1e6
            return taken, core, held, len(workers), heap
        finally:
            for each in [*driver.children(recursive=True), driver]:
                each.kill()
            stream.wait()


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, nargs="*", default=[2, 7])
    parser.add_argument("--records", type=int, default=2_000)
    parser.add_argument("--run", type=Path, help="be the stream in this folder")
    args = parser.parse_args()
    if args.run:
        run(args.run, args.steps[0])
        return
    state = measuring.machine()
    rows = []
    for steps in args.steps:
        taken, core, held, count, heap = measured(steps, args.records)
        rows.append((steps, f"{taken:.1f}", f"{core:.1f}", count, f"{held:.0f}", f"{heap:.0f}"))
    headers = ("steps", "seconds", "seconds of a core", "Python workers", "their MB", "JVM MB")
    print(f"\n{state}\n")
    print(measuring.markdown(headers, rows))


if __name__ == "__main__":
    main()
