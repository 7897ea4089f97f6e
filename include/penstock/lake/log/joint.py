"""The fold of the watermark over several streams: the least of those that are not silent.

A block is of one stream. While its records pass the watermarks of the others stand still, so the
fold of each stream tells where the joint one may close a window. It never falls. Where all are
silent it is the newest event time; where all have ended every window closes.

A controller learns from the windows of one stream: each has its own, which takes its steps while
records of its stream pass. Source: ``marked`` of tests/join_model.py; [D].
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from itertools import groupby

import pyarrow as pa

from penstock.columns.marks import note
from penstock.columns.watermark import Mark
from penstock.core.controller import Measured, passed_of
from penstock.core.slack import BlockKind, BlockSummary, SlackChange, WatermarkState
from penstock.core.step import STREAM, StepSpec
from penstock.core.window import BEGINNING, FOREVER, WindowSpec, micros
from penstock.lake.log.blocks import LIVE, EventTimes
from penstock.lake.log.fold import Fold
from penstock.lake.log.stood import Stood


class Joint:
    """Where the fold of a step over several streams stands; used as ``Fold`` is.

    Attributes:
        window: the step's windows.
        state: after the last position taken; newest event time, k and slack are the greatest of
            the streams'.
        seq: that position; -1: none.
        marks: as of ``Fold``.
    """

    def __init__(self, times: EventTimes, window: WindowSpec, streams: Sequence[str]) -> None:
        self.window, self.state, self.seq = window, WatermarkState(), -1
        self.marks = list[Mark]()
        self._folds = {stream: Fold(times, window) for stream in streams}
        self._silent = dict[str, BlockKind]()

    def start(self, state: WatermarkState, seq: int, newest: int, text: str) -> None:
        """Begin anew.

        Args:
            state: before the first record.
            seq: the last position before it; -1: none.
            newest: nothing: the newest event time of each stream stands in the text.
            text: what ``controller`` said there; empty: at the log's beginning.
        """
        del newest
        self.state, self.seq, self._silent = state, seq, {}
        self.marks = [(seq + 1, state.watermark)]
        content = json.loads(text) if text else {}
        for stream, fold in self._folds.items():
            own = content.get(stream, {})
            if silent := own.get("silent"):
                self._silent[stream] = BlockKind(silent)
            state, known = WatermarkState(*own.get("state", ())), own.get("controller", "")
            fold.start(state, seq, own.get("newest", BEGINNING), known)

    @property
    def controller(self) -> str:
        """To be written down: where each stream stands."""
        return self._text({name: fold.controller for name, fold in self._folds.items()})

    @property
    def begun(self) -> str:
        """As of ``Fold``."""
        return self._text({})

    def _text(self, controllers: Mapping[str, str]) -> str:
        content = {
            stream: {
                "state": astuple(fold.state),
                "newest": fold.newest,
                "silent": self._silent.get(stream),
                "controller": controllers.get(stream, ""),
            }
            for stream, fold in self._folds.items()
        }
        return json.dumps(content)

    @property
    def measured(self) -> list[Measured]:
        """As of ``Fold``, of all streams."""
        every = (one for fold in self._folds.values() for one in fold.measured)
        return sorted(every, key=lambda one: one.window_start)

    def take(self, blocks: Iterable[BlockSummary], changes: Sequence[SlackChange]) -> None:
        """Go on over sealed blocks; arguments as of ``Fold``."""
        for (stream, kind), some in groupby(blocks, lambda b: (b.stream, b.kind)):
            run = [*some]
            if stream in self._folds and kind is BlockKind.DATA:
                self._move(stream, run, changes)
            elif stream in self._folds:
                self._silent[stream] = kind
                self._rise()
            self.seq = run[-1].last_seq
            note(self.marks, self.seq + 1, self.state.watermark, self.window)

    def stand(self, stream: str, at: int) -> None:
        """As ``Fold.stand``, of one of the streams."""
        self._folds[stream].stand(stream, at)
        self._rise()

    def _move(
        self, stream: str, run: Sequence[BlockSummary], changes: Sequence[SlackChange]
    ) -> None:
        fold = self._folds[stream]
        known, fold.seq = len(fold.marks), self.seq
        fold.take(run, changes)
        if any(b.live and b.t_max is not None for b in run):
            self._silent.pop(stream, None)
        others = [f.state.watermark for name, f in self._awake() if name != stream]
        most, ends = min(others, default=FOREVER), self.window.ends
        for seq, watermark in fold.marks[known:] if stream not in self._silent else ():
            mark = max(self.state.watermark, min(watermark, most))
            if ends(mark) > ends(self.marks[-1][1]):
                self.marks.append((seq, mark))
        self._rise()

    def _awake(self) -> list[tuple[str, Fold]]:
        return [(name, fold) for name, fold in self._folds.items() if name not in self._silent]

    def _rise(self) -> None:
        """To the least of those that are not silent."""
        every = [fold.state for fold in self._folds.values()]
        t_max = max(state.t_max for state in every)
        awake = [fold.state.watermark for _, fold in self._awake()]
        if awake:
            mark = min(awake)
        else:
            ended = all(kind is BlockKind.END for kind in self._silent.values())
            mark = FOREVER if ended else t_max
        self.state = WatermarkState(
            max(self.state.watermark, mark),
            t_max,
            max(state.k for state in every),
            max(state.slack for state in every),
        )


def stood_after(blocks: pa.Table, before: Iterable[Stood]) -> tuple[Stood, ...]:
    """Where several streams stand after some blocks, but for the fold of their watermarks.

    Args:
        blocks: rows of ``blocks``, in order.
        before: where they stood; none: nowhere yet.
    """
    found = {one.stream: one for one in before}
    for row in blocks.to_pylist():
        one = found.get(row[STREAM]) or Stood(row[STREAM])
        accepted, refused = one.accepted + row["accepted"], one.refused + row["quarantined"]
        one = replace(one, accepted=accepted, refused=refused)
        if row["kind"] != BlockKind.DATA:
            one = replace(one, silent=row["kind"])
        elif row["origin"] == LIVE and row["t_max"] is not None:
            one = replace(one, newest=max(one.newest, micros(row["t_max"])), silent="")
        found[one.stream] = one
    return tuple(found.values())


def begun_behind(step: StepSpec, stood: Iterable[Stood], *, live: bool) -> str:
    """What lets the fold of a step begin where its streams stand; of a fold over one: nothing.

    Args:
        step: the step.
        stood: streams of the pipeline.
        live: whether a source that has ended then only was silent.
    """
    if len(step.streams) <= 1:
        return ""
    begun = [one.begun(live=live) for one in stood if one.stream in step.streams]
    return json.dumps({s.stream: {"newest": s.newest, "silent": s.silent} for s in begun})


def controllers_in(text: str, step: StepSpec) -> dict[str, str]:
    """What was written down of the controller of each stream; of the only one by no name."""
    if len(step.streams) <= 1:
        return {"": text}
    content = json.loads(text) if text else {}
    return {stream: content.get(stream, {}).get("controller", "") for stream in step.streams}


def passed_in(text: str, step: StepSpec) -> int:
    """Windows that start so early were due for every controller, us; one that is silent waits."""
    if len(step.streams) <= 1 or not text:
        return passed_of(text)
    every = json.loads(text).values()
    awake = (passed_of(own.get("controller", "")) for own in every if not own["silent"])
    return min(awake, default=FOREVER)


def fold_over(times: EventTimes, step: StepSpec) -> Fold | Joint:
    """The fold of a step, over its stream or streams."""
    if len(step.streams) > 1:
        return Joint(times, step.window, step.streams)
    return Fold(times, step.window)
