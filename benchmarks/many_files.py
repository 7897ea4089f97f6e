"""How long a backlog of small files takes: many_files.py [FILES] [jsonl|parquet] [PLANS].

Prints the seconds of each tenth, or of a few plans only. Run with PYTHONPATH=include:.
"""

import sys
import tempfile
import time
from pathlib import Path

from penstock.core.clock import SystemClock
from penstock.lake.ingest.door import Door
from penstock.lake.storage.tables import Tables
from tests.steps import SITES, make_pipeline
from tests.streams import disordered, write_jsonl, write_parquet

RECORDS = 10


def main(files: int = 100_000, kind: str = "jsonl", plans: int = 0) -> None:
    """Write the files, take them, say how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        home, rows = Path(folder), disordered(RECORDS, seed=1, late_share=0)
        write = {"jsonl": write_jsonl, "parquet": write_parquet}[kind]
        content = write(home / "one", rows).read_bytes()
        for number in range(files):
            path = home / "live" / f"{number // 1000:04}" / f"{number:07}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        source = {"files": str(home / "live"), "format": kind}
        pipeline = make_pipeline(home, {"s": SITES}, source=source)
        door = Door(Tables(str(home / "lake"), "p"), pipeline, home, SystemClock())
        began, taken, done = time.monotonic(), 0, 0
        while (received := door.work()) >= 0:
            taken, done = taken + received, done + 1
            if done == plans or taken // RECORDS % (files // 10) == 0:
                seconds = time.monotonic() - began
                print(f"{taken // RECORDS:,} files, {done} plans, {seconds:.1f} s", flush=True)
            if done == plans:
                return
        print(f"{taken:,} records of {files:,} files in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*(int(g) if g.isdigit() else g for g in given))  # type: ignore[arg-type]
