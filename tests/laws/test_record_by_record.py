"""Law 0 under a controller: the watermark moves record by record, wherever blocks and runs end.

A plain loop over single records, which steps the controller every ``EVERY`` positions, is the
oracle of the vectorised way, which takes runs and looks closely only where a window closes.
"""

import random
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns import watermark
from penstock.columns.marks import Marks
from penstock.columns.watermark import Steering
from penstock.core import patient
from penstock.core.controller import Controller, Measured
from penstock.core.controllers import from_text, under
from penstock.core.slack import BlockKind, SlackPolicy, SlackSpec, Tuning, WatermarkState
from penstock.core.window import BEGINNING, WindowSpec
from tests.arriving import arrivals

pytestmark = pytest.mark.law

SECOND = 1_000_000
WINDOWS = [
    WindowSpec(SECOND, SECOND),
    WindowSpec(SECOND, SECOND // 5),
    WindowSpec(10 * SECOND, 10 * SECOND, 3 * SECOND, landmark=True),
]
EVERY = 7
Log = list[tuple[int, int | None]]
"""Positions with the event time of a live record; none: refused, or of the history."""


def log_of(draw: random.Random, count: int) -> Log:
    """Records somewhat apart, some of them late, some positions without."""
    newest, found = 0, []
    for seq in range(count):
        newest += draw.choice([0, SECOND // 20, SECOND // 3, 2 * SECOND])
        late = draw.choice([0, 0, 0, draw.randint(0, 3 * SECOND)])
        found.append((seq, None if draw.random() < 0.15 else max(newest - late, 0)))
    return found


def controller(window: WindowSpec, policy: SlackPolicy, state: WatermarkState) -> Controller:
    tuning = Tuning(0.9, 0.4, SECOND if policy is SlackPolicy.PD else None, recent=40 * SECOND)
    return under(None, window, SlackSpec(policy, 0, tuning), state)


def one_by_one(known: Controller, log: Log) -> tuple[list[int], list[Measured], str]:
    """The watermark each record meets, what is measured, and the controller after the last."""
    met, measured, newest = [], [], BEGINNING
    for seq, time in log:
        if time is not None:
            met.append(known.watermark)
            known.receive(arrivals([time], newest, known.window))
            newest = max(newest, time)
        if (seq + 1) % EVERY == 0:
            measured += known.step()
    return met, measured, known.to_text()


def in_runs(known: Controller, log: Log, cuts: list[int]) -> tuple[list[int], list[Measured], str]:
    """The same over columns, in runs that end before some positions."""
    met, measured, newest = [], [], BEGINNING
    state = WatermarkState()
    bounds = sorted({0, len(log), *cuts})
    for low, high in pairwise(bounds):
        rows = [(seq, time) for seq, time in log[low:high] if time is not None]
        steering = Steering(known, low - 1)
        marks = [(low, known.watermark)]
        if rows:
            seqs, times = (np.array(each, np.int64) for each in zip(*rows, strict=True))
            marks += steering.take(seqs, times, newest, high - 1)
            met += Marks.of(marks).at(seqs).tolist()
            newest = max(newest, int(times.max()))
        else:
            state = steering.silent(state, BlockKind.DATA, high - 1)
        measured += steering.measured
        known = from_text(known.window, known.spec, known.to_text())
    return met, measured, known.to_text()


@given(
    seed=st.integers(0, 10**6),
    window=st.sampled_from(WINDOWS),
    policy=st.sampled_from([SlackPolicy.PD, SlackPolicy.PD_FINAL, SlackPolicy.QUANTILE]),
    cuts=st.lists(st.integers(1, 160), max_size=12),
    begun=st.booleans(),
    few=st.booleans(),
)
def test_any_runs_are_one_by_one(
    seed: int, window: WindowSpec, policy: SlackPolicy, cuts: list[int], begun: bool, few: bool
) -> None:
    log = log_of(random.Random(seed), 160)  # noqa: S311
    state = WatermarkState(2 * SECOND, 3 * SECOND, 0, SECOND // 2) if begun else WatermarkState()
    with mock.patch.object(patient, "AT_ONCE", 2 if few else 512):
        expected = one_by_one(controller(window, policy, state), log)
        with mock.patch.object(watermark, "EVERY", EVERY):
            found = in_runs(controller(window, policy, state), log, cuts)
    assert expected[1], "windows were measured"
    assert all(0 <= one.received <= one.records for one in expected[1])
    assert [window.ends(m) for m in found[0]] == [window.ends(m) for m in expected[0]]
    assert found[1:] == expected[1:]


def test_a_step_is_taken_every_so_many_numbers_also_if_the_last_were_refused() -> None:
    """Counted by hand: positions 0 to 3 hold records, 4 to 7 none; a step ends with the fourth."""
    known = controller(WINDOWS[0], SlackPolicy.QUANTILE, WatermarkState())
    steps: list[Any] = []
    with (
        mock.patch.object(watermark, "EVERY", 4),
        mock.patch.object(Controller, "step", lambda self: steps.append(self.t_max) or []),
    ):
        steering = Steering(known, -1)
        times = np.array([5, 9, 7], np.int64)
        assert [*steering.take(np.array([0, 1, 2]), times, BEGINNING, 2)]
        assert steps == []
        steering.silent(WatermarkState(), BlockKind.DATA, 3)
        assert steps == [9]
        steering.silent(WatermarkState(), BlockKind.DATA, 6)
        assert steps == [9]
