"""The fold over several streams is that of the model of joins, record by record."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from penstock.columns.marks import Marks
from penstock.core.slack import (
    BlockKind,
    BlockSummary,
    SlackChange,
    SlackPolicy,
    SlackSpec,
    WatermarkState,
)
from penstock.core.window import BEGINNING, FOREVER, WindowSpec
from penstock.lake.log.joint import Joint
from tests.join_model import Event, marked
from tests.streams import SECOND

STREAMS = ("a", "b", "c")
WINDOW, SLACK = WindowSpec(9 * SECOND, 3 * SECOND), 4 * SECOND
CHANGES = [SlackChange(0, SlackSpec(SlackPolicy.FIXED, SLACK))]


class Log:
    """Blocks of some streams, and what a fold asks of them."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)  # noqa: S311
        self.blocks, self.events = list[BlockSummary](), list[Event]()
        self.times = dict[int, int]()
        newest = dict.fromkeys(STREAMS, 0)
        for number in range(60):
            stream, last = draw.choice(STREAMS), len(self.times) - 1
            if draw.random() < 0.2:
                block = BlockSummary(number, BlockKind.IDLE, True, last, None, 0, stream)
                self.events.append(Event(last, stream, None, 0))
            else:
                here = list[int]()
                for _ in range(draw.randint(1, 5)):
                    newest[stream] += draw.choice([0, SECOND // 2, 2 * SECOND])
                    time = newest[stream] - draw.choice([0, 0, draw.randint(0, 9 * SECOND)])
                    here.append(time)
                    self.events.append(Event(len(self.times), stream, time, 0))
                    self.times[len(self.times)] = time
                last = len(self.times) - 1
                block = BlockSummary(number, BlockKind.DATA, True, last, max(here), 0, stream)
            self.blocks.append(block)

    def __call__(self, spans: Sequence[tuple[int, int]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """As ``EventTimes``."""
        found = []
        for first, last in spans:
            seqs = np.arange(first, last + 1)
            found.append((seqs, np.array([self.times[seq] for seq in seqs.tolist()], np.int64)))
        return found


def ends(mark: int) -> int:
    """Of a watermark; the model's first one is no other than the product's."""
    return WINDOW.ends(mark) if mark > -SLACK - 20 * SECOND else WINDOW.ends(BEGINNING)


def begun(log: Log) -> Joint:
    fold = Joint(log, WINDOW, STREAMS)  # type: ignore[arg-type]
    fold.start(WatermarkState(), -1, BEGINNING, "")
    return fold


@pytest.mark.parametrize("seed", range(20))
def test_every_record_meets_the_least_watermark_of_the_streams_that_are_not_silent(
    seed: int,
) -> None:
    log, draw = Log(seed), random.Random(seed)  # noqa: S311
    fold, blocks, marks = begun(log), log.blocks, list[tuple[int, int]]()
    while blocks:
        cut = draw.randint(1, len(blocks))
        fold.take(blocks[:cut], CHANGES)
        marks += fold.marks[bool(marks) :]
        place = fold.state, fold.seq, BEGINNING, fold.controller
        fold = begun(log)
        fold.start(*place)
        blocks = blocks[cut:]
    found = Marks.of(marks).at(np.arange(len(log.times))).tolist()
    expected = [event.mark for event in marked(log.events, SLACK) if event.time is not None]
    assert [ends(mark) for mark in found] == [ends(mark) for mark in expected]
    assert marks == sorted(marks)
    whole = begun(log)
    whole.take(log.blocks, CHANGES)
    assert (whole.state, whole.seq, whole.controller) == place[:2] + place[3:]


def test_every_window_closes_once_all_streams_have_ended() -> None:
    log = Log(1)
    fold = begun(log)
    fold.take(log.blocks, CHANGES)
    for number, stream in enumerate(STREAMS, 60):
        assert fold.state.watermark < FOREVER
        fold.take([BlockSummary(number, BlockKind.END, True, fold.seq, None, 0, stream)], CHANGES)
    assert fold.state.watermark == FOREVER


def test_blocks_of_other_streams_only_pass_their_numbers() -> None:
    log = Log(2)
    fold = Joint(log, WINDOW, ("a", "b"))  # type: ignore[arg-type]
    fold.start(WatermarkState(), -1, BEGINNING, "")
    fold.take(log.blocks, CHANGES)
    own = [event for event in log.events if event.stream != "c"]
    last = Event(len(log.times), "a", None, 0)
    assert fold.seq == len(log.times) - 1
    assert fold.state.watermark == marked([*own, last], SLACK)[-1].mark
