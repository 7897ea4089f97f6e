"""Look-ups as a model, over random schedules: law 0, no alarm twice, all of them at the end."""

import random

import pytest

from tests import lookup_model as model
from tests import schedules

pytestmark = pytest.mark.law
SCHEDULES = 60
KEYS, SITES = "abc", 3
DELAYS = (0, 0, 0, 0, 1, 3, 9, 25)


def records(draw: random.Random) -> list[model.Record]:
    """Observations in disorder, some of them very late."""
    clock, found = 0, []
    for seq in range(draw.randint(5, 60)):
        clock += draw.randint(0, 2)
        time = clock - draw.choice(DELAYS)
        found.append(model.Record(time, seq, draw.choice(KEYS), draw.randrange(SITES)))
    return found


def holds(lake: model.Lake, step: model.LookUp, through: int) -> None:
    """The laws at a sealed position."""
    events = lake.tables["events"][:through]
    timely = model.sealed_rows(lake, "alarms", through)
    assert len(set(timely)) == len(timely), "an alarm twice"
    assert set(timely) == model.true_timely(events, step.pairs, step.keep), "law 0"
    assert not set(timely) & set(lake.tables["made"]), "a correction repeats a timely alarm"
    exact, found = model.true_pairs(events, step.pairs), model.in_force(lake, through)
    waiting = model.pending(lake, through)
    if step.pairs == "all":
        assert found <= exact
        assert {new for _, new in exact - found} <= waiting, "missing, and nobody knows"
        return
    for one in exact - found:
        assert waiting & set(one), "missing, and nobody knows"
    for one, other in found - exact:
        low, high = sorted((events[one], events[other]))
        between = {r.seq for r in events if r.key == low.key and low < r < high}
        assert waiting & between, "refuted, and nobody knows"


def lived(seed: int, pairs: model.Pairs) -> dict[str, int]:
    """A schedule with kills and lost states; the laws after each step, and the end exact."""
    draw = random.Random(seed)  # noqa: S311
    source = records(draw)
    chaos = random.Random(seed + 1)  # noqa: S311
    lake = model.Lake(chaos, draw.choice((0.0, 0.1, 0.3)))
    step = model.LookUp(lake, pairs, draw.randint(1, 4), draw)
    correction = model.Correction(lake, step, draw)
    kills = schedules.lived(lake, source, step, correction, draw, 150, holds)
    while model.pending(lake, step.sealed):
        correction.work()
    exact, found = model.true_pairs(source, pairs), model.in_force(lake, step.sealed)
    assert found == exact
    refuted = len({found for found, _ in lake.tables["refuted"]})
    return {"kills": kills, "late": len(lake.tables["late"]), "alarms": len(found),
            "made": len(set(lake.tables["made"])), "refuted": refuted}  # fmt: skip


@pytest.mark.parametrize("pairs", ["all", "consecutive"])
def test_in_any_order_of_commits_alarms_end_exact(pairs: model.Pairs) -> None:
    told = [lived(seed, pairs) for seed in range(SCHEDULES)]
    for name in ("kills", "late", "alarms", "made"):
        assert sum(each[name] for each in told) > SCHEDULES, name
    assert (sum(each["refuted"] for each in told) > SCHEDULES) == (pairs == "consecutive")
