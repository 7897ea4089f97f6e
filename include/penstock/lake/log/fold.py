"""The fold of the watermark over the log, record by record (law 0).

A function of ``blocks``, of the event times of ``events`` and of ``decisions``: a replay or
another process gets the same, wherever blocks and micro-batches end. Event times are read only
where the summary of a block leaves open which of its records closes a window.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from penstock.columns.marks import note
from penstock.columns.watermark import Mark, Steering, after_each, closings
from penstock.core.controller import Controller, Measured
from penstock.core.controllers import from_text, under
from penstock.core.slack import (
    BlockKind,
    BlockSummary,
    SlackChange,
    SlackPolicy,
    SlackSpec,
    WatermarkState,
    spec_at,
)
from penstock.core.window import BEGINNING, WindowSpec
from penstock.lake.log.blocks import EventTimes, newest_live

AT_ONCE = 1 << 20
"""Records whose event times are read at once."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A block whose records are looked at: its positions, and where the fold stands before it."""

    first: int
    last: int
    state: WatermarkState
    newest: int


@dataclass
class Fold:
    """Where the fold of a step stands.

    Attributes:
        times: event times of the log.
        window: the step's windows.
        state: after the last position taken.
        seq: that position; -1: none.
        newest: newest live event time so far, us.
        marks: watermarks from the start of the fold on, each from its position, at which a
            window closed.
        measured: windows whose coverage the fold has measured, in the order of their ends.
    """

    times: EventTimes
    window: WindowSpec
    state: WatermarkState = field(default_factory=WatermarkState)
    seq: int = -1
    newest: int = BEGINNING
    marks: list[Mark] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    _text: str = ""
    _controller: Controller | None = None
    _broken: bool = False

    def start(self, state: WatermarkState, seq: int, newest: int, text: str) -> None:
        """Begin anew.

        Args:
            state: before the first record.
            seq: the last position before it; -1: none.
            newest: newest live event time before it, us.
            text: the controller that was written down there; the one at hand goes on if it is it.
        """
        self.state, self.seq, self.newest = state, seq, newest
        self.marks, self.measured = [(seq + 1, state.watermark)], []
        if text != self._text or self._broken:
            self._text, self._controller = text, None
        self._broken = False

    @property
    def controller(self) -> str:
        """To be written down; empty: the slack in force needs none."""
        if self._controller is not None:
            self._text = self._controller.to_text()
        return self._text

    @property
    def begun(self) -> str:
        """The same for an epoch that begins here: its controller has seen nothing yet."""
        return ""

    def take(self, blocks: Iterable[BlockSummary], changes: Sequence[SlackChange]) -> None:
        """Go on over sealed blocks.

        Args:
            blocks: that follow the last position taken, in order.
            changes: slack decisions, in the order they were made.
        """
        self._broken = True  # a controller that was stopped halfway has seen too much to go on
        for spec, moves, run in _runs(blocks, changes):
            if spec.tuning is not None:
                self._steer(run, spec, moves=moves)
            else:
                self._controller, self._text = None, ""
                if moves:
                    self._move(run, spec)
                elif run[0].kind is BlockKind.MARK:
                    self.state = self.state.marked(run[0])
                else:
                    self.state = self.state.silent(run[0].kind)
            self._passed(run)
            note(self.marks, self.seq + 1, self.state.watermark, self.window)
        self._broken = False

    def stand(self, stream: str, at: int) -> None:
        """Let the watermark stand at the window that holds an instant, us, if it is behind."""
        del stream  # there is one
        if not self.state.ended:
            mark = max(self.state.watermark, self.window.floor(at))
            t_max = max(self.state.t_max, mark)
            self.state = replace(self.state, watermark=mark, t_max=t_max)

    def _passed(self, run: Sequence[BlockSummary]) -> None:
        self.seq, self.newest = run[-1].last_seq, newest_live(run, self.newest)

    def _move(self, run: Sequence[BlockSummary], spec: SlackSpec) -> None:
        """Under ``fixed`` or ``max_delay``: of most blocks the summary says enough."""
        ends, later = self.window.ends, list[_Place]()
        for block in run:
            if block.t_max is not None:
                place = _Place(self.seq + 1, block.last_seq, self.state, self.newest)
                after = _by_summary(self.state, block, spec)
                if after is None:
                    after = self._close([place], spec)
                elif ends(after.watermark) > ends(self.state.watermark):
                    later.append(place)
                self.state = after
            self._passed([block])
        if later:
            self._close(later, spec)

    def _close(self, places: Sequence[_Place], spec: SlackSpec) -> WatermarkState:
        """Note which records of some blocks close windows; returns the state after the last."""
        spans = [(place.first, place.last) for place in places]
        state = self.state
        for place, (seqs, times) in zip(places, self.times(spans), strict=True):
            marks, state = after_each(place.state, times, place.newest, spec)
            for i in closings(self.window, place.state.watermark, marks).tolist():
                self.marks.append((int(seqs[i]) + 1, int(marks[i])))
        self.marks.sort()
        return state

    def _steer(self, run: Sequence[BlockSummary], spec: SlackSpec, *, moves: bool) -> None:
        """Under a controller."""
        if self._controller is None and self._text:
            self._controller = from_text(self.window, spec, self._text)
        known = under(self._controller, self.window, spec, self.state)
        self._controller, last = known, run[-1].last_seq
        steering = Steering(known, self.seq)
        if moves and any(b.t_max is not None for b in run):
            ((seqs, times),) = self.times([(self.seq + 1, last)])
            self.marks += steering.take(seqs, times, self.newest, last)
            self.state = known.state(self.state)
        else:
            self.state = steering.silent(self.state, run[0].kind, last)
        self.measured += steering.measured


def _by_summary(
    state: WatermarkState, block: BlockSummary, spec: SlackSpec
) -> WatermarkState | None:
    """The state after a block; none: it hangs on the order of its records."""
    assert block.t_max is not None  # noqa: S101
    fixed = spec.policy is SlackPolicy.FIXED
    if not fixed and block.lateness > state.k:
        return None
    slack, t_max = spec.span if fixed else state.k, max(state.t_max, block.t_max)
    watermark = max(state.watermark, t_max - slack)
    return WatermarkState(watermark, t_max, max(state.k, block.lateness), slack)


def _runs(
    blocks: Iterable[BlockSummary], changes: Sequence[SlackChange]
) -> Iterator[tuple[SlackSpec, bool, list[BlockSummary]]]:
    """Blocks of live records that are read at once, under one slack; others one by one."""
    settled = max((change.block for change in changes), default=0)

    def together(block: BlockSummary) -> tuple[SlackSpec, bool, int]:
        spec = changes[-1].spec if block.number >= settled else spec_at(changes, block.number)
        moves = block.live and block.kind is BlockKind.DATA
        return spec, moves, block.last_seq // AT_ONCE if moves else block.number

    for (spec, moves, _), run in groupby(blocks, together):
        yield spec, moves, [*run]
