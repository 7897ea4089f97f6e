"""Law 7 for slack: golden traces by hand, bounds, and one trace however the log is cut."""

import json
import random
import zlib
from base64 import b64decode, b64encode
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns import digest as digest_module
from penstock.columns.digest import bins_of, digests, lateness_of
from penstock.core import lateness
from penstock.core.controller import Arrivals, Controller, Measured
from penstock.core.controllers import fresh, from_text, under
from penstock.core.errors import ConfigError
from penstock.core.lateness import Greatest, Histogram, bin_of, edge_of
from penstock.core.slack import BlockKind, SlackPolicy, SlackSpec, Tuning, WatermarkState
from penstock.core.window import FOREVER, WindowSpec
from tests.arriving import arrivals as digest

SECOND = 1_000_000
WINDOW = WindowSpec(SECOND, SECOND)
SLIDING = WindowSpec(SECOND, SECOND // 5)
THRESHOLD, DELTA = 0.9, 0.05
PD, PD_FINAL, QUANTILE = SlackPolicy.PD, SlackPolicy.PD_FINAL, SlackPolicy.QUANTILE
STEERED = [PD, PD_FINAL, QUANTILE]


def steered(
    policy: SlackPolicy, horizon: int, window: WindowSpec = WINDOW, **more: float
) -> Controller:
    return fresh(window, SlackSpec(policy, 0, Tuning(THRESHOLD, DELTA, horizon, **more)))


def arrivals(times: list[int], before: int, window: WindowSpec = WINDOW) -> Arrivals:
    return digest(times, before, window)


def folded(
    controller: Controller, state: WatermarkState, block: Arrivals | None
) -> tuple[WatermarkState, list[Measured]]:
    """After a step's records, or after the end of the source."""
    ended = block is None
    measured = controller.silent(state, BlockKind.END) if ended else controller.after(block)
    return controller.state(state), measured


def test_pd_by_hand() -> None:
    """Windows of 1 s, measured 1 s after their end; 10 records in time, then one or two late."""
    controller = steered(PD, SECOND)
    first = [i * SECOND // 10 for i in range(10)]
    assert controller.after(arrivals(first, 0)) == []
    assert (controller.slack, controller.watermark) == (0, 900_000)
    # 1.5 s: closes [0, 1) with 10; a record of 0.5 s comes a second late: k = 1 s
    assert controller.after(arrivals([1_500_000], 900_000)) == []
    assert controller.watermark == 1_500_000
    late = arrivals([500_000], 1_500_000)
    assert controller.after(late) == []
    assert controller.slack == SECOND, "alpha 1 of the greatest lateness"
    # 2.0 s: one beyond its end, [0, 1) is measured: 10 of 11
    measured = controller.after(arrivals([2_000_000], 1_500_000))
    error = 0.9 - 10 / 11
    assert measured == [Measured(0, 10, 11, SECOND, 1.0 + 0.2 * error, 0.0, THRESHOLD)]
    assert controller.alpha == pytest.approx(1 - 0.2 * (10 / 11 - 0.9))
    assert controller.slack == round(SECOND * controller.alpha)
    # [1, 2) holds one record of 1.5 s and closes with it at t_max - K = 2.0; at 3.0 it is measured
    (second,) = controller.after(arrivals([3_100_000], 2_000_000))
    assert (second.window_start, second.received, second.records) == (SECOND, 1, 1)
    change = 0.2 * (0.9 - 1) + 4 * ((0.9 - 1) - error)
    assert controller.alpha == pytest.approx(1 + 0.2 * error + change)


def test_alpha_stays_within_zero_and_one() -> None:
    controller = steered(PD, 0, kp=50.0)
    newest, seen = 0, []
    for i in range(400):
        times = [newest + SECOND // 3, newest - (i % 7) * SECOND]
        more = 1.1 if i % 100 > 50 else THRESHOLD  # than there can be: alpha rises
        tuning = replace(controller.tuning, threshold=more)
        controller.spec = replace(controller.spec, tuning=tuning)
        seen += controller.after(arrivals(times, newest))
        newest += SECOND // 3
        assert 0 <= controller.slack <= controller.lateness.value
    assert {0.0, 1.0} <= {m.alpha for m in seen}
    assert all(0 <= m.alpha <= 1 for m in seen)


@pytest.mark.parametrize("policy", STEERED)
@pytest.mark.parametrize("window", [WINDOW, SLIDING])
def test_a_trace_goes_on_from_what_was_written_down(
    policy: SlackPolicy, window: WindowSpec
) -> None:
    """A crash at any block boundary repeats it: the state is all there is."""
    draw = random.Random(3)  # noqa: S311
    controller, copy = (steered(policy, 2 * SECOND, window, recent=20 * SECOND) for _ in "ab")
    newest, found = 0, 0
    for _ in range(300):
        times = [newest + draw.randint(-5 * SECOND, SECOND // 2) for _ in range(10)]
        block = arrivals(times, newest, window)
        newest = max(newest, block.newest)
        mine = controller.after(block)
        assert copy.after(block) == mine
        assert copy == controller
        text = controller.to_text()
        copy = from_text(window, controller.spec, text)
        assert copy.to_text() == text
        found += len(mine)
    assert found > 40
    assert len(text) < 20_000, "the state is bounded"


def test_a_changed_horizon_holds_at_once_and_after_a_crash_alike() -> None:
    draw = random.Random(8)  # noqa: S311
    known = steered(PD, 2 * SECOND, recent=200 * SECOND)
    shorter = replace(known.spec, tuning=replace(known.tuning, recent=5 * SECOND))
    newest, state = 0, WatermarkState()
    for number in range(200):
        spec = known.spec if number < 100 else shorter
        again = from_text(WINDOW, spec, known.to_text())
        known = under(known, WINDOW, spec, state)
        times = [newest + draw.randint(-5 * SECOND, SECOND // 2) for _ in range(10)]
        block = arrivals(times, newest)
        newest = max(newest, block.newest)
        found = folded(again, state, block)
        assert folded(known, state, block) == found
        assert known == again
        state = found[0]
    assert known.lateness.horizon == 5 * SECOND
    assert newest - known.lateness.parts[0][0] < 7 * SECOND


def test_the_window_is_measured_against_all_that_came_within_the_horizon() -> None:
    """Independent count: every window's received and records, from the raw records."""
    draw = random.Random(5)  # noqa: S311
    controller = steered(PD, 2 * SECOND, SLIDING)
    newest, came, closed, measured = 0, [], {}, []
    for number in range(400):
        times = [newest + draw.randint(-2 * SECOND, SECOND // 4) for _ in range(8)]
        block = arrivals(times, newest, SLIDING)
        newest = max(newest, block.newest)
        came += [(number, time) for time in times]
        measured += [(number, m) for m in controller.after(block)]
        for start in range(-4 * SECOND, newest, SLIDING.slide):
            if start + SECOND <= controller.watermark and start not in closed:
                closed[start] = number
    assert len(measured) > 100
    assert {m.window_start for _, m in measured} == expected_windows(came, closed)
    assert [m.window_start for _, m in measured] == sorted(m.window_start for _, m in measured)
    for at, m in measured:
        low, high = m.window_start, m.window_start + SECOND
        inside = [number for number, time in came if low <= time < high]
        assert m.received == sum(number <= closed[low] for number in inside)
        assert m.records == sum(number <= at for number in inside)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_a_bin_is_narrow_and_bins_keep_the_order(values: list[int]) -> None:
    for value in values:
        edge = edge_of(bin_of(value))
        assert value <= edge <= value + max(0, value // 32)
    ordered = sorted(values)
    assert all(bin_of(a) <= bin_of(b) for a, b in pairwise(ordered))


def expected_windows(came: list[tuple[int, int]], closed: dict[int, int]) -> set[int]:
    """Closed ones with a record up to the block at which they are due, 2 s after their end."""
    newest, due = -(10**18), {}
    for number, time in came:
        newest = max(newest, time)
        for start in closed:
            if start + 3 * SECOND <= newest:
                due.setdefault(start, number)
    begin = SLIDING.first_window(min(SLIDING.pane_of(t) for number, t in came if not number))
    return {
        start
        for start, at in due.items()
        if start >= begin
        and any(start <= time < start + SECOND for number, time in came if number <= at)
    }


def test_a_window_that_held_nothing_in_time_is_measured() -> None:
    """Of a device that is offline every other second: its windows have coverage 0."""
    controller = steered(PD, 3 * SECOND, kp=0.0, kd=0.0)
    controller.alpha = controller.error = 0.0  # it never waits
    newest, measured = 0, []
    for second in range(1, 60, 2):
        uploaded = [(second - 3) * SECOND + i for i in range(10)]
        block = arrivals([*(second * SECOND + i for i in range(10)), *uploaded], newest)
        newest = block.newest
        measured += controller.after(block)
    starts = [m.window_start for m in measured]
    empty = {
        start: m for start, m in zip(starts, measured, strict=True) if start % (2 * SECOND) == 0
    }
    del empty[-2 * SECOND]  # its upload came with the first block
    assert [*empty] == [*range(0, max(empty) + 1, 2 * SECOND)]
    assert len(empty) > 20
    assert all(m.received == 0 and m.records == 10 for m in empty.values())
    assert starts == sorted(starts)


@pytest.mark.parametrize("policy", STEERED)
def test_another_policy_starts_afresh_also_after_a_crash(policy: SlackPolicy) -> None:
    draw = random.Random(4)  # noqa: S311
    other = QUANTILE if policy is PD else PD
    known = steered(policy, 2 * SECOND)
    newest, state = 0, WatermarkState()
    for number in range(120):
        spec = steered(other if number >= 60 else policy, 2 * SECOND).spec
        again = from_text(WINDOW, spec, known.to_text())
        assert (again is None) == (number == 60)
        again = under(again, WINDOW, spec, state)
        known = under(known, WINDOW, spec, state)
        if number == 60:
            assert known.slack == state.slack > 0, "it goes on from the K in force"
        times = [newest + draw.randint(-5 * SECOND, SECOND // 2) for _ in range(10)]
        block = arrivals(times, newest)
        newest = max(newest, block.newest)
        found = folded(again, state, block)
        assert folded(known, state, block) == found
        state = found[0]


@pytest.mark.parametrize("policy", [SlackPolicy.PD, SlackPolicy.QUANTILE])
def test_what_another_version_wrote_is_refused(policy: SlackPolicy) -> None:
    spec = SlackSpec(policy, 0, Tuning(0.9, 0.1, 3_000_000))
    text = fresh(WINDOW, spec).to_text()
    content = json.loads(zlib.decompress(b64decode(text)))
    del content["form"]  # as before there was one
    former = b64encode(zlib.compress(json.dumps(content).encode())).decode()
    with pytest.raises(ConfigError, match=r"form 1; this one reads 2.*penstock remove"):
        from_text(WINDOW, spec, former)


@pytest.mark.parametrize("policy", STEERED)
def test_until_a_window_is_measured_k_is_the_greatest_lateness_or_the_former_k(
    policy: SlackPolicy,
) -> None:
    controller = steered(policy, SECOND)
    controller.after(arrivals([100 * SECOND, 20 * SECOND], 0))
    assert controller.watermark == 20 * SECOND
    state = WatermarkState(50 * SECOND, 100 * SECOND, 0, 50 * SECOND)
    after = under(None, WINDOW, controller.spec, state)
    state, _ = folded(after, state, arrivals([101 * SECOND], 100 * SECOND))
    assert (state.watermark, state.slack) == (51 * SECOND, 50 * SECOND)


@pytest.mark.parametrize("policy", STEERED)
def test_the_end_stays_the_end(policy: SlackPolicy) -> None:
    """More files after a bounded source's end: all of them are late."""
    controller, newest, state = steered(policy, SECOND), 0, WatermarkState()
    for number in range(40):
        block = None
        if number != 20:
            block = arrivals([newest + SECOND // 3, newest - SECOND], newest)
            newest = max(newest, block.newest)
        state, _ = folded(controller, state, block)
        assert (state.watermark == FOREVER) == (number >= 20)
        controller = from_text(WINDOW, controller.spec, controller.to_text())


@given(st.lists(st.integers(0, 62), max_size=20), st.integers(0, 2**62))
def test_vectorised_bins_are_the_plain_ones(octaves: list[int], bits: int) -> None:
    values = [n for o in octaves for n in (2**o - 1, 2**o, 2**o + bits % 2**o)]
    assert bins_of(np.array(values, np.int64)).tolist() == [bin_of(n) for n in values]


@given(st.integers(0, 10_000), st.integers(1, 9), st.sampled_from([10**5, 10**8, 10**11]))
def test_vectorised_digests_are_the_plain_ones(seed: int, blocks: int, span: int) -> None:
    draw = random.Random(seed)  # noqa: S311
    cut = [[draw.randint(0, span) for _ in range(draw.randint(1, 20))] for _ in range(blocks)]
    times = np.array([time for block in cut for time in block], np.int64)
    ends = np.cumsum([len(block) for block in cut])
    before = draw.randint(0, span)
    newest, expected = before, []
    for block in cut:
        expected.append(arrivals(block, newest, SLIDING))
        newest = max(newest, expected[-1].newest)
    with mock.patch.object(digest_module, "AT_ONCE", draw.randint(1, 9)):
        found = list(digests(times, lateness_of(times, before), ends, SLIDING))
    assert [f.lags.together([f.lags]) for f in found] == [e.lags for e in expected]
    whole = found[0].lags.together([f.lags for f in found])
    assert whole == sum((Counter(e.lags) for e in expected), Counter())
    assert [f.panes for f in found] == [e.panes for e in expected]
    assert [f.overdue for f in found] == [e.overdue for e in expected]
    assert [f.greatest for f in found] == [e.greatest for e in expected]
    assert [f.newest for f in found] == [e.newest for e in expected]


def test_the_greatest_lateness_beyond_the_horizon_is_forgotten() -> None:
    held = Greatest(80 * SECOND)
    held.add(0, 50 * SECOND)
    for second in range(1, 100):
        held.add(second * SECOND, second)
    assert held.value == 99
    assert len(held.parts) < 10


def test_a_histogram_knows_what_few_records_exceed_and_forgets() -> None:
    draw = random.Random(1)  # noqa: S311
    held, every = Histogram(), list[int]()
    with mock.patch.object(lateness, "ENOUGH", 1_000):
        for _ in range(50):
            some = [int(draw.expovariate(1 / SECOND)) for _ in range(100)]
            every += some
            held.waiting.append(Counter(map(bin_of, some)))
            held.turn()
    kept = sum(held.now.values()) + sum(held.before.values())
    assert 1_000 <= kept <= 2_000
    last = sorted(every[-kept:])
    found = held.exceeded(0.01)
    assert sum(late > found for late in last) <= 0.01 * kept
    assert found <= edge_of(bin_of(last[-int(0.01 * kept) - 1]))
    assert held == Histogram.from_json(held.to_json())
