"""Takes away what a freeze made needless: records, late rows, rows of control, former answers.

It goes by positions and values, never by files, as every reader does. What goes from a table is one
commit under the freeze's number: it is done once, whoever does it.
"""

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import INSTANT
from penstock.config.pipeline import Pipeline
from penstock.core.step import STREAM, StepSpec
from penstock.core.window import micros
from penstock.lake.history.plans import unfinished_plans
from penstock.lake.history.position import LATE, Position, position
from penstock.lake.history.view import answers_at, newest
from penstock.lake.log.freezes import NOTHING, Freeze, Freezes, frozen
from penstock.lake.storage.commit import Table, settle
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.replace import literal, replace
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

APPLICATION = "thin"
Which: TypeAlias = tuple[str, pc.Expression]
"""Some rows, as SQL and for pyarrow."""


def thin(tables: Tables, pipeline: Pipeline) -> dict[str, int]:
    """Take away what the newest freeze made needless; returns rows by table, where any went.

    An unfinished correction may be reading it: then it stays for now.
    """
    freeze = frozen(tables)
    if freeze.seq < 0 or any(unfinished_plans(tables, step) for step in pipeline.specs):
        return {}
    settle(tables.freezes())
    events = tables.events(pipeline.types)
    gone = {
        "events": _before(
            events, "arrival_seq", freeze.seq + 1, freeze, lambda: _known(pipeline, tables, freeze)
        ),
        "blocks": _before(tables.blocks(), "block", freeze.block - 1, freeze),
    }
    for step in pipeline.specs:
        gone |= _of_step(tables, step, freeze)
    return {f"{name}, frozen": rows for name, rows in gone.items() if rows}


def _all() -> Which:
    return "true", pc.scalar(True)


def _known(pipeline: Pipeline, tables: Tables, freeze: Freeze) -> Which:
    """Records whose id no later one can repeat."""
    sql, where = list[str](), pc.scalar(True)
    for stream, intake in pipeline.intakes.items():
        if intake.id is None:
            continue
        if intake.arrival_time is None:
            rows = read_table(Table(tables.blocks()), ["arrived_at"])
            least = micros(pc.max(rows["arrived_at"]).as_py())
        else:
            least = freeze.refused_before - micros(intake.skew)
        least -= micros(intake.id.horizon)
        before = pc.field("ingest_time") < pa.scalar(least, pa.int64()).cast(INSTANT)
        of_others = pc.field(STREAM) != stream if stream else pc.scalar(False)
        where &= before | of_others
        others = f"{STREAM} <> '{stream}' OR " if stream else ""
        sql.append(f"({others}ingest_time < {literal(least)})")
    return (" AND ".join(sql), where) if sql else _all()


def _of_step(tables: Tables, step: StepSpec, freeze: Freeze) -> dict[str, int]:
    at = position(tables, step)
    if at is None:
        return {}
    late, control = tables.late(step, []), tables.control(step)
    return {
        f"late/{step.id}": _before(late, "last_seq", freeze.seq + 1, freeze),
        f"control/{step.id}": _before(
            control, "through_seq", freeze.seq, freeze, lambda: _passed(at)
        ),
        f"answers/{step.id}": _fold(tables, step, at, freeze),
    }


def _passed(at: Position) -> Which:
    """Micro-batches that are not the last one of their generation."""
    sql, where = [], pc.scalar(True)
    for last in at.lasts:
        number, batch = last.generation, last.micro_batch
        sql.append(f"NOT (generation = {number} AND micro_batch = {batch})")
        where &= ~((pc.field("generation") == number) & (pc.field("micro_batch") == batch))
    return " AND ".join(sql), where


def _before(
    spec: TableSpec,
    column: str,
    first: int,
    freeze: Freeze,
    which: Callable[[], Which] = _all,
) -> int:
    """Take away rows with a smaller value of a column; ``which``: of them, asked if it is due."""
    table = Table(spec)
    if table.newest() is None or _is_done(table, freeze):
        return 0
    sql, where = which()
    count = read_table(table, [column], where, Spans(column, ((0, first - 1),))).num_rows
    return count if count and _put(table, freeze, f"{column} < {first} AND {sql}", None) else 0


def _fold(tables: Tables, step: StepSpec, at: Position, freeze: Freeze) -> int:
    """Take away corrected answers that another had replaced up to a freeze."""
    table, until = Table(tables.answers(step)), freeze.seq - 1
    if table.newest() is None or _is_done(table, freeze):
        return 0
    then, since = at.up_to(until), _former(tables, freeze).seq
    fresh = answers_at(tables, step, then, Spans("through_seq", ((since, until),)))
    if not fresh.num_rows:
        return 0
    ends = pc.min_max(pc.cast(fresh["window_start"], pa.int64())).as_py()
    windows = Spans("window_start", ((ends["min"], ends["max"]),))
    former = replaced(answers_at(tables, step, then, windows), step)
    every = read_table(table, where=pc.field("through_seq") <= until, within=windows)
    stay = every.join(former, former.column_names, join_type="left anti")
    sql = " AND ".join([
        f"through_seq < {freeze.seq}",
        f"window_start >= {literal(ends['min'])}", f"window_start <= {literal(ends['max'])}",
    ])  # fmt: skip
    gone = every.num_rows - stay.num_rows
    return gone if gone and _put(table, freeze, sql, stay) else 0


def replaced(answers: pa.Table, step: StepSpec) -> pa.Table:
    """Which corrected answers another one has replaced: what they are known by.

    Timely ones and those of a history stay: how far off they were is told by them.
    """
    known = ["window_start", *step.identity_names, "through_seq", "revision", "reason"]
    corrected = answers.filter(pc.field("reason") == LATE).select(known)
    now = newest(answers, step).select(known)
    return corrected.group_by(known).aggregate([]).join(now, known, join_type="left anti")


def _former(tables: Tables, freeze: Freeze) -> Freeze:
    return next((f for f in Freezes(tables).all() if f.number == freeze.number - 1), NOTHING)


def _is_done(table: Table, freeze: Freeze) -> bool:
    done = table.last(APPLICATION)
    return done is not None and done >= freeze.number


def _put(table: Table, freeze: Freeze, sql: str, rows: pa.Table | None) -> bool:
    """Put rows, or none, in the place of all of which something is true; whether it was done."""
    schema = pa.schema(table.refresh().schema())
    content = schema.empty_table() if rows is None else rows.select(schema.names).cast(schema)
    return replace(table, content, sql, APPLICATION, {APPLICATION: freeze.number})
