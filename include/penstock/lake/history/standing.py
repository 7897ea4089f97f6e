"""What readers are shown of a step: the pipeline file's definition, or still a former one.

After a step was defined anew, readers keep the former definition's answers until the new one has
answered what that had: see docs/how-to/read-the-answers.md.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import ARROW
from penstock.core.expression import Column
from penstock.core.step import StepSpec
from penstock.core.window import micros
from penstock.lake.history.generation import Generation, generations
from penstock.lake.history.position import (
    SPEED,
    Position,
    position_of,
)
from penstock.lake.history.view import answers_at, in_force
from penstock.lake.storage.commit import Table
from penstock.lake.storage.definition import Definition, FormerStep
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables

TYPES = {arrow: kind for kind, arrow in ARROW.items()}


@dataclass(frozen=True, slots=True)
class Standing:
    """What readers are shown of a step.

    Attributes:
        step: the definition: the pipeline file's, or a former one.
        at: its position.
        waits: why it is not the pipeline file's definition; empty: it is.
    """

    step: Definition
    at: Position
    waits: str = ""

    def up_to(self, seq: int) -> "Standing":
        """The same as of an earlier record, if it is one."""
        return replace(self, at=self.at.up_to(seq))


def standing(tables: Tables, step: StepSpec) -> Standing | None:
    """What readers are shown of a step; none: it has sealed nothing under any definition."""
    every = generations(tables, step)
    epochs = [g for g in every if g.number == g.epoch]
    found = _newest(tables, step, epochs)
    if found is None or epochs[-1].fingerprint == step.fingerprint:
        return found
    return replace(found, waits=found.waits or "has not been started")


def left_behind(
    tables: Tables, steps: Sequence[StepSpec], others: Collection[str] = ()
) -> list[str]:
    """Runs of a pipeline that nobody has any more: its file has their steps no more.

    Args:
        tables: of the log.
        steps: of the pipeline.
        others: runs that others on the log have, and versions of the pipeline.
    """
    whose = {step.guest for step in steps}
    mine = {run for run in ever_run(tables) if named_after(run) in whose}
    return sorted(mine - {step.id for step in steps} - {*others})


def named_after(run: str) -> str:
    """Of which guest a run has its name; empty: of the log's own pipeline, as ``minute.2`` has."""
    return re.sub(r"\.\d+$", "", run).rpartition(".")[0]


def ever_run(tables: Tables) -> list[str]:
    """All steps that ran on a log and were not removed since, by id."""
    rows = read_table(Table(tables.registry()), ["step", "fingerprint", "generation"])
    newest = {row["step"]: row["fingerprint"] for row in rows.sort_by("generation").to_pylist()}
    return sorted(name for name, fingerprint in newest.items() if fingerprint)


def told(step: StepSpec, shown: Standing) -> str:
    """Which definition readers are shown, if it is not the pipeline file's; else empty."""
    if not shown.waits:
        return ""
    if shown.step.fingerprint == step.fingerprint:
        return (
            f"{step.id}: answers from before it began anew, as of record {shown.at.seq + 1:,}."
            f" Its new beginning {shown.waits}."
        )
    return (
        f"{step.id}: answers of its former definition {shown.step.fingerprint}, as of record"
        f" {shown.at.seq + 1:,}. That of the pipeline file, {step.fingerprint}, {shown.waits}."
    )


def notes(
    tables: Tables,
    steps: Sequence[StepSpec],
    audited: Sequence[Mapping[str, Any]] = (),
    others: Collection[str] = (),
) -> list[str]:
    """What an audit's reader should know: former definitions, steps that are gone, what it covered.

    Args:
        tables: of the pipeline.
        steps: of the pipeline.
        audited: the audit's comparisons.
        others: runs that others on the log have.
    """
    shown = [(step, standing(tables, step)) for step in steps]
    found = [told(step, one) for step, one in shown if one is not None and one.waits]
    found += [
        f"{name}: no longer in the pipeline file; its answers stay where they are, unaudited."
        for name in left_behind(tables, steps, others)
    ]
    return found + [row["covered"] for row in audited]


def answers_in_force(tables: Tables, step: StepSpec) -> pa.Table:
    """The answers in force; empty before there is a position.

    Of the definition that ``standing`` names, with its columns: after a change that is the former
    one until the new one has answered what that had.
    """
    found = standing(tables, step)
    if found is None:
        return tables.answers(step).schema.empty_table()
    return in_force(answers_at(tables, found.step, found.at), found.step)


def timely_answers(tables: Tables, step: StepSpec) -> pa.Table:
    """The answers as the speed layer published them; of the same definition."""
    found = standing(tables, step)
    if found is None:
        return tables.answers(step).schema.empty_table()
    rows = answers_at(tables, found.step, found.at)
    return rows.filter(pc.equal(rows["reason"], SPEED))


def _newest(tables: Tables, step: StepSpec, epochs: Sequence[Generation]) -> Standing | None:
    """Of some epochs the newest one that has answered what those before it had."""
    shown: Standing | None = None
    for i, epoch in enumerate(epochs):
        one = definition_of(tables, step, epoch.fingerprint)
        after = epochs[i + 1].number if i + 1 < len(epochs) else None
        at = None if one is None else position_of(tables, one, epoch, after)
        if one is None or at is None:
            why = "has sealed nothing yet"
        else:
            why = "" if shown is None else _lacks(tables, at, shown)
        if shown is not None and why:
            shown = replace(shown, waits=why)
        elif one is not None and at is not None:
            shown = Standing(one, at)
    return shown


def _lacks(tables: Tables, at: Position, former: Standing) -> str:
    """What a position still owes of what a former definition had; empty: nothing."""
    closed = at.sealed.state.watermark
    if not at.owes and closed >= former.at.sealed.state.watermark:
        return ""
    ends = in_force(answers_at(tables, former.step, former.at), former.step)["window_end"]
    last = pc.max(ends).as_py()
    if last is None:  # the former had nothing
        return ""
    if at.owes:
        return "has not answered its history yet"
    return "" if closed >= micros(last) else f"has not closed its windows up to {last:%F %T} UTC"


def definition_of(tables: Tables, step: StepSpec, fingerprint: str) -> Definition | None:
    """A definition of a step by its fingerprint; none: a former one that never answered."""
    if fingerprint == step.fingerprint:
        return step
    nothing = FormerStep(step.id, fingerprint, (), ())
    table = Table(replace(tables.answers(nothing), schema=pa.schema([])))
    if not table.exists():
        return None
    fields = list(pa.schema(table.delta.schema()))
    names = [field.name for field in fields]
    start, count = names.index("window_start"), names.index("n_records")
    keys, values = fields[:start], fields[start + 2 : count]
    return FormerStep(step.id, fingerprint, _columns(keys), _columns(values))


def _columns(fields: Sequence[pa.Field]) -> tuple[Column, ...]:
    return tuple(Column(field.name, TYPES[field.type]) for field in fields)
