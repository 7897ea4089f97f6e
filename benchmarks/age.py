"""What reads a step's past costs as the log ages.

    python benchmarks/age.py [--days 1 30] [--recent 600]

The metadata of so many days is made directly: a block and a micro-batch a second, 5,000 records
each. Old ones come in files of a day and go through maintenance; the recent ones are in a file
each. Then what runs again and again is timed, from nothing open as a command does it, and as a
process does it that has looked before: the median of nine, the ages in turn. Memory is the most
that a process of its own holds that does each twenty times.
"""

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import measuring
import numpy as np
import pyarrow as pa

from penstock.config.pipeline import Pipeline
from penstock.core.batch_size import Bounds
from penstock.core.clock import SystemClock
from penstock.core.step import StepSpec
from penstock.core.window import FOREVER
from penstock.lake.history import watch
from penstock.lake.history.correction import touched
from penstock.lake.history.generation import current, lived
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.history.offset import Offset, StepOffset
from penstock.lake.history.plans import CorrectionPlan
from penstock.lake.history.position import DONE, LATE, PLANNED, position
from penstock.lake.history.registry import Registry
from penstock.lake.ingest.door import Door
from penstock.lake.log.blocks import slack_changes
from penstock.lake.serve import query, show
from penstock.lake.serve.views import views
from penstock.lake.storage import commit, read
from penstock.lake.storage.commit import Table
from penstock.lake.storage.remembered import Remembered
from penstock.lake.storage.snapshots import Snapshots
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables
from penstock.spark.follow import StepStart
from penstock.spark.roster import Roster
from penstock.spark.source import LogReader, SourceSpec

DAY, RECORDS, SECOND, KEYS = 86_400, 5_000, 1_000_000, 10
FIRST = 1_704_067_200 * SECOND
PIPELINE = """
source: {files: source}
columns: {key: string, value: double}
event_time: ts
steps:
  s:
    keys: [key]
    window: {size: PT1M}
    measures: {n: count(*)}
    slack: {fixed: PT10S}
"""


def rows(spec: TableSpec, first: int, end: int) -> pa.Table:
    """Blocks, or the micro-batches that took them, number ``first`` to ``end`` - 1."""
    number = np.arange(first, end, dtype=np.int64)
    at, zero = FIRST + number * SECOND, np.zeros(end - first, np.int64)
    columns: dict[str, Any] = dict.fromkeys(spec.schema.names, zero)
    columns |= {
        "block": number + (spec.name == "control"), "micro_batch": number,
        "first_seq": number * RECORDS, "last_seq": (number + 1) * RECORDS - 1,
        "through_seq": (number + 1) * RECORDS - 1, "records": zero + RECORDS, "t_max_us": at,
        "accepted": zero + RECORDS, "watermark_us": at - 10 * SECOND, "slack_us": zero + 10**7,
    }  # fmt: skip
    columns |= dict.fromkeys(("t_max", "arrived_at", "sealed_at", "published_at"), at)
    columns |= {"kind": ["data"] * len(number), "origin": ["live"] * len(number)}
    columns |= {"accepted_total": (number + 1) * RECORDS, "late_total": number + 1,
                "answered_total": (number + 1) * RECORDS, "n_records": zero + 1,
                "key": ["a"] * len(number), "reason": ["late"] * len(number)}  # fmt: skip
    columns |= dict.fromkeys(("window_start", "window_end"), at - at % (60 * SECOND))
    none = pa.nulls(len(number))
    columns |= dict.fromkeys(("controller", "late_from_us", "late_to_us"), none)
    return table_of(spec.schema, columns)


def table_of(schema: pa.Schema, columns: dict[str, Any]) -> pa.Table:
    """Columns by name, in a schema's order and types."""
    arrays = [pa.array(columns[f.name]).cast(f.type) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def aged(home: Path, days: int, recent: int, one_of: int = 20) -> tuple[Pipeline, Tables, StepSpec]:
    """A log of so many days, of which the last micro-batches are not compacted.

    One of ``one_of`` answers was corrected.
    """
    pipeline, tables = measuring.pipeline_in(home, PIPELINE)
    measuring.start_of_log(tables, pipeline)
    step, last = pipeline.specs[0], days * DAY
    old = last - recent
    (home / "source").mkdir()
    logs = (tables.blocks(), tables.control(step), tables.late(step, []))
    for spec in logs:
        for number, (first, end) in enumerate(pairwise([*range(0, old, DAY), old])):
            Table(spec).append(rows(spec, first, end), "made", number)
    answered(tables, step, days, one_of)
    maintain_pipeline(tables, pipeline)
    for spec in logs:
        table = Table(spec)
        for number in range(old, last):
            table.append(rows(spec, number, number + 1), "new", number)
    repaired(tables, step, (last - recent) * RECORDS - 1)
    return pipeline, tables, step


def answered(tables: Tables, step: StepSpec, days: int, one_of: int) -> None:
    """An answer a key and minute, a day a file; of one of ``one_of`` a corrected one, too."""
    table, schema = Table(tables.answers(step)), tables.answers(step).schema
    at = np.repeat(np.arange(DAY // 60, dtype=np.int64) * 60 * SECOND, KEYS)
    keys = np.tile([f"key{number}" for number in range(KEYS)], DAY // 60)
    for day in range(days):
        start, parts = FIRST + day * DAY * SECOND + at, []
        through = (start - FIRST) // SECOND * RECORDS + 70 * RECORDS
        for reason, every in (("speed", 1), ("late", one_of)):
            count, is_late = len(at[::every]), int(reason == "late")
            columns: dict[str, Any] = dict.fromkeys(schema.names, np.zeros(count, np.int64))
            columns |= {"key": keys[::every], "reason": [reason] * count, "n": through[::every],
                        "window_start": start[::every], "window_end": start[::every] + 60 * SECOND,
                        "revision": np.full(count, is_late), "published_at": start[::every],
                        "micro_batch": through[::every] // RECORDS,
                        "n_records": np.ones(count, np.int64),
                        "through_seq": through[::every] + is_late,
                        "plan": pa.array([1 if is_late else None] * count, pa.int64())}  # fmt: skip
            parts.append(table_of(schema, columns))
        table.append(pa.concat_tables(parts), "made", day)


def repaired(tables: Tables, step: StepSpec, seq: int) -> None:
    """The late records up to there are corrected."""
    corrections = Table(tables.corrections())
    row = {"step": step.name, "fingerprint": step.fingerprint, "epoch": 0, "plan": 1,
           "reason": LATE, "through_seq": seq, "after_seq": -1, "watermark_us": FIRST}  # fmt: skip
    both = [row | {"state": PLANNED, "recheck": False}, row | {"state": DONE}]
    corrections.append(pa.Table.from_pylist(both, corrections.spec.schema), "made", 0)


def tried(
    home: Path, pipeline: Pipeline, tables: Tables, step: StepSpec
) -> dict[str, Callable[[], Any]]:
    """What is timed, by name."""
    found, at = current(tables, step), position(tables, step)
    assert found is not None
    assert at is not None
    events = tables.events(pipeline.types)
    begun = StepStart(step, found[1])
    roster = Roster(home / "roster")
    roster.write([begun])
    spec = SourceSpec(tables, events, roster.path, ((0,),), 1, Bounds.fixed(500 * RECORDS))
    block, seq, state = at.sealed.block - 60, at.sealed.seq - 60 * RECORDS, at.sealed.state
    stands = StepOffset(found[1].number, 0, block, seq, replace(state, k=0), "", (0,))
    start = Offset({step.name: stands}).to_json()

    def folded() -> Any:
        changes = slack_changes(tables, step.name)
        return lived(tables, Table(events), step, at.sealed, at.sealed.block, changes)

    last = FIRST + block // DAY * DAY * SECOND
    recent = (
        f"SELECT key, sum(n) FROM s WHERE window_start >= make_timestamptz({last}) GROUP BY ALL"
    )

    def view() -> Any:
        with query.answered(views(tables, pipeline), recent) as answers:
            if len(found := answers.fetchall()) != KEYS:
                raise SystemExit(f"{len(found)} keys have answers, and {KEYS} should")
            return found

    def plan() -> Any:
        return touched(tables, step, CorrectionPlan(0, 0, LATE, seq, FOREVER, 0, None, None, False))

    return {
        "position": lambda: position(tables, step),
        "watch": lambda: watch.waiting(tables, step),
        "show": lambda: show.state(tables, step),
        "view: a query of a day": view,
        "plan of a correction": plan,
        "start of a door": lambda: Door(tables, pipeline, home, SystemClock()).work(),
        "first offset of a query": lambda: LogReader(spec).latestOffset(start, None),
        "start of a generation": lambda: Registry(tables, SystemClock(), pipeline).start_all(),
        "fold from a sealed micro-batch": folded,
    }


def forget() -> None:
    """Nothing is open, and nothing of tables is remembered."""
    commit.SNAPSHOTS, read.REMEMBERED = Snapshots(commit.opened), Remembered()


def seconds(works: Sequence[Callable[[], Any]], before: Callable[[], None]) -> list[float]:
    """The median of nine of each, taken in turn; ``before`` each."""
    found: list[list[float]] = [[] for _ in works]
    for _ in range(9):
        for work, times in zip(works, found, strict=True):
            before()
            gc.collect()
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
    return [median(times) for times in found]


PROCESSES = {
    "watch": ("position", "watch"),
    "driver": ("position", "start of a door", "first offset of a query", "start of a generation"),
}


def memory(home: Path, name: str) -> float:
    """What a process needs, MiB."""
    command = [sys.executable, __file__, "--probe", name, "--home", str(home)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def probe(home: Path, name: str) -> None:
    """Do in this process what one of ``PROCESSES`` does, and print what it took."""
    pipeline, tables = measuring.pipeline_in(home, PIPELINE)
    works = tried(home, pipeline, tables, pipeline.specs[0])
    for work in PROCESSES[name]:
        for _ in range(20):
            works[work]()
    # Not ru_maxrss: a process has that from the one that started it, if that held more.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(int(status["VmHWM"].split()[0]) / 1024)


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--probe", choices=PROCESSES, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--days", type=int, nargs="*", default=[1, 30])
    parser.add_argument("--recent", type=int, default=600)
    args = parser.parse_args()
    if args.probe:
        probe(args.home, args.probe)
        return
    state = measuring.machine()
    with tempfile.TemporaryDirectory() as scratch:
        homes = [Path(scratch) / str(days) for days in args.days]
        works = [tried(home, *aged(home, days, args.recent))
                 for home, days in zip(homes, args.days, strict=True)]  # fmt: skip
        times = {
            f"{name}, {how}, ms": [1e3 * each for each in seconds([w[name] for w in works], before)]
            for how, before in {"first": forget, "again": lambda: None}.items()
            for name in works[0]
        }
        for name in PROCESSES:
            times[f"memory of the {name}, MiB"] = [memory(home, name) for home in homes]
    print(f"\n{state}\n")
    heads = ("", *(f"day {days}" for days in args.days), "last / first")
    body = [
        (name, *(f"{each:.0f}" for each in some), f"{some[-1] / some[0]:.2f}")
        for name, some in times.items()
    ]
    print(measuring.markdown(heads, body))


if __name__ == "__main__":
    main()
