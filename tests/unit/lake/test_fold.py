"""The fold of watermarks over summaries of blocks is that over records, one by one."""

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
    Tuning,
    WatermarkState,
)
from penstock.core.window import BEGINNING, WindowSpec
from penstock.lake.log.fold import Fold
from tests import reference as ref
from tests.streams import SECOND

WINDOWS = [WindowSpec(9 * SECOND, 3 * SECOND), WindowSpec(5 * SECOND, 5 * SECOND, SECOND)]
FIXED, BOUND = 4 * SECOND, 7 * SECOND


class Log:
    """Blocks as the oracle takes them, and what a fold asks of them."""

    def __init__(self, seed: int) -> None:
        draw, newest = random.Random(seed), 0  # noqa: S311
        self.blocks: list[ref.Block] = []
        self.asked: list[tuple[int, int]] = []
        self.left: int | None = None
        for _ in range(30):
            if draw.random() < 0.15:
                self.blocks.append(ref.Block((), draw.choice([ref.IDLE, ref.DATA])))
                continue
            rows = list[ref.Record | None]()
            for _ in range(draw.randint(1, 6)):
                newest += draw.choice([0, SECOND // 2, 2 * SECOND])
                late = draw.choice([0, 0, draw.randint(0, 12 * SECOND)])
                rows.append(None if draw.random() < 0.1 else {"event_time": newest - late})
            self.blocks.append(ref.Block(tuple(rows), ref.DATA, draw.random() < 0.85))
        ends = np.cumsum([len(block.records) for block in self.blocks]).tolist()
        self.lasts = [end - 1 for end in ends]
        self.firsts = [0, *ends[:-1]]

    def summaries(self) -> list[BlockSummary]:
        found = []
        for n, lags in enumerate(ref.lateness(self.blocks)):
            block = self.blocks[n]
            times = [r["event_time"] for r in block.records if r]
            kind, newest = BlockKind(block.kind), max(times, default=None)
            summary = BlockSummary(n, kind, block.live, self.lasts[n], newest, max(lags, default=0))
            found.append(summary)
        return found

    def __call__(self, spans: Sequence[tuple[int, int]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Event times of live records, as ``EventTimes`` gives them."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise OSError("the disk is gone")
        live = [
            (first + i, record["event_time"])
            for block, first in zip(self.blocks, self.firsts, strict=True)
            for i, record in enumerate(block.records)
            if record is not None and block.live
        ]
        found = []
        for first, last in spans:
            assert first in self.firsts
            assert last in self.lasts
            self.asked.append((first, last))
            some = np.array([row for row in live if first <= row[0] <= last], np.int64)
            found.append((some[:, 0], some[:, 1]))
        return found

    def met(self, slacks: list[ref.Slack]) -> tuple[list[int], ref.Mark]:
        """The watermark in force at each position and behind the last, and the last state."""
        step = ref.Step((), ref.Window(1, 1), (), tuple(slacks))
        mark, met = ref.Mark(BEGINNING, BEGINNING), list[int]()
        for n, lags in enumerate(ref.lateness(self.blocks)):
            slack = ref.slack_at(step, n)
            marks = ref.marks_of(mark, self.blocks[n], lags, lambda _, s=slack: s, 0)
            met += [m.watermark for m in marks[:-1]]
            mark = marks[-1]
        return [*met, mark.watermark], mark


@pytest.mark.parametrize("window", WINDOWS, ids=["sliding", "tumbling"])
@pytest.mark.parametrize("seed", range(12))
def test_every_record_meets_the_watermark_that_those_before_it_left(
    seed: int, window: WindowSpec
) -> None:
    log, draw = Log(seed), random.Random(seed + 100)  # noqa: S311
    turn = draw.randint(1, 29)
    specs = SlackSpec(SlackPolicy.FIXED, FIXED), SlackSpec(SlackPolicy.MAX_DELAY, BOUND)
    slacks = [ref.Slack("fixed", FIXED), ref.Slack("max_delay", BOUND, turn)]
    changes = [SlackChange(0, specs[0]), SlackChange(turn, specs[1])]
    expected, last = log.met(slacks)
    blocks, fold = log.summaries(), Fold(log, window)
    fold.start(WatermarkState(), -1, BEGINNING, "")
    while blocks:
        cut = draw.randint(1, len(blocks))
        fold.take(blocks[:cut], changes)
        blocks = blocks[cut:]
    found = Marks.of(fold.marks).at(np.arange(len(expected))).tolist()
    assert [window.ends(m) for m in found] == [window.ends(m) for m in expected]
    assert fold.marks[0] == (0, BEGINNING)
    assert fold.marks == sorted(fold.marks)
    assert (fold.state.watermark, fold.state.t_max) == (last.watermark, last.t_max)
    assert (fold.seq, fold.controller) == (len(expected) - 2, "")
    live = [r["event_time"] for b in log.blocks if b.live for r in b.records if r]
    assert fold.newest == max(live)


def test_event_times_are_read_only_where_a_window_closes() -> None:
    log = Log(1)
    fold = Fold(log, WindowSpec(10**6 * SECOND, 10**6 * SECOND, 10**5 * SECOND))
    fold.start(WatermarkState(), -1, BEGINNING, "")
    fold.take(log.summaries(), [SlackChange(0, SlackSpec(SlackPolicy.FIXED, FIXED))])
    assert len(log.asked) == 1, "the first record ends all windows before it"


@pytest.mark.parametrize("policy", [SlackPolicy.PD_FINAL, SlackPolicy.QUANTILE])
def test_a_fold_that_was_stopped_halfway_goes_on_from_what_was_written_down(
    policy: SlackPolicy,
) -> None:
    log, window = Log(5), WindowSpec(2 * SECOND, 2 * SECOND)
    changes = [SlackChange(0, SlackSpec(policy, 0, Tuning(0.9, 0.4, None)))]
    blocks = log.summaries()

    def folded(fold: Fold) -> tuple[object, ...]:
        fold.take(blocks[15:], changes)
        return fold.marks, fold.measured, fold.state, fold.controller

    whole, stopped = Fold(log, window), Fold(log, window)
    places = []
    for fold in (whole, stopped):
        fold.start(WatermarkState(), -1, BEGINNING, "")
        fold.take(blocks[:15], changes)
        places.append((fold.state, fold.seq, fold.newest, fold.controller))
    assert places[0] == places[1]
    log.left = 2
    with pytest.raises(OSError, match="disk"):
        stopped.take(blocks[15:], changes)
    assert stopped.seq > places[1][1], "some of it was taken"
    log.left = None
    for fold, place in zip((whole, stopped), places, strict=True):
        fold.start(*place)
    assert folded(stopped) == folded(whole)
