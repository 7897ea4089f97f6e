"""Audits of runs in which nothing was falsified are green, at whatever moment they are taken.

The runs are random schedules of single steps (ingest, preload, stream, corrections, a changed
slack, processes that die, lost checkpoints) of the protocol's tests, without a JVM; the audits
are Spark's.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.position import position
from penstock.lake.ingest import door as door_module
from penstock.lake.proof import scope
from penstock.spark import chunks
from tests import lookups
from tests import reference as ref
from tests.answers import assert_same, blocks_of
from tests.forgery import audited
from tests.lakes import make_lake, some_rows
from tests.lookups import LookupWorld
from tests.rarely import rare
from tests.steps import CASES, case_of
from tests.streams import write_jsonl
from tests.worlds import World, lived

pytestmark = pytest.mark.spark
STEPS, AUDITS = 40, 2


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(chunks, "PAIRS_A_CHUNK", 16)


def assert_green(spark: SparkSession, world: World) -> None:
    """If a record is sealed, the audit agrees with it."""
    lake = world.lake
    at = position(lake.tables, lake.step)
    if at is not None and at.seq >= 0:
        verdict = audited(spark, lake, lake.clock.now())
        assert (verdict.red, verdict.said) == (set(), ())


def green_throughout(spark: SparkSession, home: Path, seed: int) -> None:
    world = World(home, case_of(seed), seed)
    for _ in lived(world, STEPS, AUDITS):
        assert_green(spark, world)
    lake = world.lake
    blocks = blocks_of(lake.tables, lake.pipeline)
    if world.mode == "bounded":
        expected = ref.run(lake.oracle, [*blocks, ref.Block(kind=ref.END)]).corrected
        assert_same(expected, lake.in_force(), position=False)


@pytest.mark.parametrize("seed", [0, 1_000, 2_000, rare(55)])
def test_an_audit_at_any_moment_of_a_clean_run_is_green(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    green_throughout(quick, tmp_path, seed)


@pytest.mark.parametrize("seed", [1, rare(2)])
def test_an_audit_at_any_moment_of_a_look_up_is_green(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    world = LookupWorld(tmp_path, lookups.case_of("consecutive", keep=seed), seed)
    for _ in lived(world, STEPS, 2 * AUDITS):
        assert_green(quick, world)


def test_a_correction_may_be_planned_just_before_its_source_falls_silent(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence seals a second time at the same record: an audit between the two saw the first."""
    monkeypatch.setattr(scope, "LEAST", 10)
    folder = tmp_path / "live"
    source = {"files": str(folder), "format": "jsonl", "mode": "live"}
    lake = make_lake(tmp_path, CASES["sites"], source=source | {"idle_after": "PT0.000001S"})
    write_jsonl(folder / "0.jsonl", some_rows(60, 7))
    lake.query()
    door, planner = lake.door(), lake.planner()
    assert door.work() == 60
    lake.query(blocks=2).run()
    (plan,) = planner.due()
    before = audited(quick, lake, kept=True)
    assert (before.red, before.said) == (set(), ())
    assert door.work() == 0
    lake.query().run()
    at = position(lake.tables, lake.step)
    assert at is not None
    assert (at.sealed.seq, at.sealed.state.watermark > plan.watermark) == (plan.through_seq, True)
    assert lake.corrector().run(planner, plan).answers > 0
    for everything in (False, True):
        after = audited(quick, lake, everything=everything)
        assert (after.red, after.said, after.row["everything"]) == (set(), (), everything)


@pytest.mark.all
@pytest.mark.parametrize(
    "seed", [*range(1, 55), *range(56, 104), *range(1_001, 1_011), *range(2_001, 2_011)]
)
def test_audits_of_a_hundred_clean_runs_are_green(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    green_throughout(quick, tmp_path, seed)
