"""Joins as a model, over random schedules: law 0, no pair twice, all of them at the end."""

import random

import pytest

from tests import join_model as model
from tests import schedules
from tests.lookup_model import Lake, sealed_rows

pytestmark = pytest.mark.law
SCHEDULES = 40
DELAYS = (0, 0, 0, 0, 1, 3, 9, 25)


def events(draw: random.Random, streams: model.Streams) -> list[model.Event]:
    """Records in disorder, silences, other queries and other shares that are shed."""
    clock, found, queries, share = 0, [], {"far", "near"}, 0.0
    for seq in range(draw.randint(5, 45)):
        clock += draw.randint(0, 2)
        if draw.random() < 0.1:
            queries = {name for name in model.QUERIES if draw.random() < 0.6}
        if draw.random() < 0.1:
            share = draw.choice((0.0, 0.3, 0.6))
        time = None if draw.random() < 0.1 else clock - draw.choice(DELAYS)
        shed = time is not None and draw.random() < share
        names = frozenset(queries)
        found.append(model.Event(seq, draw.choice(streams), time, draw.randrange(7), shed, names))
    return found


def holds(lake: Lake, step: model.Join, through: int) -> None:
    """The laws at a sealed position."""
    log = step.log[:through]
    told = sealed_rows(lake, "pairs", through)
    assert len(dict(told)) == len(told), "a pair twice"
    assert dict(told) == model.true_timely(log, step.streams), "law 0"
    made = {pair for pair, _ in lake.tables["made"]}
    assert not made & dict(told).keys(), "a correction repeats a timely pair"
    exact, found = model.true_pairs(log, step.streams), model.in_force(lake, through)
    assert found.items() <= exact.items(), "a pair that is none, or of other queries"
    late = {*sealed_rows(lake, "late", through)}
    corrected = model.repaired(lake, through)
    for pair in exact.keys() - found.keys():
        assert late & {*pair}, "missing, and nobody knows"
        assert not any(low <= max(pair) < high for low, high in corrected), "repaired, and missing"


def lived(seed: int, streams: model.Streams) -> dict[str, int]:
    """A schedule with kills and lost states; the laws after each step, and the end exact."""
    draw = random.Random(seed)  # noqa: S311
    source = events(draw, streams)
    chaos = random.Random(seed + 1)  # noqa: S311
    lake = Lake(chaos, draw.choice((0.0, 0.1, 0.3)))
    step = model.Join(lake, streams, draw.randint(0, 6), draw)
    correction = model.Correction(lake, step, draw)
    kills = schedules.lived(lake, source, step, correction, draw, 100, holds)
    while not correction.is_done:
        correction.work()
    holds(lake, step, len(source))
    exact = model.true_pairs(step.log, streams)
    assert model.in_force(lake, step.sealed) == exact
    return {"kills": kills, "late": len(lake.tables["late"]), "pairs": len(exact),
            "made": len(dict(lake.tables["made"]))}  # fmt: skip


@pytest.mark.parametrize("streams", [("left", "right"), ("one", "one")])
def test_in_any_order_of_commits_pairs_end_exact(streams: model.Streams) -> None:
    told = [lived(seed, streams) for seed in range(SCHEDULES)]
    for name in ("kills", "late", "pairs", "made"):
        assert sum(each[name] for each in told) > SCHEDULES, name
