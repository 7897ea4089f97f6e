"""Decides with which generation a step's query starts, and writes it down first.

The row of ``registry`` holds all that a fold goes on from: a rebuild and an audit get the same.
"""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.config.pipeline import Mode, Pipeline
from penstock.core.clock import Clock
from penstock.core.errors import TransientError
from penstock.core.slack import BlockKind, SlackSpec, WatermarkState, spec_at
from penstock.core.step import StepSpec
from penstock.lake.commit import Table, settle
from penstock.lake.fold import Fold
from penstock.lake.generation import (
    FAILURES,
    Generation,
    Sealed,
    controller_at,
    current,
    failures,
    generations,
    remembers,
    spark_progress,
)
from penstock.lake.log import SLACK, decisions_of, next_block, read_summaries, slack_changes
from penstock.lake.proposed import DECLARED, declared
from penstock.lake.sealed import last_sealed
from penstock.lake.start import after_history, completed
from penstock.lake.tables import Tables


class Registry:
    """Of the steps of one pipeline."""

    def __init__(self, tables: Tables, clock: Clock, pipeline: Pipeline) -> None:
        self.tables, self.clock = tables, clock
        self.live = pipeline.source.mode is Mode.LIVE
        self.events = Table(tables.events(pipeline.types))
        self.registry = Table(tables.registry())
        self.decisions = Table(tables.decisions())

    def start(self, step: StepSpec) -> Generation:
        """Go on where that is a plain continuation, else begin a new generation."""
        found = current(self.tables, step)
        if found is None:
            first = not generations(self.tables, step)
            return self.begin_epoch(step, "first start" if first else "changed definition")
        epoch, newest = found
        lasts = last_sealed(self.tables, step, epoch.number)
        if self._goes_on_after_its_end(epoch, lasts):
            return self.begin_epoch(step, "live after its end")
        whole = completed(self.tables, step, epoch)
        if whole is None:
            return self.begin_epoch(step, "a former version's start is not the log's")
        self._decide_slack(step)
        if newest.slack is not None and self._goes_on(step, newest, lasts):
            settle(self.tables.decisions(), self.tables.registry())
            return newest
        if not lasts:
            block, seq, state, controller = epoch.block, epoch.seq, whole.state, ""
        else:
            block, seq, state = lasts[-1].block, lasts[-1].seq, lasts[-1].state
            controller = controller_at(self.tables, step, epoch.number, block)
        return self._register(
            step,
            Generation(
                step.name, step.fingerprint, newest.number + 1, epoch.number, block, seq, state,
                self._slack_at(step, block), controller, epoch.live, self.clock.now(),
            ),
            "state rebuilt from the log",
        )  # fmt: skip

    def begin_epoch(
        self, step: StepSpec, reason: str, former: Generation | None = None
    ) -> Generation:
        """Make everything sealed so far the step's history.

        Args:
            step: the step.
            reason: why.
            former: the epoch before; it stays where the new one would start as it does.
        """
        blocks = read_summaries(self.tables)
        past = generations(self.tables, step)
        number = past[-1].number + 1 if past else 0
        block = blocks[-1].number + 1 if blocks else 0
        seq = blocks[-1].last_seq if blocks else -1
        self._decide_slack(step, block)
        slack = self._slack_at(step, block)
        state = after_history(blocks, slack, Fold(self.events, step.window), live=self.live)
        new = Generation(
            step.name, step.fingerprint, number, number, block, seq, state,
            slack, "", self.live, self.clock.now(),
        )  # fmt: skip
        if former is not None:
            same = replace(former, number=number, epoch=number, started=new.started)
            if same == new:
                return former
        return self._register(step, new, reason)

    def _goes_on_after_its_end(self, epoch: Generation, lasts: Sequence[Sealed]) -> bool:
        """Whether the source is live although it has ended: the end stays in its epoch."""
        if not self.live:
            return False
        block, state = (lasts[-1].block, lasts[-1].state) if lasts else (epoch.block, epoch.state)
        later = read_summaries(self.tables, block)
        return state.ended or any(b.kind is BlockKind.END for b in later)

    def _slack_at(self, step: StepSpec, block: int) -> SlackSpec:
        return spec_at(slack_changes(self.tables, step.name), block)

    def _register(self, step: StepSpec, generation: Generation, reason: str) -> Generation:
        state: WatermarkState = generation.state
        row = {
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
            "slack": generation.slack.to_text() if generation.slack else None,
            "controller": generation.controller,
            "live": generation.live,
            "reason": reason,
            "started_at": generation.started,
        }
        table = pa.Table.from_pylist([row], schema=self.registry.spec.schema)
        tables = self.tables
        settle(tables.decisions(), tables.blocks(), tables.control(step))
        if not self.registry.append(table, f"registry:{generation.step}", generation.number):
            raise TransientError(
                f"{generation.step}: another process began generation {generation.number} at the"
                " same moment; only one may run it. Start again if no other stream host does"
            )
        return generation

    def _decide_slack(self, step: StepSpec, block: int | None = None) -> None:
        """Write down the slack of the pipeline file; it holds from the next block."""
        rows = decisions_of(self.decisions, step.name)
        if declared(rows) == step.slack:
            return
        changes = [row for row in rows if row["what"] == SLACK]
        if block is None:
            block = next_block(self.tables)
        row = {
            "step": step.name,
            "block": block if changes else 0,
            "what": SLACK,
            "value": step.slack.to_text(),
            "reason": DECLARED,
            "decided_at": self.clock.now(),
        }
        settle(self.tables.blocks())
        self.decisions.append(
            pa.Table.from_pylist([row], schema=self.decisions.spec.schema),
            f"slack:{step.name}",
            len(changes),
        )

    def _goes_on(self, step: StepSpec, newest: Generation, lasts: Sequence[Sealed]) -> bool:
        """Whether Spark's checkpoint is a plain continuation of what is sealed."""
        own = next((s for s in lasts if s.generation == newest.number), None)
        micro_batch = 0 if own is None else own.micro_batch + 1
        at = newest.block if own is None else own.block
        begun = any(
            self._reached(Table(spec), newest.number, micro_batch)
            for spec in (self.tables.late(step, []), self.tables.answers(step))
        )
        logged, committed = spark_progress(self.tables.checkpoint(step, newest.number))
        if failures(self.tables.checkpoint(step, newest.number), committed) >= FAILURES:
            return False
        if max(logged, default=0) > (-1 if committed is None else committed) + 1:
            return False  # Spark repeats one micro-batch, never two
        if committed is None and own is None:
            fresh = not remembers(self.tables.checkpoint(step, newest.number))
            return 0 in logged or (fresh and not begun)
        replays = committed == micro_batch - 2 or (committed is None and micro_batch == 1)
        stands = committed == micro_batch - 1
        known = not begun or micro_batch in logged  # else it would be cut anew, and lose answers
        return (replays or stands) and logged.get(micro_batch - 1) == at and known

    def _reached(self, table: Table, generation: int, micro_batch: int) -> bool:
        if not table.exists():
            return False
        table.refresh()
        last = table.last(f"speed:{generation}")
        return last is not None and last >= micro_batch
