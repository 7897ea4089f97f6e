"""Decides with which generation each step of a query starts, and writes it down first.

The row of ``registry`` holds all that a fold goes on from: a rebuild and an audit get the same.
However many steps start at once, their slack is one commit of ``decisions``, and their generations
are one of ``registry`` after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock.config.pipeline import Pipeline
from penstock.core.clock import Clock
from penstock.core.errors import TransientError
from penstock.core.slack import BlockKind, SlackSpec, WatermarkState, spec_at
from penstock.core.step import ONLY, StepSpec
from penstock.lake.history.checkpoint import (
    Checkpoint,
    Going,
    create,
    newest_checkpoint,
    next_checkpoint,
)
from penstock.lake.history.generation import Generation, Sealed, controller_at, current, generations
from penstock.lake.history.sealed import last_sealed
from penstock.lake.history.start import after_history
from penstock.lake.log.blocks import (
    SLACK,
    EventTimes,
    changes_in,
    decisions_of,
    next_block,
    read_summaries,
    seen_by,
)
from penstock.lake.log.freezes import asked, frozen
from penstock.lake.log.joint import begun_behind, fold_over
from penstock.lake.log.proposed import DECLARED, declared
from penstock.lake.storage.commit import Table, settle
from penstock.lake.storage.definition import FormerStep
from penstock.lake.storage.tables import Tables

REBUILT = "state rebuilt from the log"
JOINS = "joins a running query"
REMOVED, OVER = "removed", ""
"""Of a step that is over: why, and in place of a fingerprint."""
SHARDS = "shards"
"""Why a generation of the same epoch begins: the other asks for another number of them."""


@dataclass(frozen=True, slots=True)
class Begun:
    """How a query starts.

    Attributes:
        checkpoint: its folder.
        generations: by the name of their step.
        shards: into how many a state is cut, unless its step says how many; 0: as many as suit.
        cut: into how many the state of each step is cut already; 0: it begins.
    """

    checkpoint: str
    generations: Mapping[str, Generation]
    shards: int
    cut: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Pending:
    """What is decided and not written down yet.

    Attributes:
        slack: rows of ``decisions``, by application, each with the number of its transaction.
        steps, begun: steps with a new generation; these, and why each begins.
    """

    slack: dict[str, tuple[int, pa.Table]] = field(default_factory=dict)
    steps: list[StepSpec] = field(default_factory=list)
    begun: list[tuple[Generation, str]] = field(default_factory=list)


class Registry:
    """Of the steps on one log.

    Args:
        tables: of the log.
        clock: tells when a generation was registered.
        pipeline: on whose log they stand.
        shards: into how many a state is to be cut; 0: as it is cut, or will be.
    """

    def __init__(self, tables: Tables, clock: Clock, pipeline: Pipeline, shards: int = 0) -> None:
        self.tables, self.clock, self.shards = tables, clock, shards
        self.pipeline = pipeline
        self.registry = Table(tables.registry())
        self.decisions = Table(tables.decisions())
        self._pending: Pending | None = None

    def start_all(self, queries: Mapping[str, Sequence[StepSpec]] | None = None) -> None:
        """Register steps, so that what comes to the log from now on is no history to them.

        Args:
            queries: with their steps; none: the pipeline's own.
        """
        for query, steps in (self.pipeline.queries if queries is None else queries).items():
            self.start(query, steps)

    def join(self, steps: Sequence[StepSpec], reason: str = JOINS) -> Mapping[str, Generation]:
        """Begin steps in a query that runs: their state is new there, or rebuilt from the log."""
        with self._gathered():
            return {step.id: self._generation(step, None, reason)[0] for step in steps}

    def start(self, query: str, steps: Sequence[StepSpec]) -> Begun:
        """Go on with each step where that is a plain continuation, else with a new generation.

        Args:
            query: that runs the steps.
            steps: of the pipeline.
        """
        found = newest_checkpoint(self.tables, query)
        usable, reason = (found if found.usable else None), REBUILT
        if usable is not None and self.shards and usable.shards not in {0, self.shards}:
            usable, reason = None, SHARDS
        with self._gathered():
            began = {step.id: self._generation(step, usable, reason) for step in steps}
        keeps = any(going is Going.ON for _, going in began.values())
        stays = usable is not None and (keeps or not usable.holds)
        place = found.uri if stays else next_checkpoint(self.tables, query)
        create(place)  # after the generations: whoever starts next finds both, or begins anew
        shards = (found.shards if stays else 0) or self.shards
        begun = {name: generation for name, (generation, _) in began.items()}
        cut = {name: found.shards_of(name, generation.number) if stays else 0
               for name, generation in begun.items()}  # fmt: skip
        return Begun(place, begun, shards, cut)

    def _generation(
        self, step: StepSpec, checkpoint: Checkpoint | None, reason: str
    ) -> tuple[Generation, Going]:
        """With which generation a step starts, and whether the checkpoint goes on with it.

        Args:
            step: the step.
            checkpoint: where it may go on; none: nowhere.
            reason: why its state is rebuilt, if the checkpoint does not go on.
        """
        found = current(self.tables, step)
        if found is None:
            first = not generations(self.tables, step)
            why = "first start" if first else "changed definition"
            return self._begin_epoch(step, why), Going.BEGINS
        epoch, newest = found
        lasts = last_sealed(self.tables, step, epoch.number)
        if self._goes_on_after_its_end(step, epoch, lasts):
            return self._begin_epoch(step, "live after its end"), Going.BEGINS
        if (lasts[-1] if lasts else epoch).seq < frozen(self.tables).seq:  # it was not there then
            return self._begin_epoch(step, "frozen beyond where it stood"), Going.BEGINS
        self._decide_slack(step)
        going = self._going(step, newest, lasts, checkpoint)
        if going is not Going.ASTRAY:
            return newest, going
        if not lasts:
            block, seq, state, controller = epoch.block, epoch.seq, epoch.state, epoch.controller
        else:
            block, seq, state = lasts[-1].block, lasts[-1].seq, lasts[-1].state
            controller = controller_at(self.tables, step, epoch.number, block)
        again = Generation(
            step.id, step.fingerprint, newest.number + 1, epoch.number, block, seq, state,
            self._slack_at(step, block), controller, epoch.live, self.clock.now(), epoch.frozen,
        )  # fmt: skip
        return self._register(step, again, reason), Going.BEGINS

    def begin_epoch(
        self, step: StepSpec, reason: str, former: Generation | None = None
    ) -> Generation:
        """Make everything sealed so far the step's history.

        Args:
            step: the step.
            reason: why.
            former: the epoch before; it stays where the new one would start as it does.
        """
        with self._gathered():
            return self._begin_epoch(step, reason, former)

    def _begin_epoch(
        self, step: StepSpec, reason: str, former: Generation | None = None
    ) -> Generation:
        goes = asked(self.tables)
        blocks = seen_by(read_summaries(self.tables, goes.block), step.streams)
        past = generations(self.tables, step)
        number = past[-1].number + 1 if past else 0
        block = blocks[-1].number + 1 if blocks else goes.block
        seq = blocks[-1].last_seq if blocks else goes.seq
        self._decide_slack(step, block)
        slack = self._slack_at(step, block)
        live, types = self.pipeline.is_live(step.streams), self.pipeline.types
        fold = fold_over(EventTimes(Table(self.tables.events(types, step.streams))), step)
        begun = begun_behind(step, goes.streams, live=live)
        fold.start(WatermarkState(), goes.seq, goes.newest_of(step.streams), begun)
        state = after_history(blocks, slack, fold, live=live)
        new = Generation(
            step.id, step.fingerprint, number, number, block, seq, state,
            slack, fold.begun, live, self.clock.now(), goes.seq,
        )  # fmt: skip
        if former is not None:
            same = replace(
                former, number=number, epoch=number, started=new.started, frozen=new.frozen
            )
            if same == new:
                return former
        return self._register(step, new, reason)

    def _goes_on_after_its_end(
        self, step: StepSpec, epoch: Generation, lasts: Sequence[Sealed]
    ) -> bool:
        """Whether the source is live although it has ended: the end stays in its epoch."""
        live = {name for name in step.streams or (ONLY,) if self.pipeline.is_live((name,))}
        if not live:
            return False
        block, state = (lasts[-1].block, lasts[-1].state) if lasts else (epoch.block, epoch.state)
        later = seen_by(read_summaries(self.tables, block), step.streams)
        return state.ended or any(b.kind is BlockKind.END and b.stream in live for b in later)

    @contextmanager
    def _gathered(self) -> Iterator[None]:
        """Write down together what is decided meanwhile: slack first, generations after it.

        Raises:
            TransientError: another process began a generation of the same number.
        """
        pending = self._pending = Pending()
        try:
            yield
        finally:
            self._pending = None
        if pending.slack:
            settle(self.tables.blocks())
            self.decisions.append_each(pending.slack)
        settle(self.tables.decisions(), self.tables.registry())
        if pending.begun:
            controls = (self.tables.control(step) for step in pending.steps)
            settle(self.tables.blocks(), *controls)
            _write_down(self.registry, pending.begun)

    def _slack_at(self, step: StepSpec, block: int) -> SlackSpec:
        return spec_at(changes_in(self._slack_of(step)), block)

    def _register(self, step: StepSpec, generation: Generation, reason: str) -> Generation:
        assert self._pending is not None  # noqa: S101
        self._pending.steps.append(step)
        self._pending.begun.append((generation, reason))
        return generation

    def _slack_of(self, step: StepSpec) -> list[dict[str, Any]]:
        """Decisions of a step, with what is about to be written down."""
        assert self._pending is not None  # noqa: S101
        _, pending = self._pending.slack.get(f"{SLACK}:{step.id}", (0, None))
        rows = [] if pending is None else pending.to_pylist()
        return [*decisions_of(self.decisions, step.id), *rows]

    def _decide_slack(self, step: StepSpec, block: int | None = None) -> None:
        """Write down the slack of the pipeline file; it holds from the next block."""
        rows = self._slack_of(step)
        if declared(rows) == step.slack:
            return
        changes = [row for row in rows if row["what"] == SLACK]
        if block is None:
            block = next_block(self.tables)
        row = {
            "step": step.id,
            "block": block if changes else 0,
            "what": SLACK,
            "value": step.slack.to_text(),
            "reason": DECLARED,
            "decided_at": self.clock.now(),
        }
        assert self._pending is not None  # noqa: S101
        content = pa.Table.from_pylist([row], schema=self.decisions.spec.schema)
        self._pending.slack[f"{SLACK}:{step.id}"] = len(changes), content

    def _going(
        self,
        step: StepSpec,
        newest: Generation,
        lasts: Sequence[Sealed],
        checkpoint: Checkpoint | None,
    ) -> Going:
        own = next((s for s in lasts if s.generation == newest.number), None)
        sealed = (-1, newest.block) if own is None else (own.micro_batch, own.block)
        begun = any(
            self._reached(Table(spec), newest.number, sealed[0] + 1)
            for spec in (
                self.tables.late(step, []),
                self.tables.answers(step),
                self.tables.excluded(step),
            )
        )
        if checkpoint is None:  # who had it may still run, and would not be fenced
            return Going.ASTRAY
        return checkpoint.going(step.id, newest.number, sealed, begun=begun)

    def _reached(self, table: Table, generation: int, micro_batch: int) -> bool:
        if not table.exists():
            return False
        table.refresh()
        last = table.last(f"speed:{generation}")
        return last is not None and last >= micro_batch


def end_step(tables: Tables, step: str, clock: Clock) -> None:
    """Let a step be over that is removed: should it come again, it begins anew. Twice is once."""
    found = generations(tables, FormerStep(step, OVER, (), ()))
    if found and found[-1].fingerprint != OVER:
        number = found[-1].number + 1
        over = replace(
            found[-1], fingerprint=OVER, number=number, epoch=number, started=clock.now()
        )
        _write_down(Table(tables.registry()), [(over, REMOVED)])


def _write_down(registry: Table, begun: Sequence[tuple[Generation, str]]) -> None:
    """Commit generations, each with why it begins.

    Raises:
        TransientError: another process was faster.
    """
    parts = {
        f"registry:{new.step}": (
            new.number, pa.Table.from_pylist([_row(new, why)], schema=registry.spec.schema)
        )
        for new, why in begun
    }  # fmt: skip
    written = registry.append_each(parts)
    for generation, _ in begun:
        if f"registry:{generation.step}" not in written:
            raise TransientError(
                f"{generation.step}: another process began generation {generation.number} at the"
                " same moment; only one may run it. Start again if no other stream host does"
            )


def _row(generation: Generation, reason: str) -> dict[str, Any]:
    state: WatermarkState = generation.state
    return {
        "step": generation.step,
        "fingerprint": generation.fingerprint,
        "generation": generation.number,
        "epoch": generation.epoch,
        "start_block": generation.block,
        "start_seq": generation.seq,
        "watermark_us": state.watermark,
        "t_max_us": state.t_max,
        "k_us": state.k,
        "slack_us": state.slack,
        "slack": generation.slack.to_text(),
        "controller": generation.controller,
        "live": generation.live,
        "reason": reason,
        "frozen_seq": generation.frozen,
        "started_at": generation.started,
    }
