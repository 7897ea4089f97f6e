"""A step's watermarks folded once more for the audit, from event times and decisions alone.

It is apart from the fold of the speed layer: only a controller of K and its steps are shared.
"""

from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.watermark import Mark, Steering
from penstock.core.controller import Controller
from penstock.core.controllers import from_text, under
from penstock.core.slack import BlockKind, SlackChange, SlackPolicy, SlackSpec, WatermarkState
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.history.generation import Generation
from penstock.lake.log.blocks import SLACK, event_times
from penstock.lake.proof.recount import Blocks
from penstock.lake.proof.waypoint import BEGIN, Waypoint
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables

RECORDS_AT_ONCE = 1 << 21


class Way:
    """The fold of a step over every record, from its epoch's history or from a waypoint on.

    Attributes:
        marks: positions from which on a watermark is in force that closes a window, and it, us.
        start: the state at which the epoch begins; from a waypoint on: the waypoint's.
        past: the states after the blocks before the epoch.
        alone: false: of a step over several streams, who knows what silence means.
    """

    def __init__(
        self,
        tables: Tables,
        events: Table,
        step: StepSpec,
        blocks: Blocks,
        epoch: Generation,
        since: Waypoint = BEGIN,
        *,
        alone: bool = True,
    ) -> None:
        self.alone = alone
        self.past: list[WatermarkState] = []
        self.events, self.step, self.epoch = events, step, epoch
        self.blocks = blocks.seen_by(step.streams)
        self.since = since
        rows = read_table(Table(tables.decisions()))
        rows = rows.filter((pc.field("step") == step.id) & (pc.field("what") == SLACK))
        decided = rows.sort_by([("block", "ascending"), ("decided_at", "ascending")]).to_pylist()
        self.decided = [SlackChange(r["block"], SlackSpec.from_text(r["value"])) for r in decided]
        self._controller: Controller | None = None
        self._newest = since.newest
        self._held: tuple[int, int, Longs, Longs] = (0, 0, *2 * [np.zeros(0, np.int64)])
        self.marks: list[Mark] = []
        if since.begins:
            first, self.start = epoch.block, self._start(epoch.slack)
            self._controller = None  # an epoch's has seen nothing
        else:
            first, self.start = since.block, since.state
            self._controller = self._former()
        self.marks = [(BEGINNING, self.start.watermark)]
        self._after = {first: self.start}
        self._live(self.start, first)

    def end(self) -> Waypoint:
        """Where it has come to."""
        numbers = self.blocks.number
        block = int(numbers[-1]) + 1 if len(numbers) else self.since.block
        text = "" if self._controller is None else self._controller.to_text()
        state = self._after.get(block, self.start)
        return Waypoint(block, self._last(len(numbers) - 1), self._newest, state, text)

    def _former(self) -> Controller | None:
        """The controller with which a waypoint was left; another policy's says nothing here."""
        since = self.since
        slack = [c.spec for c in self.decided if c.block <= since.block]
        if not since.controller or not slack or slack[-1].tuning is None:
            return None
        return from_text(self.step.window, slack[-1], since.controller)

    def after(self, block: int) -> WatermarkState:
        """The state before a block; where there is none, a state no row can have."""
        return self._after.get(block, WatermarkState(BEGINNING - 1))

    def seq(self, block: int) -> int:
        """The last number before a block."""
        at = int(np.searchsorted(self.blocks.number, block))
        return self._last(at - 1)

    def _last(self, i: int) -> int:
        """The last number of the block at a place; -1: before the first."""
        return int(self.blocks.last_seq[i]) if i >= 0 else self.since.seq

    def _start(self, slack: SlackSpec) -> WatermarkState:
        """History moves no watermark, but lets it stand at the window of its newest record."""
        state, blocks = WatermarkState(), self.blocks
        past = np.flatnonzero(blocks.number < self.epoch.block)
        for i in past:
            state = self._block(state, int(i), slack)
            self.past.append(state)
        old = blocks.t_max[past][~blocks.live[past]]  # of other streams' blocks it is none
        newest = int(old.max(initial=BEGINNING))
        if newest > BEGINNING and state.watermark < FOREVER:
            newest -= slack.span if slack.policy is SlackPolicy.FIXED else 0
            window = self.step.window
            floor = newest - (newest - window.origin) % window.slide
            mark = max(state.watermark, floor)
            state = replace(state, watermark=mark, t_max=max(state.t_max, mark))
        return state

    def _live(self, state: WatermarkState, first: int) -> None:
        for i in np.flatnonzero(self.blocks.number >= first):
            number = int(self.blocks.number[i])
            slack = [c.spec for c in self.decided if c.block <= number]
            if slack:
                state = self._block(state, int(i), slack[-1])
                self._mark(self._last(int(i)) + 1, state.watermark)
            self._after[number + 1] = state

    def _mark(self, seq: int, watermark: int) -> None:
        """Note the watermark where a block ends, if a window has ended there besides."""
        window = self.step.window
        known, now = (
            (us - window.origin - window.size) // window.slide
            for us in (self.marks[-1][1], watermark)
        )
        if now > known:
            self.marks.append((seq, watermark))

    def _block(self, state: WatermarkState, i: int, slack: SlackSpec) -> WatermarkState:
        blocks, kind = self.blocks, self.blocks.kind[i] if self.alone else "data"
        if kind == "end" and self.epoch.live and blocks.number[i] < self.epoch.block:
            kind = "idle"
        seqs, times = self._records(i)
        newest, self._newest = self._newest, int(times.max(initial=self._newest))
        if slack.tuning is not None and not (self.alone or blocks.stream[i] in self.step.streams):
            return state  # a controller takes its steps while records of its stream pass
        if slack.tuning is not None:
            return self._steered(state, i, slack, kind, seqs, times, newest)
        self._controller = None
        if kind == "mark":
            mark, newest = int(blocks.mark[i]), int(times.max(initial=BEGINNING))
            return replace(state, watermark=max(state.watermark, mark),
                           t_max=max(state.t_max, newest))  # fmt: skip
        if kind == "end":
            return replace(state, watermark=FOREVER)
        if kind == "idle":
            return replace(state, watermark=max(state.watermark, state.t_max))
        return self._judged(state, slack, seqs, times, newest) if len(times) else state

    def _judged(
        self, state: WatermarkState, slack: SlackSpec, seqs: Longs, times: Longs, newest: int
    ) -> WatermarkState:
        """One record after the other, under ``fixed`` or ``max_delay``."""
        before = np.maximum.accumulate(np.append(newest, times))[:-1]
        lags = np.where(before == BEGINNING, 0, np.maximum(before - times, 0))
        tops = np.maximum.accumulate(np.append(state.t_max, times))[1:]
        fixed = slack.policy is SlackPolicy.FIXED
        counted = lags if fixed else np.where(lags <= slack.span, lags, 0)
        greatest = np.maximum.accumulate(np.append(state.k, counted))[1:]
        waits = np.full(len(times), slack.span) if fixed else greatest
        marks = np.maximum.accumulate(np.append(state.watermark, tops - waits))
        window = self.step.window
        ended = (marks - window.origin - window.size) // window.slide
        for at in np.flatnonzero(ended[1:] > ended[:-1]).tolist():
            self.marks.append((int(seqs[at]) + 1, int(marks[at + 1])))
        return WatermarkState(int(marks[-1]), int(tops[-1]), int(greatest[-1]), int(waits[-1]))

    def _steered(
        self,
        state: WatermarkState,
        i: int,
        slack: SlackSpec,
        kind: str,
        seqs: Longs,
        times: Longs,
        newest: int,
    ) -> WatermarkState:
        """Under a controller: it alone is shared with the speed layer, its laws are tested."""
        known = under(self._controller, self.step.window, slack, state)
        self._controller, last = known, self._last(i)
        steering = Steering(known, self._last(i - 1))
        if not len(times):
            return steering.silent(state, BlockKind(kind), last)
        self.marks += steering.take(seqs, times, newest, last)
        return known.state(state)

    def _records(self, i: int) -> tuple[Longs, Longs]:
        """Live records of a block: their numbers and event times, us."""
        first, last = self._last(i - 1) + 1, self._last(i)
        if not self.blocks.live[i] or last < first:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        low, high, seqs, times = self._held
        if not low <= first <= last < high:
            low, high = first, max(first + RECORDS_AT_ONCE, last + 1)
            ((seqs, times),) = event_times(self.events, [(low, high - 1)])
            self._held = low, high, seqs, times
        cut = slice(*np.searchsorted(seqs, [first, last + 1]))
        return seqs[cut], times[cut]
