"""A state three times as large as the memory that is left for it: live records against all of it.

    python benchmarks/state_memory.py [--plates 10000000] [--backlog 800000] [--reps 4]

Plates as in plates.py. Backlogs are answered by one stream, by turns: with memory for everything,
and bounded, at each moment, to what its Python processes, which read the state, hold themselves,
and a third of the state's files. The bound is that of a control group (memory controller, version
1), so it needs root; how much of files the group then holds in memory (median) is told beside the
rate. The JVM, whose heap grows as it likes, is outside. All alarms are compared with numpy's.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from statistics import median
from typing import Self

import measuring
import plates
import psutil

GROUP = Path("/sys/fs/cgroup/memory/penstock_state")
WARM = 2
"""So many backlogs come first."""


def grouped(process: subprocess.Popen[bytes]) -> None:
    """Put a process that has just begun into the group, which has no bound, but for its JVM."""
    GROUP.mkdir(exist_ok=True)
    bound(-1)
    (GROUP / "cgroup.procs").write_text(str(process.pid))
    while not (found := [p for p in psutil.Process(process.pid).children() if p.name() == "java"]):
        time.sleep(0.01)
    (GROUP.parent / "cgroup.procs").write_text(str(found[0].pid))


def bound(limit: int) -> None:
    """Bound the group; what files hold beyond it is let go at once.  -1: no bound."""
    (GROUP / "memory.limit_in_bytes").write_text(str(limit))


class Bounded(threading.Thread):
    """Keeps the group at what its processes alone hold and so much of files, until it is left."""

    def __init__(self, files: int) -> None:
        super().__init__(daemon=True)
        self.files, self.over, self.cached = files, threading.Event(), list[int]()

    def __enter__(self) -> Self:
        self.start()
        return self

    def run(self) -> None:
        """Again and again: what processes hold comes and goes."""
        while not self.over.wait(0.01):
            with suppress(OSError):  # of what cannot be let go yet
                bound(held("rss") + self.files)
            self.cached.append(held("cache"))

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()
        bound(-1)


def held(what: str) -> int:
    """Bytes that the group holds: ``cache`` of files, ``rss`` of its processes alone."""
    lines = (GROUP / "memory.stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"total_{what} "))


def main() -> None:
    """Measure, and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--plates", type=int, default=10_000_000)
    parser.add_argument("--backlog", type=int, default=800_000)
    parser.add_argument("--reps", type=int, default=4)
    args = parser.parse_args()
    machine = measuring.machine()
    with tempfile.TemporaryDirectory() as scratch:
        measure(Path(scratch), args, machine)


def measure(home: Path, args: argparse.Namespace, machine: str) -> None:
    """All of it in one folder."""
    if args.backlog * (WARM + args.reps * 2.4) > args.plates:
        raise SystemExit("each live record is to be of another plate: take more plates")
    plates.prepare(home, args.plates, 1)
    (home / "source").mkdir()
    seen, number = plates.Seen(home), 0
    if plates.begun(home, "preload").wait():
        raise SystemExit((home / "preload.log").read_text()[-3_000:])
    process = plates.begun(home, "stream")
    grouped(process)

    def answered(count: int) -> float:
        nonlocal number
        plates.live(home / "source", number, count, args.plates)
        number, began = number + count, time.time()
        return count / (seen.upto(args.plates + number - 1, process) - began)

    rates: dict[str, list[float]] = {"in memory": [], "bounded": []}
    files: dict[str, int] = {}
    try:
        for _ in range(WARM):
            answered(args.backlog)  # workers and JVM warm up
        for _ in range(args.reps):
            for name, some in rates.items():
                state = sum(file.stat().st_size for file in home.rglob("*.arrow"))
                with Bounded(state // 3) if name == "bounded" else nullcontext() as bounded:
                    answered(args.backlog // 5)
                    some.append(answered(args.backlog))
                files[name] = int(median(bounded.cached)) if bounded else held("cache")
                said = f"state {state / 1e6:,.0f} MB, in memory {files[name] / 1e6:,.0f} MB"
                print(f"{name}: {some[-1]:,.0f} records/s, {said}", file=sys.stderr, flush=True)
    finally:
        bound(-1)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    print(f"\n{args.plates:,} plates, {machine}; alarms; missing, invented:"
          f" {plates.compared(seen, number, args.plates, 1)}\n")  # fmt: skip
    rows = [(name, f"{median(some):,.0f}", f"{files[name] / 1e6:,.0f}")
            for name, some in rates.items()]  # fmt: skip
    print(measuring.markdown(["", "records/s", "files in memory, MB"], rows))
    whole, some = (median(each) for each in rates.values())
    print(f"\nbounded / in memory: {some / whole:.3f}")


if __name__ == "__main__":
    main()
