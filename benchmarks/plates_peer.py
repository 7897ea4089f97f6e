"""The fake plates of plates.py, and PyFlink on the same records: keyed state, LAG over each plate.

    python benchmarks/plates_peer.py --python PYFLINK/bin/python [--plates 10000000]
        [--backlog 1000000] [--late 100] [--backends rocksdb hashmap]

PYFLINK is an environment with apache-flink, and the jars that it needs for Parquet. History, then a
backlog of live records, of which one in ``--late`` is an hour late; all files are there at the
beginning. Ours preloads the history and starts a stream, or takes all through the stream. Each way
is a process of its own, or two, from its start to the last alarm of the backlog. What differs from
numpy's alarms is told beside.
"""

import argparse
import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import measuring
import numpy as np
import plates
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

PIECE = 100_000
"""Records of a file of the backlog."""


def records(home: Path, args: argparse.Namespace) -> None:
    """History and backlog, for ours and for the peer."""
    plates.prepare(home, args.plates, 1)
    for first in range(0, args.backlog, PIECE):
        plates.live(home / "source", first, PIECE, args.plates, args.late)
    for folder in ("history", "source"):  # in the order of their names
        for path in sorted((home / folder).glob("*.parquet")):
            table = pq.read_table(path)
            when = pc.cast(pc.cast(table["ts"], pa.timestamp("ms", "UTC"), safe=False), pa.int64())
            table = table.set_column(0, "ts_ms", when)
            (home / "peer").mkdir(exist_ok=True)
            pq.write_table(table, home / "peer" / f"{folder}-{path.name}", compression="snappy")
    here, there = np.nonzero(plates.LIMITS == plates.LONG)
    pairs = [f"s{a:03}s{b:03}" for a, b in zip(here.tolist(), there.tolist(), strict=True)]
    (home / "pairs").write_text("\n".join(pairs))


def ours(home: Path, args: argparse.Namespace, *, preloaded: bool) -> tuple[float, Counter[str]]:
    """Seconds, and how often each plate was an alarm."""
    began = time.time()
    if preloaded and plates.begun(home, "preload").wait():
        raise SystemExit((home / "preload.log").read_text()[-3_000:])
    process, seen = plates.begun(home, "stream"), plates.Seen(home)
    took = seen.upto(args.plates + args.backlog - 1, process) - began
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return took, plates.alarms(seen)


def flink(home: Path, args: argparse.Namespace, backend: str) -> tuple[float, Counter[str]]:
    """The same of the peer."""
    began, into = time.time(), home / f"alarms-{backend}"
    program = Path(__file__).with_name("plates_flink.py")
    command = [args.python, program, home / "peer", into, "--pairs", home / "pairs",
               "--backend", backend]  # fmt: skip
    subprocess.run(command, check=True, env=os.environ | {"JVM_ARGS": "-Xmx10g"})
    took = time.time() - began
    found = [pq.read_table(path) for path in into.rglob("*") if path.is_file()]
    return took, Counter(pa.concat_tables(found)["plate"].to_pylist())


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--plates", type=int, default=10_000_000)
    parser.add_argument("--backlog", type=int, default=1_000_000)
    parser.add_argument("--late", type=int, default=100)
    parser.add_argument("--backends", nargs="*", default=["rocksdb", "hashmap"])
    args = parser.parse_args()
    state, rows = measuring.machine(), []
    truth = plates.expected(args.backlog, args.plates, 1)
    if not truth:
        raise SystemExit("nothing would be compared: there is no alarm")

    def told(what: str, took: float, found: Counter[str]) -> None:
        wrong = f"{(truth - found).total():,}, {(found - truth).total():,}"
        rows.append((what, f"{took:.1f}", f"{truth.total():,}", wrong))
        print(rows[-1], flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        records(home, args)
        told("ours: preload, then stream", *ours(home, args, preloaded=True))
        for backend in args.backends:
            told(f"PyFlink, {backend}", *flink(home, args, backend))
        for path in (home / "history").iterdir():  # older than those of the backlog
            path.rename(home / "source" / path.name)
        (home / "log").rename(home / "former")
        told("ours: all through the stream", *ours(home, args, preloaded=False))
    print(f"\n{args.plates:,} plates; {state}\n")
    print(measuring.markdown(["", "s", "alarms", "missing, invented"], rows))


if __name__ == "__main__":
    main()
