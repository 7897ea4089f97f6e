"""What answers over answers are made of: how many came in time, were corrected, or wait.

An answer of which something waits, at whatever floor, may still change. Source: DESIGN, section 4
(coverage of steps over steps); docs/decisions/0055-answers-become-a-log.md.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.expressions import rows_where
from penstock.columns.types import INSTANT
from penstock.columns.windows import each_window, panes_of
from penstock.config.answers import OverAnswers
from penstock.core.step import StepSpec
from penstock.lake.history.correction import pending
from penstock.lake.history.position import position
from penstock.lake.log.blocks import HISTORY, LIVE, REVISION
from penstock.lake.over.taken import as_taken, taken_at
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables

STATES = {LIVE: "timely", HISTORY: "from_history", REVISION: "corrected"}
PENDING = "pending"
COUNTS = (*STATES.values(), PENDING)
START, WAITS = "window_start", "waits$"


def inputs_schema(tables: Tables, step: StepSpec) -> pa.Schema:
    """Window, keys, and how many of its inputs are in which state."""
    answers = tables.answers(step).schema
    known = [answers.field(name) for name in (START, "window_end", *step.key_names)]
    return pa.schema([*known, *(pa.field(name, pa.int64()) for name in COUNTS)])


def inputs(tables: Tables, pipeline: OverAnswers, step: StepSpec, seq: int) -> pa.Table:
    """Of each window and key the inputs that are known, as of a record of the log, by their state.

    An input is an answer of the step above: ``timely`` as it was given, ``from_history`` as it was
    in force when the log of answers began, ``corrected`` as a correction left it, ``pending`` while
    it, or something that it is made of, waits for a correction. Of windows that are open, too.
    """
    above = pipeline.over
    by = [START, *above.key_names]
    table = Table(tables.events(pipeline.types))
    rows = read_table(table, ["arrival_seq", "event_time", "origin", *above.key_names],
                      pc.field("arrival_seq") <= seq)  # fmt: skip
    starts = pc.subtract(pc.cast(rows["event_time"], pa.int64()), above.window.size - 1)
    rows = rows.append_column(START, starts).sort_by([("arrival_seq", "descending")])
    newest = rows.group_by(by, use_threads=False).aggregate([("origin", "first")])
    blocks = read_table(Table(tables.blocks()), ["block"], pc.field("last_seq") <= seq)
    waiting = _waiting(tables, pipeline, 1 + (pc.max(blocks["block"]).as_py() or 0))
    waiting = waiting.append_column(WAITS, pa.array(np.ones(waiting.num_rows, bool)))
    both = newest.join(waiting, by, join_type="full outer")
    waits = pc.is_valid(both[WAITS])
    state = pc.if_else(waits, PENDING, both["origin_first"])
    for name, said in {**STATES, PENDING: PENDING}.items():
        both = both.append_column(said, pc.cast(pc.equal(state, name), pa.int64()))
    return _counted(_spread(both, above, step), tables, step)


def _counted(spread: pa.Table, tables: Tables, step: StepSpec) -> pa.Table:
    by = [START, *step.key_names]
    counted = spread.group_by(by).aggregate([(name, "sum") for name in COUNTS])
    ends = pc.add(counted[START], step.window.size)
    columns = {
        START: counted[START].cast(INSTANT),
        "window_end": ends.cast(INSTANT),
        **{name: counted[name] for name in step.key_names},
        **{name: counted[f"{name}_sum"] for name in COUNTS},
    }
    found = pa.table(columns).cast(inputs_schema(tables, step))
    return found.sort_by([(name, "ascending") for name in by])


def _waiting(tables: Tables, pipeline: OverAnswers, block: int) -> pa.Table:
    """Window starts (us) and keys of the step above of which something waits, as of a block."""
    above, source = pipeline.over, Tables(tables.lake, pipeline.other.log)
    by = [START, *above.key_names]
    keys = tables.events(pipeline.types).schema
    fields = [(START, pa.int64()), *((name, keys.field(name).type) for name in above.key_names)]
    nothing = pa.schema(fields).empty_table()
    taken, at = taken_at(tables, block), position(source, above)
    if at is None or not taken.is_of(above, at):
        return nothing
    own = pending(source, above, as_taken(source, above, taken)).select(by)
    own = own.set_column(0, START, pc.cast(own[START], pa.int64()))
    found = [own.cast(nothing.schema)]
    if isinstance(pipeline.other, OverAnswers):
        below = _waiting(source, pipeline.other, taken.block)
        found.append(_spread(below, pipeline.other.over, above).select(by).cast(nothing.schema))
    return pa.concat_tables(found).group_by(by).aggregate([])


def _spread(rows: pa.Table, above: StepSpec, step: StepSpec) -> pa.Table:
    """Answers of a step above, by each window of a step that they are in."""
    rows = rows_where(step.where, rows)
    times = rows[START].to_numpy() + above.window.size - 1
    which, starts = each_window(step.window, panes_of(step.window, times))
    return rows.take(pa.array(which)).set_column(
        rows.column_names.index(START), START, pa.array(starts)
    )
