"""How good the timely answers were, now that they are corrected, and what the slack did for it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.slack import Quality
from penstock.core.controller import Measured
from penstock.core.lateness import CLASSES
from penstock.core.measure import Function
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, instant, micros
from penstock.lake.history.generation import controller_at, lived
from penstock.lake.history.position import BACKFILL, SPEED, Position, position, rows_of, sealed_only
from penstock.lake.history.view import answers_at, newest
from penstock.lake.log.blocks import slack_changes
from penstock.lake.log.freezes import frozen
from penstock.lake.log.joint import passed_in
from penstock.lake.proof.present import since as present_since
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

RELATIVE = (Function.COUNT, Function.SUM, Function.AVG)
"""Functions whose error is relative to the answer; a quantile's is one of rank."""
NEWEST = 10_000
"""Answers the bound is judged by."""
STEERING = ("coverage", "coverage_least", "threshold", "alpha", "margin", "windows_measured",
            "windows_below")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Observed:
    """One measure's relative errors.

    Attributes:
        measure: its name.
        epsilon: the relative error to stay below.
        answers: that are in force and were in time, or should have been.
        beyond: whose timely value was off by epsilon or more, or was not there.
        mean, greatest: relative error; a value that was not there counts 1.
    """

    measure: str
    epsilon: float
    answers: int
    beyond: int
    mean: float
    greatest: float


@dataclass(frozen=True, slots=True)
class Waited:
    """One micro-batch: up to which event time, K, and what it measured.

    Attributes:
        at: newest event time.
        slack: K in force after it, us.
        steering: columns of ``control`` by name; none: no window was measured.
    """

    at: datetime
    slack: int
    steering: dict[str, float] | None


def observed(tables: Tables, step: StepSpec, at: Position, quality: Quality) -> list[Observed]:
    """Relative errors of the timely answers against those in force, windows still pending too.

    Args:
        tables: of the pipeline.
        step: the step.
        at: its position.
        quality: what each measure must stay below, and which answers count.
    """
    found = []
    with beside(answers_at(tables, step, at), step) as (connection, joined):
        for measure in relative(step):
            error, epsilon = error_of(measure), quality.target(measure).epsilon
            figures = _figures(connection, error, joined, epsilon, quality.least)
            found.append(Observed(measure, epsilon, *figures))
    return found


def relative(step: StepSpec) -> list[str]:
    """Names of the measures with a bound on their relative error."""
    return [m.name for m in step.judged if m.function in RELATIVE]


def error_of(measure: str) -> str:
    """SQL for a timely answer's error, over what ``beside`` joins."""
    return relative_error(f't."{measure}"', f'n."{measure}"')


@contextmanager
def beside(rows: pa.Table, step: StepSpec) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
    """Answers in force (``n``) with the timely ones (``t``, null where there was none).

    Args:
        rows: all answers of some windows; what holds records of the history is left out.
        step: the step.

    Yields:
        A connection, and what to select from.
    """
    now, names = newest(rows, step), ["window_start", *step.identity_names]
    on = " AND ".join(f't."{name}" IS NOT DISTINCT FROM n."{name}"' for name in names)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("timely", rows.filter(pc.equal(rows["reason"], SPEED)))
        connection.register("now", now)
        connection.register("history", rows.filter(pc.equal(rows["reason"], BACKFILL)))
        never = on.replace('t."', 'h."')
        yield connection, f"now n ANTI JOIN history h ON {never} LEFT JOIN timely t ON {on}"


def newest_errors(
    tables: Tables, step: StepSpec, groups: Sequence[list[str]], records: int, most: int = NEWEST
) -> list[list[float]]:
    """Relative errors of the newest recorded timely answers against those in force.

    What is not in ``coverage`` yet was not corrected either: it would seem to be without error.
    Only windows that closed under the present policy count.

    Args:
        tables: of the pipeline.
        step: the step.
        groups: of measures that are judged together, by name.
        records: answers of fewer records do not count.
        most: so many answers.

    Returns:
        By group one number an answer, of its measure that is furthest off; 1 where none was in
        time.
    """
    at = position(tables, step)
    if not groups or at is None:
        return [[] for _ in groups]
    worst = ", ".join(f"greatest({', '.join(map(error_of, names))})" for names in groups)
    order = ", ".join(f'n."{key}" DESC' for key in ("window_start", *step.identity_names))
    recorded, held = _recorded(tables, step, present_since(tables, step, at))
    found, wanted, windows = list[tuple[float, ...]](), most, 0
    while len(found) < most and windows < len(recorded):  # some may hold too few records
        windows = min(int(np.searchsorted(held, wanted)) + 1, len(recorded))
        wanted *= 4
        starts = recorded[len(recorded) - windows :]
        ends = micros(starts[0].as_py()), micros(starts[-1].as_py())
        rows = answers_at(tables, step, at, Spans("window_start", (ends,)))
        rows = rows.filter(pc.is_in(rows["window_start"], starts))
        with beside(rows, step) as (connection, joined):
            found = connection.execute(
                f"SELECT {worst} FROM {joined}"  # noqa: S608
                f" WHERE n.n_records >= ? ORDER BY {order} LIMIT ?",
                [records, most],
            ).fetchall()
    return [[float(row[i]) for row in found] for i in range(len(groups))]


def _recorded(tables: Tables, step: StepSpec, since: int) -> tuple[pa.Array, np.ndarray]:
    """Starts of the recorded windows, ascending, and how many answers so many of the newest hold.

    Args:
        tables: of the pipeline.
        step: the step.
        since: only windows that end after this instant, us.
    """
    names = ["window_start", "window_end", "answers"]
    rows = read_table(Table(tables.coverage(step)), names)
    rows = rows.filter(pc.greater(rows["window_end"], instant(since)))
    rows = rows.group_by("window_start").aggregate([("answers", "max")]).sort_by("window_start")
    return rows["window_start"].combine_chunks(), np.cumsum(np.asarray(rows["answers_max"])[::-1])


def relative_error(was: str, true: str) -> str:
    """SQL for the error of one value against another; 1 where there is nothing to divide by."""
    was, true = f"({was})::DOUBLE", f"({true})::DOUBLE"
    return (
        f"CASE WHEN {was} IS NOT DISTINCT FROM {true} THEN 0 WHEN {was} IS NULL OR {true} IS NULL"
        f" OR {true} = 0 OR NOT isfinite({was}) OR NOT isfinite({true}) THEN 1"
        f" ELSE abs({was} - {true}) / abs({true}) END"
    )


def _figures(
    connection: duckdb.DuckDBPyConnection, error: str, joined: str, epsilon: float, records: int
) -> tuple[int, int, float, float]:
    row = connection.execute(
        f"SELECT count(*), count(*) FILTER (e >= ?), coalesce(avg(e), 0), coalesce(max(e), 0)"  # noqa: S608
        f" FROM (SELECT {error} AS e FROM {joined}"
        f" WHERE n.n_records >= ?)",
        [epsilon, records],
    ).fetchone()
    assert row is not None  # noqa: S101  an aggregate has a row
    return int(row[0]), int(row[1]), float(row[2]), float(row[3])


def classes(tables: Tables, step: StepSpec, at: Position) -> dict[str, int]:
    """How many records waited, came while their windows were answered, came after them (HPM)."""
    keys = ["generation", "micro_batch"]
    rows = sealed_only(read_table(Table(tables.control(step)), [*keys, *CLASSES]), at)
    return {name: pc.sum(rows[name]).as_py() or 0 for name in CLASSES}


def measured(
    tables: Tables, step: StepSpec, at: Position, events: TableSpec, since: int = -1
) -> tuple[list[Measured], int]:
    """Windows whose coverage moved the slack, in the order of their ends.

    The log is folded once more, since ``control`` only keeps sums of micro-batches: from the last
    micro-batch that ended at or before the position ``since``, or from the epoch on.

    Returns:
        The windows, and the start up to which all were due, us.
    """
    if step.slack.tuning is None:
        return [], BEGINNING
    changes = slack_changes(tables, step.id)
    gone, rows = frozen(tables).seq, rows_of(tables, step, at)
    before = (r for r in rows if gone <= r.seq <= since)
    last = max(before, default=None, key=lambda r: r.block)
    if last is None and at.epoch.seq < gone:  # what is folded must still be there
        last = next(r for r in rows if r.seq >= gone)
    text = controller_at(tables, step, at.epoch.number, last.block) if last else ""
    start = last or at.epoch
    before_block = at.sealed.block
    fold = lived(tables, Table(events), step, start, before_block, changes, text)
    return fold.measured, passed_in(fold.controller, step)


def waited(tables: Tables, step: StepSpec, at: Position) -> list[Waited]:
    """What every sealed micro-batch that took live blocks did, in order.

    The first of an epoch may only bring what stood open in its history: no K was in force there.
    """
    keys = ["generation", "micro_batch"]
    rows = read_table(Table(tables.control(step)), [*keys, *STEERING])
    known = {(r["generation"], r["micro_batch"]): r for r in rows.to_pylist()}
    found, taken = [], at.epoch.block
    for row in rows_of(tables, step, at):
        if row.block > taken and row.state.t_max > BEGINNING:
            taken = row.block
            steering = known[row.generation, row.micro_batch]
            held = {name: steering[name] for name in STEERING}
            told = held if held["windows_measured"] else None
            found.append(Waited(instant(row.state.t_max), row.state.slack, told))
    return found
