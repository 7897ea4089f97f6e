"""A large history: taken in by a preload, and through the stream, up to the first exact answer.

    python benchmarks/preload.py [--plates 10000000] [--seen 1] [--live 1000]

Plates and sites as in plates.py. From the beginning of a preload, or of a stream that has the same
files in its source folder, until live records that came with it are sealed; processes of their
own, one way after the other. All alarms are compared with numpy's.
"""

import argparse
import os
import signal
import tempfile
import time
from pathlib import Path

import measuring
import plates


def first_answer(home: Path, args: argparse.Namespace, preloaded: bool) -> tuple[float, str]:
    """Seconds until the live records are sealed; and how their alarms compare."""
    home.mkdir()
    plates.prepare(home, args.plates, args.seen)
    source = home / "source"
    if preloaded:
        source.mkdir()
    else:
        (home / "history").rename(source)
        (home / "history").mkdir()
    seen, began = plates.Seen(home), time.time()
    if preloaded and plates.begun(home, "preload").wait():
        raise SystemExit((home / "preload.log").read_text()[-3_000:])
    plates.live(source, 0, args.live, args.plates)
    process = plates.begun(home, "stream")
    took = seen.upto(args.plates * args.seen + args.live - 1, process) - began
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return took, plates.compared(seen, args.live, args.plates, args.seen)


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--plates", type=int, default=10_000_000)
    parser.add_argument("--seen", type=int, default=1)
    parser.add_argument("--live", type=int, default=1_000)
    args = parser.parse_args()
    state, rows = measuring.machine(), []
    for what, preloaded in (("preload, then stream", True), ("through the stream", False)):
        with tempfile.TemporaryDirectory() as scratch:
            took, alarms = first_answer(Path(scratch) / "home", args, preloaded)
        rows.append((what, f"{took:.1f}", alarms))
    print(f"\n{args.plates:,} plates, seen {args.seen} times; {state}\n")
    print(measuring.markdown(["", "first exact answer, s", "alarms; missing, invented"], rows))


if __name__ == "__main__":
    main()
