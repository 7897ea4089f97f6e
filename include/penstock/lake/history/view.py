"""What a reader sees of a step at a sealed position: the answers in force, and the balance.

A speed row counts only if ``control`` sealed its micro-batch, a corrected one only if its whole
plan is finished in ``corrections``; the answer in force is the one that has seen most of the log.
The laws hold at every sealed position, not between commits.

After a step was defined anew, readers keep the former definition's answers until the new one has
answered what that had: see docs/how-to/read-the-answers.md.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import ARROW
from penstock.core.expression import Column
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, micros
from penstock.lake.history.generation import Generation, Sealed, current, generations
from penstock.lake.history.sealed import last_sealed, sealed_rows
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Definition, FormerStep, Tables

ROW = "$row"
"""No column of a user has such a name."""
SPEED, LATE, BACKFILL = "speed", "late", "backfill"
PLANNED, DONE = "planned", "done"
TYPES = {arrow: kind for kind, arrow in ARROW.items()}


@dataclass(frozen=True, slots=True)
class Position:
    """A sealed position of one definition of a step.

    Attributes:
        epoch: the definition's first generation.
        sealed: the control row read up to.
        lasts: the last control row that counts of each of its generations, in order: their
            micro-batches up to there are sealed.
        done: numbers of the correction plans that were finished when it was read: the answers of
            an unfinished one do not exist for a reader. With those of former epochs on which the
            epoch's history rests.
        owes: whether the windows from before the epoch still wait for their first answers.
        seq: answers speak for the log up to here, at most; other steps may not be further.
    """

    epoch: Generation
    sealed: Sealed
    lasts: tuple[Sealed, ...]
    done: frozenset[int]
    owes: bool
    seq: int

    def up_to(self, seq: int) -> "Position":
        """The same, but as of an earlier record, if it is one.

        Between two rows of control that is a position, too: a timely answer names the block that
        closed its window, and is a function of the log up to there (law 0).
        """
        return replace(self, seq=min(self.seq, seq))


def position(tables: Tables, step: StepSpec) -> Position | None:
    """The newest sealed position; none: the step was never started, or sealed nothing yet."""
    found = current(tables, step)
    return None if found is None else position_of(tables, step, found[0])


def start_of(tables: Tables, step: StepSpec) -> Position | None:
    """Where a step begins, as a position; none: it was never started.

    Its history, which ends there, can be answered and audited before its stream seals anything.
    """
    found = current(tables, step)
    if found is None:
        return None
    first = found[0]
    done, owes = _corrected(tables, step, first)
    sealed = Sealed(first.number, -1, first.block, first.seq, first.state, 0)
    return Position(first, sealed, (), done, owes, first.seq)


def position_of(
    tables: Tables, step: Definition, epoch: Generation, before: int | None = None
) -> Position | None:
    """The newest sealed position of one epoch; none: it sealed nothing.

    Args:
        tables: of the pipeline.
        step: the epoch's definition.
        epoch: the epoch.
        before: the first generation of the next epoch; none: there is none.
    """
    lasts = last_sealed(tables, step, epoch.number, before)
    if not lasts:
        return None
    # Read after control, and before any answer: what counts is there as a whole.
    done, owes = _corrected(tables, step, epoch)
    return Position(epoch, lasts[-1], lasts, done, owes, lasts[-1].seq)


def _corrected(tables: Tables, step: Definition, epoch: Generation) -> tuple[frozenset[int], bool]:
    """Numbers of the finished correction plans an epoch has, and whether it owes its history."""
    names = ["plan", "epoch", "state", "reason", "base"]
    mine = pc.field("step") == step.name
    rows = read_table(Table(tables.corrections()), names, mine).to_pylist()
    finished = [r for r in rows if r["state"] == DONE and r["epoch"] == epoch.number]
    done = {r["plan"] for r in finished}
    answered = [r["plan"] for r in finished if r["reason"] == BACKFILL]
    bases = {r["plan"]: r["base"] for r in rows if r["state"] == PLANNED}
    for plan in answered:
        base = bases.get(plan)
        while base is not None and base not in done:
            done.add(base)
            base = bases.get(base)
    history = epoch.seq >= 0 and epoch.state.watermark > BEGINNING
    return frozenset(done), history and not answered


def sealed_only(rows: pa.Table, at: Position) -> pa.Table:
    """Rows of micro-batches that ``control`` had sealed by a position."""
    generation, micro_batch = np.asarray(rows["generation"]), np.asarray(rows["micro_batch"])
    known = np.zeros(rows.num_rows, bool)
    for last in at.lasts:
        known |= (generation == last.generation) & (micro_batch <= last.micro_batch)
    return rows.filter(pa.array(known))


def rows_of(
    tables: Tables, step: Definition, at: Position, within: Spans | None = None
) -> list[Sealed]:
    """Rows of ``control`` that a position has, in the order of their positions; all by default."""
    found = sealed_rows(tables, step, at.epoch.number, within=within)
    lasts = {last.generation: last.micro_batch for last in at.lasts}
    return [s for s in found if s.micro_batch <= lasts.get(s.generation, -1)]


def answers_at(
    tables: Tables, step: Definition, at: Position, within: Spans | None = None
) -> pa.Table:
    """All answers a position has: timely, of the history, corrected."""
    seen = pc.field("through_seq") <= at.seq
    rows = read_table(Table(tables.answers(step)), where=seen, within=within)
    speed = sealed_only(rows.filter(pc.equal(rows["reason"], SPEED)), at)
    other = rows.filter(
        (pc.field("reason") != SPEED)
        & ((pc.field("epoch") == at.epoch.number) | (pc.field("reason") == BACKFILL))
        & pc.field("plan").isin(pa.array(sorted(at.done), pa.int64()))
    )
    return pa.concat_tables([speed, other])


def late_at(
    tables: Tables,
    step: StepSpec,
    at: Position,
    fields: list[pa.Field],
    within: Spans | None = None,
) -> pa.Table:
    """Late pairs a position has."""
    return sealed_only(read_table(Table(tables.late(step, fields)), within=within), at)


def in_force(answers: pa.Table, step: Definition) -> pa.Table:
    """One row per window and key: the answer that has seen most of the log."""
    by = ["window_start", *step.key_names]
    ordered = answers.sort_by([("through_seq", "ascending"), ("revision", "ascending")])
    ordered = ordered.append_column(ROW, pa.array(range(ordered.num_rows), pa.int64()))
    last = ordered.group_by(by, use_threads=False).aggregate([(ROW, "last")])
    return ordered.take(last[f"{ROW}_last"]).drop_columns([ROW]).sort_by("window_start")


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


def left_behind(tables: Tables, steps: Collection[str]) -> list[str]:
    """Names of steps that once ran and are none of these: the pipeline file has them no more."""
    rows = read_table(Table(tables.registry()), ["step"])
    return sorted({*rows["step"].to_pylist()} - {*steps})


def told(step: StepSpec, shown: Standing) -> str:
    """Which definition readers are shown, if it is not the pipeline file's; else empty."""
    if not shown.waits:
        return ""
    return (
        f"{step.name}: answers of its former definition {shown.step.fingerprint}, as of record"
        f" {shown.at.seq + 1:,}. That of the pipeline file, {step.fingerprint}, {shown.waits}."
    )


def notes(
    tables: Tables, steps: Sequence[StepSpec], audited: Sequence[Mapping[str, Any]] = ()
) -> list[str]:
    """What an audit's reader should know: former definitions, steps that are gone, what it covered.

    Args:
        tables: of the pipeline.
        steps: of the pipeline.
        audited: the audit's comparisons.
    """
    shown = [(step, standing(tables, step)) for step in steps]
    found = [told(step, one) for step, one in shown if one is not None and one.waits]
    found += [
        f"{name}: no longer in the pipeline file; its answers stay where they are, unaudited."
        for name in left_behind(tables, [step.name for step in steps])
    ]
    return found + [row["covered"] for row in audited]


def answers_in_force(tables: Tables, step: StepSpec) -> pa.Table:
    """The answers in force; empty before there is a position.

    Of the definition that ``standing`` names, with its columns: after a change that is the former
    one until the new one has answered what that had.
    """
    return in_force_of(tables, step, standing(tables, step))


def timely_answers(tables: Tables, step: StepSpec) -> pa.Table:
    """The answers as the speed layer published them; of the same definition."""
    return timely_of(tables, step, standing(tables, step))


def in_force_of(tables: Tables, step: StepSpec, found: Standing | None) -> pa.Table:
    """The answers in force of a standing; none: no answers, in the step's own columns."""
    if found is None:
        return tables.answers(step).schema.empty_table()
    return in_force(answers_at(tables, found.step, found.at), found.step)


def timely_of(tables: Tables, step: StepSpec, found: Standing | None) -> pa.Table:
    """As ``in_force_of``, but what the speed layer published."""
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
    nothing = FormerStep(step.name, fingerprint, (), ())
    table = Table(replace(tables.answers(nothing), schema=pa.schema([])))
    if not table.exists():
        return None
    fields = list(pa.schema(table.delta.schema()))
    names = [field.name for field in fields]
    start, count = names.index("window_start"), names.index("n_records")
    keys, values = fields[:start], fields[start + 2 : count]
    return FormerStep(step.name, fingerprint, _columns(keys), _columns(values))


def _columns(fields: Sequence[pa.Field]) -> tuple[Column, ...]:
    return tuple(Column(field.name, TYPES[field.type]) for field in fields)


@dataclass(frozen=True, slots=True)
class Balance:
    """Where every received record, and every (record, window) pair, has gone.

    ``received = accepted + quarantined`` and
    ``pairs = on_time + late + open + preloaded``; the audit recomputes ``pairs`` from events.
    """

    received: int
    accepted: int
    quarantined: int
    on_time: int
    late: int
    open: int
    preloaded: int

    @property
    def pairs(self) -> int:
        """All pairs accounted for."""
        return self.on_time + self.late + self.open + self.preloaded


def balance(tables: Tables, step: StepSpec) -> Balance | None:
    """The balance at the newest sealed position; none before there is one."""
    at = position(tables, step)
    if at is None:
        return None
    blocks = read_table(Table(tables.blocks()), where=pc.field("last_seq") <= at.sealed.seq)
    answers = answers_at(tables, step, at)
    late = late_at(tables, step, at, [])
    return Balance(
        received=at.sealed.seq + 1,
        accepted=_total(blocks["accepted"]),
        quarantined=_total(blocks["quarantined"]),
        on_time=_total(answers.filter(pc.equal(answers["reason"], SPEED))["n_records"]),
        late=_total(late["n_records"]),
        open=at.sealed.open_pairs,
        preloaded=_total(preloaded(answers, step)["n_records"]),
    )


def preloaded(answers: pa.Table, step: Definition) -> pa.Table:
    """Of a position's answers those of the history before its epoch: the last of each window."""
    return in_force(answers.filter(pc.equal(answers["reason"], BACKFILL)), step)


def _total(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)
