"""An audit that goes on from the last green one says what an audit of everything says."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.history.position import position
from penstock.lake.ingest import door as door_module
from penstock.lake.proof import scope
from penstock.spark import chunks
from tests.forgery import audited
from tests.rarely import rare
from tests.steps import case_of
from tests.worlds import Shedding, World, lived

pytestmark = pytest.mark.spark
STEPS, AUDITS, PARTS = 50, 2, 10
APART = {"everything", "covered", "records_new", "records_again", "answers_compared", "examples"}
"""What differs: what was looked at."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    monkeypatch.setattr(chunks, "PAIRS_A_CHUNK", 16)
    monkeypatch.setattr(scope, "LEAST", PARTS)


def assert_same(spark: SparkSession, world: World) -> bool:
    """Both are green and add up to the same; returns whether one went on from a former one."""
    lake, at = world.lake, world.lake.clock.now()
    if position(lake.tables, lake.step) is None:
        return False
    every = audited(spark, lake, at, everything=True)
    some = audited(spark, lake, at, kept=True)
    assert (some.red, some.said) == (every.red, every.said) == (set(), ())
    assert {n: v for n, v in some.row.items() if n not in APART} == {
        n: v for n, v in every.row.items() if n not in APART
    }
    return not some.row["everything"]


def the_same_throughout(
    spark: SparkSession, home: Path, seed: int, kind: type[World] = World
) -> int:
    world, went_on = kind(home, case_of(seed), seed), 0
    for _ in lived(world, STEPS, AUDITS):
        if world.draw.random() < 0.3:
            maintain_pipeline(world.lake.tables, world.lake.pipeline)
        went_on += assert_same(spark, world)
    return went_on + assert_same(spark, world)


@pytest.mark.parametrize("seed", [3])
def test_audits_that_go_on_say_the_same_as_audits_of_everything(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    assert the_same_throughout(quick, tmp_path, seed) > 0


@pytest.mark.parametrize("seed", [4, rare(5), rare(6)])
def test_the_same_where_records_are_shed(quick: SparkSession, tmp_path: Path, seed: int) -> None:
    assert the_same_throughout(quick, tmp_path, seed, Shedding) > 0


@pytest.mark.all
@pytest.mark.parametrize("seed", [*range(4, 40), *range(1_001, 1_011)])
def test_audits_of_many_runs_that_go_on_say_the_same(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    the_same_throughout(quick, tmp_path, seed)
