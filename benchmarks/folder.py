"""What a look at a folder costs where one file came: folder.py [FILES] [after].

Takes FILES files, then measures looks (median of 9) at which nothing or one new file waits, and the
memory that the door keeps. Run with PYTHONPATH=include:.
"""

import gc
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from penstock.core.clock import SystemClock
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import LIVE
from penstock.lake.storage.tables import Tables
from tests.steps import SITES, make_pipeline

LINE = '{"event_time": "2024-03-01T12:00:00Z", "site": "x", "code": %d}\n'
EACH_FOLDER = 1_000
LOOKS = 9


def resident() -> int:
    """Bytes of memory in use now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def look(door: Door) -> tuple[float, float]:
    """Seconds of a listing with all that is told from it, and of ``work`` until nothing waits."""
    waiting = door._waiting[LIVE]
    began = time.monotonic()
    waiting._list()
    listed = time.monotonic() - began
    began = time.monotonic()
    run_through(door, LIVE, None, None)
    return listed, time.monotonic() - began


def main(files: int = 5_000, after: str = "keep") -> None:
    """Write the files, take them, measure looks."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)

        def put(number: int) -> None:
            path = home / "live" / f"{number // EACH_FOLDER:04}" / f"{number:07}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(LINE % number)

        for number in range(files):
            put(number)
        source = {"files": str(home / "live"), "format": "jsonl", "mode": "live", "after": after}
        pipeline = make_pipeline(home, {"s": SITES}, source=source)
        gc.collect()
        before, began = resident(), time.monotonic()
        door = Door(Tables(str(home / "lake"), "p"), pipeline, home, SystemClock())
        run_through(door, LIVE, None, None)
        took = time.monotonic() - began
        gc.collect()
        kept = (resident() - before) / files
        quiet = [look(door) for _ in range(LOOKS)]
        fresh = []
        for number in range(files, files + LOOKS):
            put(number)
            fresh.append(look(door))
        print(f"{files:,} files taken in {took:.1f} s; {kept:,.0f} bytes of memory a file")
        for name, times in (("nothing", quiet), ("one file", fresh)):
            listed, worked = (statistics.median(some) for some in zip(*times, strict=True))
            most = max(first for first, _ in times)
            print(f"{name} came: listed and told apart in {listed * 1e3:.0f} ms (at most"
                  f" {most * 1e3:.0f}), taken in {worked * 1e3:.0f} ms")  # fmt: skip


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*(int(g) if g.isdigit() else g for g in given))  # type: ignore[arg-type]
