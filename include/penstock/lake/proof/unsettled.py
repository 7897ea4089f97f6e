"""What waits for somebody: files that changed, plans that do not end, steps that stand still.

None of it makes an answer wrong; an audit that did not say it would be green while nothing comes
in. The audit's own recomputation speaks for a sealed position; this is what is beyond it.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.answers import OverAnswers
from penstock.config.pipeline import Pipeline
from penstock.core.step import StepSpec
from penstock.core.window import instant
from penstock.lake.history.position import DONE, position, start_of
from penstock.lake.ingest.origins import take_all, waiting_of
from penstock.lake.ingest.plan import last_plan
from penstock.lake.ingest.reading import SourceError
from penstock.lake.log.blocks import next_block
from penstock.lake.over.taken import taken_at
from penstock.lake.proof.recount import SHOWN, Fault
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables

OVERDUE = timedelta(minutes=15)
"""For what takes seconds on an idle machine, and minutes on one at load 30, as a query's start."""
RECORD = timedelta(microseconds=50)
"""More, for each record that waits: a 25th of what two idle cores do."""

BEYOND = ("files_changed", "plans_overdue", "blocks_overdue")
"""Columns of an audit's comparisons that speak of what is beyond their position."""


def patience(records: int) -> timedelta:
    """How long a step may seal nothing: its micro-batch may have so many records to read."""
    return OVERDUE + records * RECORD


def with_unsettled(
    rows: Sequence[dict[str, Any]],
    tables: Tables,
    pipeline: Pipeline,
    home: Path,
    now: datetime,
    said: Mapping[str, str] | None,
) -> list[dict[str, Any]]:
    """An audit's comparisons with what is beyond their position.

    Args:
        rows: of every step.
        tables: of the pipeline.
        pipeline: the pipeline.
        home: where relative places start.
        now: the instant of the audit.
        said: by its stream: why steps stand still, by id; by the empty name, why nothing of the
            source has been taken for long; none: they are not to run, though the log may go on.
    """
    steps, said = ((), {}) if said is None else (pipeline.specs, said)
    files, plans = changed_files(tables, pipeline, home), overdue_plans(tables, now, said.get(""))
    lacks = untaken(tables, pipeline, now) if steps or not pipeline.is_live() else []
    behinds = {s.id: behind(tables, s, now, said.get(s.id)) for s in steps}
    return [_with(row, files, plans, [*lacks, *behinds.get(row["step"], [])]) for row in rows]


def _with(row: dict[str, Any], *found: Sequence[Fault]) -> dict[str, Any]:
    examples = [fault.told() for faults in found for fault in faults[:SHOWN]]
    counts = dict(zip(BEYOND, map(len, found), strict=True))
    return {**row, **counts, "examples": json.dumps([*json.loads(row["examples"]), *examples])}


def changed_files(tables: Tables, pipeline: Pipeline, home: Path) -> list[Fault]:
    """Files that are not any more what was taken of them, until a person has seen it."""
    found = []
    sources = waiting_of(pipeline, home, tables.lake)
    take_all(sources, tables)
    for waiting in sources.values():
        try:
            files = waiting.look()
        except SourceError as away:
            found.append(Fault("changed file: not known", {"file": away.path}, {"listed": "whole"},
                               {"listed": away.why}))  # fmt: skip
            continue
        found += [
            Fault("changed file", {"file": f"{waiting.root}/{now.path}"}, _about(*was),
                  _about(now.size, now.modified))
            for now, was in files
        ]  # fmt: skip
    return found


def _about(size: int, modified: int) -> dict[str, Any]:
    return {"bytes": size, "modified": instant(modified // 1_000)}


def overdue_plans(tables: Tables, now: datetime, why: str | None) -> list[Fault]:
    """Plans that were made long ago and are not sealed, and a source that is not read for long.

    Args:
        tables: of the pipeline.
        now: the present instant.
        why: nothing is taken, as the stream says.
    """
    plans, blocks = Table(tables.plans()), Table(tables.blocks())
    names, later = ["number", "arrived_at", "positions"], pc.field("number") > last_plan(blocks)
    rows = read_table(plans, names, later).sort_by("number").to_pylist()
    done = last_plan(blocks)  # once more: what is sealed meanwhile is not overdue
    found = []
    for row in rows:
        if row["number"] > done and row["arrived_at"] < now - OVERDUE:
            files = [item["path"] for item in json.loads(row["positions"])]
            place = {"plan": row["number"], "files": len(files), "first": next(iter(files), None)}
            since = {"waits since": row["arrived_at"]}
            found.append(Fault("waiting plan", place, {"sealed": "soon"}, since))
    if why is not None:
        found.append(Fault("waiting source", {}, {"read": "soon"}, {"says": why}))
    return found


def untaken(tables: Tables, pipeline: Pipeline, now: datetime) -> list[Fault]:
    """What corrections of the step above changed long ago, and is not in the log yet.

    The stream of a bounded source ends, and its log takes no more before it is started again.
    """
    if not isinstance(pipeline, OverAnswers):
        return []
    above, step = Tables(tables.lake, pipeline.other.log), pipeline.over
    taken, at = taken_at(tables, next_block(tables)), position(above, step)
    if at is None or not taken.is_of(step, at):
        return []
    plans = pc.field("plan").isin(pa.array(sorted(at.done - taken.done), pa.int64()))
    mine = plans & (pc.field("step") == step.id) & (pc.field("state") == DONE)
    when = read_table(Table(above.corrections()), ["recorded_at"], mine)["recorded_at"]
    since = pc.min(when).as_py()
    if since is None or since >= now - OVERDUE:
        return []
    place = {"answers of": f"{pipeline.other.name}.{step.name}", "corrections": len(when)}
    remedy = f"start stream__{pipeline.name}"
    return [Fault("behind the answers", place, {"taken": "soon"}, {"waits since": since,
                                                                  "remedy": remedy})]  # fmt: skip


def behind(tables: Tables, step: StepSpec, now: datetime, why: str | None) -> list[Fault]:
    """Sealed blocks that a step has not answered though it had the time, or because it cannot.

    Args:
        tables: of the pipeline.
        step: which one.
        now: the present instant.
        why: it stands still, as the stream says.
    """
    at = position(tables, step) or start_of(tables, step)
    blocks = Table(tables.blocks())
    if at is None or not blocks.exists():
        return []
    names = ["block", "first_seq", "last_seq", "sealed_at"]
    rows = read_table(blocks, names, pc.field("block") >= at.sealed.block).sort_by("block")
    if not rows.num_rows:
        return []
    first, last = rows["first_seq"][0].as_py(), rows["last_seq"][-1].as_py()
    records = last - first + 1
    since = rows["sealed_at"][0].as_py()
    if why is None and since >= now - patience(records):
        return []
    place = {"blocks": rows.num_rows, "records": records}
    expected = {"answered through": last}
    reason = why or "not said: where the stream runs, its log may say it"
    found = {"answered through": first - 1, "waits since": since, "stands still": reason}
    return [Fault("behind the log", place, expected, found)]
