"""What it takes to cut a step's state into another number of tasks, beside what was predicted.

    python benchmarks/rescaling.py [--records 4000000] [--keys 100000 1000000]

A step that keeps the last two records of each key has taken a log; then a host that runs it is
asked for three tasks in place of two, and for two again, once each way: its state moves, and is
rebuilt from the log. Every run is a process of its own.
"""

import argparse
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import pyarrow as pa
from topology import Told

from penstock.core import rescaling
from penstock.core.clock import SystemClock
from penstock.core.rescaling import Way
from penstock.lake.log.rescalings import DONE, rescalings
from penstock.spark.stream_host import StreamHost

PIPELINE = """
source: {files: source}
columns: {key: string, value: double}
event_time: ts
steps:
  live:
    kind: lookup
    keys: [key]
    keep: {last: 2}
    pairs: consecutive
    columns: [value]
    alarm: new.value > old.value + 0.9999
"""
EACH = 500_000


def records(folder: Path, count: int, keys: int) -> None:
    """So many, a microsecond from one to the next."""
    rng = np.random.default_rng(5)
    for first in range(0, count, EACH):
        ts = 1_700_000_000_000_000 + np.arange(first, first + EACH)
        table = pa.table({
            "ts": pa.array(ts, pa.timestamp("us", "UTC")),
            "key": pa.array([f"k{i}" for i in rng.integers(0, keys, EACH)]),
            "value": rng.random(EACH),
        })  # fmt: skip
        measuring.appear(table, folder / f"part-{first:09}.parquet")


def rescaled(home: Path, count: int, keys: int, way: str) -> list[dict[str, Any]]:
    """What two rescalings took, one way."""
    if way == Way.MOVE:
        rescaling.READ_A_SECOND = 1e-3
    else:
        rescaling.MOST_MOVED = 0
    pipeline, tables = measuring.pipeline_in(home, PIPELINE)
    measuring.start_of_log(tables, pipeline)
    (home / "source").mkdir()
    records(home / "source", count, keys)
    measuring.ingest(tables, pipeline, home)
    linked, pulse = [pipeline], Told()
    with measuring.session("rescaling") as spark:
        host = StreamHost(spark, tables, pipeline, home, SystemClock(), pulse,
                          linked=lambda: [*linked])  # fmt: skip
        thread = threading.Thread(target=host.run)
        thread.start()
        while host.progress.answered < count:
            time.sleep(0.1)
        for number, tasks in enumerate((3, 2), 1):
            text = PIPELINE.replace("keep:", f"parallelism: {tasks}\n    keep:")
            linked[:] = [measuring.pipeline_in(home, text)[0]]
            while [each.state for each in rescalings(tables)] != [DONE] * number:
                time.sleep(0.1)
        pulse.stop.set()
        thread.join()
    return [{"kept": r.kept, "moved": r.moved, "records": r.records, "took": r.took,
             "move": r.predicted_move, "rebuild": r.predicted_rebuild}
            for r in rescalings(tables)]  # fmt: skip


RUNS = {"rescaled": rescaled}


def main() -> None:
    """Measure, and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, nargs="*", default=[100_000, 1_000_000])
    args = measuring.asked(parser, RUNS)
    apart = partial(measuring.apart, __file__)
    print(f"{args.records:,} records; {measuring.machine()}\n")
    rows = []
    for keys in args.keys:
        for way in Way:
            found = apart("rescaled", count=args.records, keys=keys, way=way)
            for tasks, each in zip(("2 to 3", "3 to 2"), found, strict=True):
                predicted = each["move"] if way is Way.MOVE else each["rebuild"]
                moved = "" if each["moved"] is None else f"{each['moved']:,}"
                rows.append([f"{keys:,}", tasks, way, f"{each['kept']:,}", moved,
                             f"{predicted:.1f}", f"{each['took']:.1f}"])  # fmt: skip
    head = ["keys", "tasks", "way", "rows of the state", "that moved", "predicted, s", "took, s"]
    print(measuring.markdown(head, rows))


if __name__ == "__main__":
    main()
