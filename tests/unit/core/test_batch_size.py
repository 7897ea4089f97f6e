"""The size of micro-batches against a plant: what takes so long for so many records."""

import math
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from penstock.core.batch_size import SAMPLES, BatchSize, Bounds, Measured, stepped

Takes = Callable[[int], float]
"""Seconds that so many records take."""
WIDE = Bounds(10_000, 8_000_000)
MANY = 10**12


def line(fixed: float, speed: float) -> Takes:
    return lambda records: fixed + records / speed


def cliff(fixed: float, speed: float, room: int, slower: float) -> Takes:
    """Beyond so many records memory runs short."""
    return lambda records: fixed + records / (speed if records <= room else speed / slower)


def run(
    takes: Takes, bounds: Bounds, batches: int, noise: float = 0.0, seed: int = 0,
    size: BatchSize | None = None, arriving: float = 0.0,
) -> tuple[list[BatchSize], list[str]]:  # fmt: skip
    """Sizes and reasons; ``arriving``: records/s, none: more than can be taken."""
    draw, size = random.Random(seed), size or BatchSize.first(bounds)  # noqa: S311
    sizes, reasons, waiting = [size], [], 0.0 if arriving else float(MANY)
    for _ in range(batches):
        taken = min(size.records, int(waiting)) if arriving else size.records
        seconds = takes(taken) * math.exp(draw.gauss(0, noise))
        waiting += arriving * seconds - (taken if arriving else 0)
        size, why = size.after(Measured(taken, seconds, int(waiting)), bounds)
        sizes.append(size)
        reasons.append(why)
    return sizes, reasons


def speed_of(takes: Takes, records: int) -> float:
    return records / takes(records)


def best(takes: Takes, bounds: Bounds, noise: float = 0.0) -> int:
    """The fastest fixed size that keeps the bound; of noise, but one time in forty."""
    sizes = [int(bounds.least * 1.01**n) for n in range(2_000)]
    longest = (bounds.seconds or math.inf) / math.exp(2 * noise)
    allowed = [size for size in sizes if size <= bounds.most and takes(size) <= longest]
    return max(allowed, key=lambda size: speed_of(takes, size))


PLANTS = {
    "cheap": line(0.25, 1e6),
    "dear": line(0.25, 5e4),
    "slow start": line(3.0, 8e5),
    "cliff": cliff(0.25, 1e6, 700_000, 3.0),
    "cliff late": cliff(0.25, 1e6, 300_000, 1.6),
}


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize("seconds", [None, 2.0, 20.0])
@pytest.mark.parametrize("name", PLANTS)
def test_it_comes_within_a_tenth_of_the_best_fixed_size_and_stays(
    name: str, seconds: float | None, noise: float
) -> None:
    takes, bounds = PLANTS[name], Bounds(10_000, 8_000_000, seconds)
    if takes(bounds.least) > (seconds or math.inf):
        bounds = Bounds(10_000, 8_000_000, 2 * takes(bounds.least))
    sizes, reasons = run(takes, bounds, 200, noise, seed=3)
    ideal = speed_of(takes, best(takes, bounds, noise))
    settled = sizes[-1]
    assert speed_of(takes, settled.records) >= 0.9 * ideal
    if bounds.seconds:
        assert takes(settled.records) <= bounds.seconds * (1 + noise)
    assert settled.kept_at
    assert not any(reasons[100:]), "a steady load, and it still moves"


@pytest.mark.parametrize("seed", range(20))
def test_a_noisy_steady_load_does_not_make_it_swing(seed: int) -> None:
    sizes, reasons = run(line(0.25, 4e5), Bounds(10_000, 8_000_000, 2.0), 600, 0.06, seed)
    changes = [b.records > a.records for a, b in pairwise(sizes[100:]) if a.records != b.records]
    assert sum(changes) == 0, "what was made smaller is not made larger again"
    assert len([why for why in reasons[100:] if why]) <= 3


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 4.0])
def test_it_follows_a_load_that_becomes_another(factor: float) -> None:
    bounds = Bounds(10_000, 8_000_000, 2.0)
    sizes, _ = run(line(0.2, 4e5), bounds, 60)
    takes = line(0.2, 4e5 * factor)
    sizes, reasons = run(takes, bounds, 60, size=sizes[-1])
    assert speed_of(takes, sizes[-1].records) >= 0.9 * speed_of(takes, best(takes, bounds))
    assert takes(sizes[-1].records) <= 2.0
    assert not any(reasons[40:])


def test_where_all_is_taken_as_it_comes_the_size_stays() -> None:
    sizes, reasons = run(line(0.25, 1e6), WIDE, 50, arriving=20_000)
    assert {size.records for size in sizes} == {WIDE.least}
    assert not any(reasons)


def test_it_grows_as_far_as_it_has_to_keep_up() -> None:
    """10,000 records take 0.26 s: 38,000 a second; a hundred thousand come."""
    sizes, _ = run(line(0.25, 1e6), WIDE, 200, arriving=100_000)
    assert speed_of(line(0.25, 1e6), sizes[-1].records) >= 100_000
    assert sizes[-1].records <= 80_000


def test_a_fixed_size_stays_and_other_bounds_hold_at_once() -> None:
    fixed = Bounds.fixed(500)
    sizes, reasons = run(PLANTS["cheap"], fixed, 20)
    assert {size.records for size in sizes} == {500}
    assert not any(reasons)
    size, why = BatchSize(9_000_000).after(Measured(1, 1.0, 0), WIDE)
    assert (size, why) == (BatchSize(8_000_000), "the bounds are others")


def test_one_slow_micro_batch_of_many_changes_nothing() -> None:
    bounds = Bounds(10_000, 8_000_000, 2.0)
    sizes, _ = run(line(0.25, 4e5), bounds, 100)
    size = settled = sizes[-1]
    for seconds in [30.0, *[1.8] * SAMPLES]:
        size, why = size.after(Measured(size.records, seconds, MANY), bounds)
        assert not why
    assert size.records == settled.records


def test_reasons_say_what_was_measured() -> None:
    _, reasons = run(PLANTS["cliff"], Bounds(10_000, 8_000_000), 200)
    told = [why for why in reasons if why]
    assert told[0].endswith(f"records/s, {MANY:,} waiting")
    assert any("with 640,000 it was" in why for why in told)
    _, reasons = run(line(0.25, 1e5), Bounds(10_000, 8_000_000, 2.0), 50, size=BatchSize(10**6))
    assert reasons[SAMPLES - 1] == "10.25 s a micro-batch, 2 are the bound"


def test_it_is_read_back_as_it_was() -> None:
    for size in run(PLANTS["cliff"], WIDE, 60, 0.05)[0]:
        assert BatchSize.from_json(size.to_json()) == size


def test_smaller_goes_by_whole_steps() -> None:
    assert stepped(1_050, 1_000) == pytest.approx(1_000)
    assert stepped(1_000, 990) == pytest.approx(1_000 / 1.05)
    assert 400 / 1.05 < stepped(1_000, 400) <= 400
