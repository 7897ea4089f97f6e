"""What an hourly audit costs as the log ages.

    python benchmarks/audits_aged.py [--days 2 30 365] [--everything 2 30]

A log of so many days is made directly, with all that an audit reads: two records a second, a block
and a micro-batch each ten seconds, an answer a minute; old ones in files of ten days and summed up,
as maintenance leaves them, those of the last hour in 60 files. An audit an hour before has left its
footing. Then an audit that goes on from it is timed at each age in turn, and one of everything
where asked for: the median of five (of everything: of two).
"""

import argparse
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import measuring
import numpy as np
import pyarrow as pa

from penstock.config.pipeline import Pipeline
from penstock.core.clock import SystemClock
from penstock.core.slack import WatermarkState
from penstock.core.window import BEGINNING
from penstock.lake.history.position import position
from penstock.lake.proof import scope
from penstock.lake.proof.audits import record_audit
from penstock.lake.proof.footing import TOTALS, Footing, decisions_digest, epoch_of
from penstock.lake.proof.waypoint import Waypoint
from penstock.lake.storage.commit import Table, checkpoint
from penstock.lake.storage.read import read_table
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables
from penstock.spark.audit import Audit

SECOND, DAY, HOUR = 1_000_000, 86_400, 3_600
FIRST = 1_704_067_200 * SECOND
APART, BLOCK, WINDOW, SLACK = SECOND // 2, 20, 60, 10
A_WINDOW = WINDOW * SECOND // APART
PIPELINE = """
source: {files: source}
columns: {key: string, value: double}
event_time: ts
steps:
  s:
    keys: [key]
    window: {size: PT60S}
    measures: {n: count(*), total: sum(value)}
    slack: {fixed: PT10S}
"""


def closes(window: Any) -> Any:
    """The record that closes each window: K after its end."""
    return (window + 1) * A_WINDOW + SLACK * SECOND // APART


def columns(name: str, first: int, end: int) -> dict[str, Any]:
    """Of the rows that blocks ``first`` to ``end`` - 1 have brought."""
    if name == "events":
        seq = np.arange(first * BLOCK, end * BLOCK)
        at = FIRST + seq * APART
        return {"arrival_seq": seq, "event_time": at, "ingest_time": at, "block": seq // BLOCK,
                "value": np.ones(len(seq))}  # fmt: skip
    if name == "answers":
        low, high = (window_at(block) for block in (first, end))
        window = np.arange(low, high)
        start = FIRST + window * WINDOW * SECOND
        return {"window_start": start, "window_end": start + WINDOW * SECOND, "n": A_WINDOW,
                "total": float(A_WINDOW), "n_records": A_WINDOW, "epoch": 0, "generation": 0,
                "micro_batch": closes(window) // BLOCK, "through_seq": closes(window),
                "published_at": start, "plan": None, "revision": 0}  # fmt: skip
    block = np.arange(first, end)
    last, top = (block + 1) * BLOCK - 1, FIRST + ((block + 1) * BLOCK - 1) * APART
    taken = np.array([window_at(b) for b in (*block, end)])
    return {"block": block + (name == "control"), "micro_batch": block, "first_seq": block * BLOCK,
            "number": block, "plan": block, "last_seq": last, "through_seq": last,
            "accepted": BLOCK, "records": BLOCK, "t_max": top, "t_max_us": top,
            "watermark_us": top - SLACK * SECOND, "slack_us": SLACK * SECOND,
            "accepted_total": last + 1, "answered_total": taken[1:] * A_WINDOW,
            "answers": np.diff(taken), "pairs_answered": np.diff(taken) * A_WINDOW,
            "pairs_open": last + 1 - taken[1:] * A_WINDOW, "first_block": block,
            "arrived_at": top, "sealed_at": top, "published_at": top}  # fmt: skip


def window_at(block: int) -> int:
    """How many windows the records before a block have closed."""
    known = block * BLOCK - 1 - SLACK * SECOND // APART
    return max(0, known // A_WINDOW)


def rows(spec: TableSpec, first: int, end: int) -> pa.Table:
    """The rows of a table that some blocks have brought."""
    found = columns(spec.name, first, end)
    count = max(len(c) for c in found.values() if isinstance(c, np.ndarray))
    same = {"kind": "data", "origin": "live", "reason": "speed", "key": "a"}
    none = {"extra", "read_as", "positions", "adopts", "definition", "controller", "plan"}

    def array(field: pa.Field) -> pa.Array:
        value = found.get(field.name, same.get(field.name, None if field.name in none else 0))
        if isinstance(value, np.ndarray):
            return pa.array(value).cast(field.type)
        return pa.repeat(pa.scalar(value, field.type), count)

    return pa.Table.from_arrays([array(f) for f in spec.schema], schema=spec.schema)


@dataclass(frozen=True)
class Aged:
    """A log of so many days."""

    days: int
    pipeline: Pipeline
    tables: Tables

    def seconds(self, spark: Any, *, everything: bool) -> float:
        """Of an audit, which is green and has compared what it should."""
        began = time.perf_counter()
        audit = Audit(spark, self.tables, self.pipeline, SystemClock(), everything=everything)
        (row,) = audit.comparisons(timedelta(hours=1))
        took = time.perf_counter() - began
        ends = ("wrong", "_answers", "missing", "doubled", "unaccounted", "miscounted")
        wrong = {name: n for name, n in row.items() if n and name.endswith(ends)}
        assert not wrong, (wrong, row["examples"])
        assert row["everything"] == everything
        assert row["answers_compared"] >= (self.days * DAY // WINDOW - 2 if everything else 119)
        assert row["received"] == self.days * DAY * SECOND // APART
        return took


def aged(home: Path, days: int) -> Aged:
    """Made directly, with the footing of an audit an hour ago."""
    pipeline, tables = measuring.pipeline_in(home, PIPELINE)
    measuring.start_of_log(tables, pipeline)
    (step,) = pipeline.specs
    a_day, hour = (span * SECOND // APART // BLOCK for span in (DAY, HOUR))
    end = days * a_day
    old = end - hour
    cuts = [*range(0, old, 10 * a_day), *range(old, end + 1, hour // 60)]
    specs = (tables.events(pipeline.types), tables.plans(), tables.blocks(),
             tables.answers(step), tables.control(step))  # fmt: skip
    for spec in specs:
        table = Table(spec)
        for first, after in pairwise(cuts):
            some = rows(spec, first, after)
            if some.num_rows:
                table.append(some, "ingest" if spec.name in INGESTED else "made", after - 1)
            if after == old:
                checkpoint(table.refresh(), spec.uri)
    one = Aged(days, pipeline, tables)
    left(one, old)
    return one


INGESTED = ("events", "plans", "blocks")


def left(one: Aged, block: int) -> None:
    """The footing of an audit that ended before a block, in the middle of its round."""
    tables, (step,) = one.tables, one.pipeline.specs
    at = position(tables, step)
    assert at is not None

    def waypoint(number: int) -> Waypoint:
        top = FIRST + (number * BLOCK - 1) * APART
        state = WatermarkState(top - SLACK * SECOND, top, 0, SLACK * SECOND)
        return Waypoint(number, number * BLOCK - 1, top, state)

    answered = window_at(block) * A_WINDOW
    totals = dict.fromkeys(TOTALS, 0) | {
        "received": block * BLOCK, "accepted": block * BLOCK, "pairs_events": block * BLOCK,
        "pairs_on_time": answered}  # fmt: skip
    now = SystemClock().now()
    footing = Footing(
        epoch_of(at.epoch), decisions_digest(tables, step, block), waypoint(block), BEGINNING,
        totals, -1, 0, [], waypoint(block // 2), 0, 0,
    )  # fmt: skip
    row = {"step": step.name, "through_seq": block * BLOCK - 1, "answers_compared": 1,
           "everything": False, "footing": footing.to_text()}  # fmt: skip
    table, hours = Table(tables.audits()), one.days * 24
    record_audit(
        tables, one.pipeline.specs, "an hour ago", now - timedelta(hours=1), [row], True, []
    )
    (last,) = read_table(table).to_pylist()
    earlier = [last | {"audited_at": now - timedelta(hours=n)} for n in range(2, hours)]
    table.append(pa.Table.from_pylist(earlier, schema=table.spec.schema), "made", 0)


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, nargs="*", default=[2, 30, 365])
    parser.add_argument("--everything", type=int, nargs="*", default=[2, 30])
    args = parser.parse_args()
    state = measuring.machine()
    scope.LEAST = HOUR * SECOND // APART  # of so slow a stream an hour, not six days
    kinds = {False: "an hour, from the last audit on", True: "everything"}
    times: dict[tuple[bool, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch, measuring.session("audits") as spark:
        logs = [aged(Path(scratch) / str(days), days) for days in args.days]
        logs[0].seconds(spark, everything=False)
        for number in range(5):
            for log in logs:
                for every in (False, True):
                    if every and (number > 1 or log.days not in args.everything):
                        continue
                    took = log.seconds(spark, everything=every)
                    times.setdefault((every, log.days), []).append(took)
    print(f"\n{state}\n")
    heads = ("audit of", *(f"day {days}, s" for days in args.days))
    body = [
        (name, *(f"{median(times[every, days]):.2f}" if (every, days) in times else ""
                 for days in args.days))
        for every, name in kinds.items()
    ]  # fmt: skip
    print(measuring.markdown(heads, body))


if __name__ == "__main__":
    main()
