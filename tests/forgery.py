"""Tables rewritten behind the product's back, and what an audit says of it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from penstock.kinds.frame import frame_of
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force
from penstock.lake.log.blocks import HISTORY
from penstock.lake.proof.audits import record_audit
from penstock.lake.proof.unsettled import with_unsettled
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.spec import TableSpec
from penstock.quality.checks import CHECKS, Check, Severity
from penstock.quality.comparisons import Example, checked, examples_of
from penstock.spark.audit import Audit
from penstock.spark.correct import start_epochs
from tests import reference as ref
from tests.doubles import NOON, FixedClock
from tests.lakes import Lake, make_lake
from tests.steps import SITES, SITES_REF
from tests.streams import BEGIN, disordered, write_jsonl

INTERVAL = timedelta(minutes=15)
Row = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """What the audit of one step says.

    Attributes:
        red: columns whose critical expectation does not hold.
        warned: columns of which a warning is given.
        said: every example as a person reads it.
        row: the comparisons.
    """

    red: set[str]
    warned: set[str]
    said: tuple[str, ...]
    row: Row


def audited(
    spark: SparkSession,
    lake: Lake,
    at: datetime = NOON,
    *,
    everything: bool = False,
    kept: bool = False,
) -> Verdict:
    """Audit a lake of one step; the suite's own bounds judge it. If ``kept`` the next goes on."""
    (found,) = all_audited(spark, lake, at, everything=everything, kept=kept).values()
    return found


def all_audited(
    spark: SparkSession,
    lake: Lake,
    at: datetime = NOON,
    *,
    everything: bool = False,
    kept: bool = False,
) -> dict[str, Verdict]:
    """The same of every step of its pipeline, by name."""
    at += timedelta(seconds=lake.audits)
    one = Audit(spark, lake.tables, lake.pipeline, FixedClock(at), everything=everything)
    found = one.comparisons(INTERVAL)
    rows = with_unsettled(found, lake.tables, lake.pipeline, lake.home, at, {})
    judged = checked(pd.DataFrame(rows), pipeline="p").to_dict("records")
    verdicts = {}
    for row, compared in zip(judged, found, strict=True):
        failed = [check for check in CHECKS if not _holds(check, row[check.column])]
        red, warned = (
            {check.column for check in failed if check.severity is severity}
            for severity in (Severity.CRITICAL, Severity.WARNING)
        )
        examples: tuple[Example, ...] = examples_of(row["step"], row["examples"])
        row |= {name: compared[name] for name in ("everything", "covered")}
        verdicts[row["step"]] = Verdict(red, warned, tuple(map(str, examples)), row)
    if kept:
        lake.audits += 1
        passed = not any(verdict.red for verdict in verdicts.values())
        steps = [lake.pipeline.spec(name) for name in verdicts]
        record_audit(lake.tables, steps, f"audit {lake.audits}", at, rows, passed, [])
    return verdicts


def _holds(check: Check, value: float) -> bool:
    above = check.least is None or value >= check.least
    return above and (check.greatest is None or value <= check.greatest)


class Forger:
    """Rewrites the tables of a lake of one step."""

    def __init__(self, lake: Lake) -> None:
        self.lake, tables, step = lake, lake.tables, lake.step
        self.specs: dict[str, TableSpec] = {
            "events": tables.events(lake.pipeline.types),
            "quarantine": tables.quarantine(),
            "blocks": tables.blocks(),
            "plans": tables.plans(),
            "decisions": tables.decisions(),
            "registry": tables.registry(),
            "corrections": tables.corrections(),
            "answers": tables.answers(step),
            "late": tables.late(step, frame_of(step).wire(step).layout.fields),
            "control": tables.control(step),
            "excluded": tables.excluded(step),
        }

    @classmethod
    def of_a_copy(cls, lake: Lake, home: Path) -> "Forger":
        """Of the same tables in another folder."""
        shutil.copytree(lake.home / "lake", home / "lake")
        return cls(replace(lake, home=home))

    def rows(self, name: str) -> list[Row]:
        """All rows of a table, in a fixed order."""
        rows = read_table(Table(self.specs[name])).to_pylist()
        order = {"events": "arrival_seq", "blocks": "block", "control": "block",
                 "quarantine": "arrival_seq", "excluded": "arrival_seq",
                 "late": "last_seq"}.get(name)  # fmt: skip
        if name == "answers":
            return sorted(rows, key=lambda r: (r["window_start"], r.get("site", ""), r["revision"]))
        return sorted(rows, key=lambda r: r[order]) if order else rows

    def rewrite(self, name: str, rows: list[Row]) -> None:
        """Put other rows in the place of all."""
        spec = self.specs[name]
        delta = Table(spec).refresh()
        there = {field.name for field in delta.schema().fields}
        schema = pa.schema([field for field in spec.schema if field.name in there])
        table = pa.Table.from_pylist(rows, schema=schema)
        write_deltalake(delta, table, mode="overwrite",
                        partition_by=list(spec.partitioned) or None)  # fmt: skip

    def pick(self, name: str, where: Callable[[Row], bool]) -> Row:
        """The one in the middle of the rows that fit."""
        found = [r for r in self.rows(name) if where(r)]
        assert found, f"the scene has no such row of {name}"
        return found[len(found) // 2]

    def drop(self, name: str, victim: Row) -> Row:
        """Delete one row."""
        rows = self.rows(name)
        rows.remove(victim)
        self.rewrite(name, rows)
        return victim

    def change(self, name: str, victim: Row, **columns: Any) -> Row:
        """Change some columns of one row; returns it as it was."""
        rows = self.rows(name)
        rows[rows.index(victim)] = victim | columns
        self.rewrite(name, rows)
        return victim

    def add(self, name: str, like: Row, **columns: Any) -> Row:
        """Add a row like another one."""
        row = like | columns
        self.rewrite(name, [*self.rows(name), row])
        return row


def at_window(row: Row) -> str:
    """How a report names the window and key of a row."""
    names = ("site",) if "site" in row else ("left_seq", "right_seq")
    key = ", ".join(f"{name}={row[name]}" for name in names if name in row)
    return f"window {row['window_start'].isoformat()}{f' key {key}' if key else ''}"


def assert_red(
    spark: SparkSession, forger: Forger, red: str, plant: Callable[[Forger], Row]
) -> None:
    """After a fault the audit is red of it, and says where: at the window and key of its row."""
    victim = plant(forger)
    verdict = audited(spark, forger.lake)
    assert red in verdict.red
    assert any(at_window(victim) in line for line in verdict.said), verdict.said


def repaired_lake(
    home: Path,
    before_last: Callable[[Lake], Any] = lambda _: None,
    case: tuple[Any, ref.Step] = (SITES, SITES_REF),
) -> Lake:
    """A small lake in which everything happened: a preload, two corrections, open windows.

    Args:
        home: where.
        before_last: what somebody does before the last records come.
        case: the step.
    """
    lake = make_lake(home, case, history={
        "files": str(home / "history"), "format": "jsonl"})  # fmt: skip
    rows = disordered(420, seed=11, apart=5.0, late_share=0.25, late_by=500.0, begin=BEGIN)
    for row in rows[9::40]:
        row["bags"] = "many"  # refused
    write_jsonl(home / "history" / "0.jsonl", rows[:80])
    lake.ingest(HISTORY)
    start_epochs(lake.tables, lake.pipeline, lake.clock)
    parts = ((80, 130), (130, 180), (180, 230), (230, 290), (290, 420))
    for number, (low, high) in enumerate(parts):
        if high == len(rows):
            before_last(lake)
        write_jsonl(home / "live" / f"{number}.jsonl", rows[low:high])
        lake.ingest()
        lake.query(blocks=2).run()
        if number in {1, 3, 4}:
            lake.correct()
    at = position(lake.tables, lake.step)
    assert at is not None
    assert at.sealed.open_pairs > 0, "some windows are open"
    reasons = {r["reason"] for r in answers_in_force(lake.tables, lake.step).to_pylist()}
    assert reasons == {"speed", "late", "backfill"}
    return lake
