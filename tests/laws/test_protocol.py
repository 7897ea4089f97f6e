"""The protocol under fire: random schedules of single commits, kills before and after each.

The real door, registry, source, reducer, sink, planner and corrector work on real Delta tables;
only Spark is a double (``LocalQuery`` keeps a checkpoint in Spark's form). Every law is checked
at sealed positions during the schedule, and at the end every answer must be exact.
"""

from pathlib import Path

import pytest

from penstock.lake.ingest import door as door_module
from penstock.spark import chunks, results
from tests import reference as ref
from tests.answers import assert_same, blocks_of
from tests.doubles import deadly_commits
from tests.steps import case_of
from tests.worlds import World

pytestmark = pytest.mark.law


def survives(home: Path, seed: int, steps: int = 90) -> World:
    world = World(home, case_of(seed), seed)
    world.death.share = world.draw.choice([0.0, 0.03, 0.1])
    with deadly_commits(world.death):
        for i in range(steps):
            world.step()
            if i % 9 == 8:
                spared, world.death.share = world.death.share, 0.0
                world.lake.check()
                world.death.share = spared
        world.death.share = 0.0
    world.finish()
    world.lake.check()
    lake = world.lake
    if world.mode == "bounded":
        assert world.ended()
        blocks = blocks_of(lake.tables, lake.pipeline)
        flat = ref.run(lake.oracle, [*blocks, ref.Block(kind=ref.END)])
        assert_same(flat.corrected, lake.in_force(), position=False)
    return world


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(chunks, "PAIRS_A_CHUNK", 16)
    monkeypatch.setattr(results, "LARGE", 300)


@pytest.mark.parametrize("seed", [1, 101, 1_000, 2_000])
def test_any_schedule_keeps_the_laws(tmp_path: Path, seed: int) -> None:
    survives(tmp_path, seed)


@pytest.mark.all
@pytest.mark.parametrize(
    "seed", [3, 116, *range(200, 280), *range(1_001, 1_011), *range(2_001, 2_011)]
)
def test_many_schedules_keep_the_laws(tmp_path: Path, seed: int) -> None:
    survives(tmp_path, seed)
