"""What SQL can name: a view for each step, more of its kind, and the log."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.config.answers import OverAnswers
from penstock.config.pipeline import Pipeline
from penstock.core.kinds import part
from penstock.core.step import StepSpec
from penstock.kinds.frame import EXCLUDED
from penstock.lake.history import unread
from penstock.lake.history.merged import in_force_at
from penstock.lake.history.position import SPEED, Position
from penstock.lake.history.standing import Standing, standing, told
from penstock.lake.history.unread import Unread
from penstock.lake.history.view import excluded_at
from penstock.lake.log.blocks import newest_seq
from penstock.lake.serve.fetch import fetched
from penstock.lake.serve.inputs import inputs, inputs_schema
from penstock.lake.storage.commit import Table
from penstock.lake.storage.definition import Definition, FormerStep
from penstock.lake.storage.spec import INTERNAL, UNDECLARED, TableSpec
from penstock.lake.storage.tables import Tables

Content: TypeAlias = pa.Table | ds.Dataset | Unread


@dataclass(frozen=True, slots=True)
class View:
    """Something SQL can name.

    Attributes:
        says: what a row is.
        schema: its columns.
        content: reads it, as of a record of the log; none: as of its own newest.
        seq: the newest record it is as of; none: it has nothing, whatever the record.
        since: it has answers as of records after this one.
        note: what there is to know of its content.
    """

    says: str
    schema: pa.Schema
    content: Callable[[int | None], Content]
    seq: int | None = None
    since: int = -1
    note: str = ""


def views(tables: Tables, pipeline: Pipeline) -> dict[str, View]:
    """All views of a pipeline by name, with the position of each; no answer is read yet."""
    found: dict[str, View] = {}
    shown = {step.name: standing(tables, step) for step in pipeline.specs}
    for step in pipeline.specs:
        one = shown[step.name]
        found[step.name] = _answers("one answer in force", tables, step, one, in_force_at)
    for step in pipeline.specs:
        one = shown[step.name]
        found.setdefault(
            f"{step.name}_timely",
            _answers("one answer as first published", tables, step, one, _timely),
        )
        if step.excludes:
            found.setdefault(f"{step.name}_excluded", _excluded(tables, one))
        for ending, view in _further(tables, step, one):
            found.setdefault(f"{step.name}_{ending}", view)
        if isinstance(pipeline, OverAnswers) and not step.by_key:
            found.setdefault(f"{step.name}_inputs", _inputs(tables, pipeline, step))
    sealed = _sealed(tables)
    events, quarantine = tables.events(pipeline.types), tables.quarantine()
    found.setdefault("events", View("one accepted record", *_log(events, sealed)))
    found.setdefault("quarantine", View("one refused record", *_log(quarantine, sealed)))
    return found


def _timely(tables: Tables, step: Definition, at: Position) -> Unread:
    """What the speed layer published, of all that a position has."""
    rows = unread.answers(tables, step, at)
    return Unread({"rows": rows}, f"FROM {{rows}} WHERE reason = '{SPEED}'")


def _answers(
    says: str,
    tables: Tables,
    step: StepSpec,
    shown: Standing | None,
    which: Callable[[Tables, Definition, Position], Unread],
) -> View:
    if shown is None:
        nothing = _public(tables.answers(step).schema).empty_table()
        return View(says, nothing.schema, lambda _: nothing)
    schema = _public(tables.answers(shown.step).schema)
    columns = ", ".join(map(unread.quoted, schema.names))

    def content(seq: int | None) -> Content:
        at = shown.at if seq is None else shown.at.up_to(seq)
        found = which(tables, shown.step, at)
        return replace(found, select=f"SELECT {columns} {found.select}")

    return View(says, schema, content, shown.at.seq, shown.at.epoch.seq, told(step, shown))


def _further(tables: Tables, step: StepSpec, shown: Standing | None) -> Iterator[tuple[str, View]]:
    """The kind's own views, by the ending of their name.

    Of a former definition nobody knows how its answers merge: it has none to show.
    """
    for ending, (says, merged) in part(step.kind, "views").views(step).items():
        yield ending, _merged(tables, step, shown, says, merged)


def _merged(
    tables: Tables,
    step: StepSpec,
    shown: Standing | None,
    says: str,
    merged: Callable[[pa.Table], pa.Table],
) -> View:
    nothing = merged(tables.answers(step).schema.empty_table())
    if shown is None or isinstance(shown.step, FormerStep):
        return View(says, nothing.schema, lambda _: nothing)

    def content(seq: int | None) -> Content:
        at = shown.at if seq is None else shown.at.up_to(seq)
        return merged(fetched(in_force_at(tables, step, at)))

    return View(says, nothing.schema, content, shown.at.seq, shown.at.epoch.seq)


def _excluded(tables: Tables, shown: Standing | None) -> View:
    says, nothing = "one record that the step leaves out", EXCLUDED.empty_table()
    if shown is None:
        return View(says, nothing.schema, lambda _: nothing)

    def content(seq: int | None) -> Content:
        at = shown.at if seq is None else shown.at.up_to(seq)
        return excluded_at(tables, shown.step, at)

    return View(says, nothing.schema, content, shown.at.seq)


def _inputs(tables: Tables, pipeline: OverAnswers, step: StepSpec) -> View:
    schema, sealed = inputs_schema(tables, step), _sealed(tables)

    def content(seq: int | None) -> Content:
        last = sealed if seq is None or sealed is None else min(seq, sealed)
        return schema.empty_table() if last is None else inputs(tables, pipeline, step, last)

    return View("what one answer is made of, and how much of it waits", schema, content, sealed)


def _public(answers: pa.Schema) -> pa.Schema:
    """Without the columns that only the product needs, windows first."""
    first = ["window_start", "window_end"]
    rest = [n for n in answers.names if n not in {*first, *INTERNAL}]
    return pa.schema([answers.field(name) for name in [*first, *rest]])


def _sealed(tables: Tables) -> int | None:
    last = newest_seq(tables)
    return None if last < 0 else last


def _log(
    spec: TableSpec, sealed: int | None
) -> tuple[pa.Schema, Callable[[int | None], Content], int | None]:
    table = Table(spec)
    schema = _with_undeclared(table)

    def content(seq: int | None) -> Content:
        if sealed is None or not table.exists():
            return schema.empty_table()
        last = sealed if seq is None else min(seq, sealed)
        rows = unread.whole(table, _with_undeclared(table))
        return rows.filter(pc.field("arrival_seq") <= last)

    return schema, content, sealed


def _with_undeclared(table: Table) -> pa.Schema:
    """The columns of a table of the log, with those that come with what it holds."""
    spec = table.spec
    there = pa.schema(table.delta.schema()) if table.exists() else spec.least
    known = [f for f in spec.schema if f.name in {*spec.least.names, *there.names}]
    found = [there.field(UNDECLARED)] if UNDECLARED in there.names else []
    return pa.schema([*known, *found])
