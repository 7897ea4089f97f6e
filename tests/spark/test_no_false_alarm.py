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
from penstock.spark import chunks
from tests import reference as ref
from tests.answers import assert_same, blocks_of
from tests.forgery import audited
from tests.lakes import World
from tests.spark.conftest import lived
from tests.steps import case_of

pytestmark = pytest.mark.spark
STEPS, AUDITS = 40, 2


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(chunks, "PAIRS_A_CHUNK", 16)


def assert_green(spark: SparkSession, world: World) -> None:
    """If anything is sealed, the audit agrees with it."""
    lake = world.lake
    if position(lake.tables, lake.step) is not None:
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


@pytest.mark.parametrize("seed", [0, 1_000, 2_000, pytest.param(55, marks=pytest.mark.all)])
def test_an_audit_at_any_moment_of_a_clean_run_is_green(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    green_throughout(quick, tmp_path, seed)


@pytest.mark.all
@pytest.mark.parametrize(
    "seed", [*range(1, 55), *range(56, 104), *range(1_001, 1_011), *range(2_001, 2_011)]
)
def test_audits_of_a_hundred_clean_runs_are_green(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    green_throughout(quick, tmp_path, seed)
