"""The watermarks of a step over several streams folded once more for the audit.

Of each stream its own way is gone again, apart; the joint watermark is the least of those of the
streams that are not silent, and never falls.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter

from penstock.columns.watermark import Mark
from penstock.core.slack import WatermarkState
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.history.generation import Generation
from penstock.lake.log.stood import Stood
from penstock.lake.proof.recount import Blocks
from penstock.lake.proof.refold import Way
from penstock.lake.proof.waypoint import BEGIN, Waypoint
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables

States = Mapping[str, WatermarkState]


class Ways:
    """As ``Way``, of a step over several streams.

    Attributes:
        epoch: the step's.
        marks, start, since: as of ``Way``.
    """

    def __init__(
        self,
        tables: Tables,
        events: Table,
        step: StepSpec,
        blocks: Blocks,
        epoch: Generation,
        since: Waypoint = BEGIN,
    ) -> None:
        self.epoch, self._blocks, self._window, self.since = epoch, blocks, step.window, since
        stood = {name: Stood(name) for name in step.streams} | {s.stream: s for s in since.streams}
        self._ways = {
            name: Way(tables, events, replace(step, streams=(name,)), blocks, epoch,
                      _alone(since, one), alone=False)
            for name, one in stood.items()
        }  # fmt: skip
        self._silent = {name: one.silent for name, one in stood.items() if one.silent}
        self._least = since.state.watermark
        past = int((blocks.number < epoch.block).sum()) if since.begins else 0
        for i in range(past):
            self._pass(i, {name: way.past[i] for name, way in self._ways.items()})
        begun = {name: way.start for name, way in self._ways.items()}
        self.start = self._joint(begun)
        self.marks: list[Mark] = [(BEGINNING, self.start.watermark)]
        self._after = {epoch.block if since.begins else since.block: self.start}
        for i in range(past, len(blocks.number)):
            number = int(blocks.number[i]) + 1
            states = {name: way.after(number) for name, way in self._ways.items()}
            self._look(i, states)
            self._after[number] = self._pass(i, states)
            self._mark(int(blocks.last_seq[i]) + 1, self._least)

    def after(self, block: int) -> WatermarkState:
        """As of ``Way``."""
        return self._after.get(block, WatermarkState(BEGINNING - 1))

    def seq(self, block: int) -> int:
        """As of ``Way``."""
        return next(iter(self._ways.values())).seq(block)

    def end(self) -> Waypoint:
        """As of ``Way``."""
        ends, block = {name: way.end() for name, way in self._ways.items()}, max(self._after)
        stood = (
            Stood(
                name,
                end.newest,
                self._silent.get(name, ""),
                state=end.state,
                controller=end.controller,
            )
            for name, end in ends.items()
        )
        newest = max(end.newest for end in ends.values())
        return Waypoint(block, self.seq(block), newest, self._after[block], streams=tuple(stood))

    def _pass(self, i: int, states: States) -> WatermarkState:
        """Take a block; returns the state after it."""
        stream, kind = self._blocks.stream[i], self._blocks.kind[i]
        if stream in self._ways and kind != "data":
            ends = kind == "end" and not (
                self.epoch.live and self._blocks.number[i] < self.epoch.block
            )
            self._silent[stream] = "end" if ends else "idle"
        elif self._blocks.live[i] and self._blocks.t_max[i] > BEGINNING:
            self._silent.pop(stream, None)
        return self._joint(states)

    def _joint(self, states: States) -> WatermarkState:
        newest = max(state.t_max for state in states.values())
        awake = [state.watermark for name, state in states.items() if name not in self._silent]
        mark = min(awake, default=newest)
        if not awake and set(self._silent.values()) == {"end"}:
            mark = FOREVER
        self._least = max(self._least, mark)
        every = states.values()
        return WatermarkState(
            self._least, newest, max(s.k for s in every), max(s.slack for s in every)
        )

    def _look(self, i: int, states: States) -> None:
        """Note which records of a block close windows."""
        stream = self._blocks.stream[i]
        if stream not in self._ways:
            return
        others = [s.watermark for n, s in states.items() if n not in {stream, *self._silent}]
        last = int(self._blocks.last_seq[i])
        first = int(self._blocks.last_seq[i - 1] if i else self.since.seq) + 1
        marks = self._ways[stream].marks
        low, high = (bisect_right(marks, at, key=itemgetter(0)) for at in (first, last + 1))
        for seq, mark in marks[low:high]:
            self._least = max(self._least, min(mark, *others, FOREVER))
            self._mark(seq, self._least)

    def _mark(self, seq: int, watermark: int) -> None:
        ends = self._window.ends
        if ends(watermark) > ends(self.marks[-1][1]):
            self.marks.append((seq, watermark))


def _alone(since: Waypoint, one: Stood) -> Waypoint:
    """A waypoint as one of the streams sees it."""
    return replace(since, newest=one.newest, state=one.state, controller=one.controller, streams=())


def way_of(
    tables: Tables,
    events: Table,
    step: StepSpec,
    blocks: Blocks,
    epoch: Generation,
    since: Waypoint = BEGIN,
) -> Way | Ways:
    """The way of a step, over its stream or streams; arguments as of ``Way``."""
    if len(step.streams) > 1:
        return Ways(tables, events, step, blocks, epoch, since)
    return Way(tables, events, step, blocks, epoch, since)
