"""User code through door, source, state, sink and correction: what it says is the log's."""

from pathlib import Path
from typing import Any

import pytest

from penstock.lake.history.balance import balance
from penstock.lake.history.taken import taken
from penstock.lake.ingest import door as door_module
from penstock.lake.storage import read
from penstock.spark import scan
from tests.custom import (
    EVERY,
    FUSSY,
    PAIRS,
    SITES,
    CustomWorld,
    check_left_out,
    check_settled,
    check_timely,
)
from tests.rarely import rare
from tests.worlds import living

pytestmark = pytest.mark.law


STEPS = {
    "sites": SITES, "pairs": PAIRS, "fussy": FUSSY,
    "sites, every 40 s": SITES | EVERY, "pairs, every 40 s": PAIRS | EVERY,
}  # fmt: skip


@pytest.mark.parametrize("step", STEPS.values(), ids=[*STEPS])
@pytest.mark.parametrize("seed", [0, *map(rare, range(1, 4))])
def test_whoever_dies_whenever_what_is_said_is_the_log_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: dict[str, Any], seed: int
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(scan, "KEPT", 4)
    monkeypatch.setattr(read, "PIECE", 3)
    world = CustomWorld(tmp_path, step, seed)
    lake = world.lake
    for _ in living(world, 50):
        check_timely(lake)
    world.finish()
    check_timely(lake)
    check_settled(lake)
    assert not lake.correct(recheck=True), "nothing was wrong"
    found = balance(lake.tables, lake.step)
    assert found is not None
    assert (found.late, found.open) == (0, 0)
    if step is FUSSY:
        check_left_out(lake)
        assert found.excluded > 0
    assert found.pairs == len(taken(lake.tables, lake.step, 0, found.received))
