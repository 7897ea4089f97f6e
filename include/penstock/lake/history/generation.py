"""Generations of a step: where a run of its query starts, and from which state.

An *epoch* is the first generation of a definition: everything sealed before it is history to
the step (answered by the correction runner, open panes seeded). A later generation of the same
epoch goes on at the sealed position with its state rebuilt from the log.
See docs/concepts/timely-answers.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow.compute as pc

from penstock.core.slack import SlackChange, SlackSpec, WatermarkState
from penstock.core.step import StepSpec
from penstock.lake.log.blocks import EventTimes, newest_live_before, read_summaries, seen_by
from penstock.lake.log.fold import Fold
from penstock.lake.log.joint import Joint, fold_over
from penstock.lake.storage.commit import Table
from penstock.lake.storage.definition import Definition
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class Generation:
    """One row of ``registry``.

    Attributes:
        number: of this generation, rising over all definitions of the step.
        epoch: number of the definition's first generation.
        block: the first block its query takes.
        seq: last ``arrival_seq`` before that block; -1: none.
        state: the watermark fold before that block.
        slack: in force there when it was registered.
        controller: of the slack there; empty: it has seen nothing, or needs none.
        live: the source was to go on: an end before the epoch is none to it.
        started: when it was registered.
        frozen: the log was frozen up to here, or was asked to be, when its epoch was folded from
            what is left; -1: from the beginning.
    """

    step: str
    fingerprint: str
    number: int
    epoch: int
    block: int
    seq: int
    state: WatermarkState
    slack: SlackSpec
    controller: str
    live: bool
    started: datetime
    frozen: int = -1


@dataclass(frozen=True, slots=True)
class Sealed:
    """A row of ``control`` that counts: the step is sealed up to ``seq``.

    ``late`` and ``answered`` are the pairs of its generation up to there; ``shed`` are of the late.
    ``answers`` are those of its micro-batch.
    """

    generation: int
    micro_batch: int
    block: int
    seq: int
    state: WatermarkState
    open_pairs: int
    late: int = 0
    answered: int = 0
    shed: int = 0
    answers: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        """Rows of an epoch in the order of their positions."""
        return self.block, self.generation, self.micro_batch


def generations(tables: Tables, step: Definition) -> list[Generation]:
    """All generations of a step's name, in order."""
    rows = read_table(Table(tables.registry())).filter(pc.field("step") == step.id)
    return [
        Generation(
            r["step"],
            r["fingerprint"],
            r["generation"],
            r["epoch"],
            r["start_block"],
            r["start_seq"],
            WatermarkState(r["watermark_us"], r["t_max_us"], r["k_us"], r["slack_us"]),
            SlackSpec.from_text(r["slack"]),
            r["controller"] or "",
            bool(r["live"]),
            r["started_at"],
            -1 if r["frozen_seq"] is None else r["frozen_seq"],
        )
        for r in rows.sort_by("generation").to_pylist()
    ]


def current(tables: Tables, step: StepSpec) -> tuple[Generation, Generation] | None:
    """The epoch and the newest generation of this definition, if it was ever started last."""
    found = generations(tables, step)
    if not found or found[-1].fingerprint != step.fingerprint:
        return None
    newest = found[-1]
    epoch = next(g for g in found if g.number == newest.epoch)
    return epoch, newest


def numbered(tables: Tables, step: Definition, number: int) -> Generation:
    """A generation of a step."""
    return next(g for g in generations(tables, step) if g.number == number)


def controller_at(tables: Tables, step: StepSpec, epoch: int, block: int) -> str:
    """The slack's controller where a sealed micro-batch of an epoch ended before a block.

    All rows of one position hold the same: it is a function of the log.
    """
    rows = read_table(
        Table(tables.control(step)),
        ["controller"],
        pc.field("generation") >= epoch,
        Spans("block", ((block, block),)),
    )
    return next(filter(None, rows["controller"].to_pylist()), "")


def lived(
    tables: Tables,
    events: Table,
    step: StepSpec,
    start: Generation | Sealed,
    before: int,
    changes: Sequence[SlackChange],
    controller: str = "",
) -> Fold | Joint:
    """The fold from an epoch's start, or from a sealed micro-batch's end, up to a block.

    Args:
        tables: of the pipeline.
        events: the table of events, of the step's streams.
        step: the step.
        start: where the fold starts.
        before: it ends before this block.
        changes: slack decisions.
        controller: as it was written down at the start; empty: as a generation has it.
    """
    fold = fold_over(EventTimes(events), step)
    if not controller and isinstance(start, Generation):
        controller = start.controller
    newest = newest_live_before(tables, start.block, step.streams)
    fold.start(start.state, start.seq, newest, controller)
    fold.take(seen_by(read_summaries(tables, start.block, before), step.streams), changes)
    return fold
