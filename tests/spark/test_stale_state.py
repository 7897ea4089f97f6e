"""State that micro-batches left behind which Spark's offset log does not know, or not as done."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.checkpoint import newest_checkpoint
from penstock.lake.history.generation import generations
from tests import reference as ref
from tests.spark.conftest import Scene
from tests.spark.test_law0_on_spark import assert_answers_of_the_log

pytestmark = pytest.mark.spark


LOST = 6
"""Micro-batches."""


def stale(folder: Path, version: int) -> int:
    """Make the changes of a version those of some later ones, too; in how many partitions."""
    found = list(folder.glob(f"state/*/*/{version}.changelog"))
    for path in found:
        check = path.with_name(f".{version}.changelog.crc")
        for later in range(version + 1, version + 1 + LOST):
            shutil.copy(path, path.with_name(f"{later}.changelog"))
            shutil.copy(check, path.with_name(f".{later}.changelog.crc"))
    return len(found)


def forget(spark: SparkSession) -> None:
    """Make the next query read its state from the checkpoint, as a new process does."""
    states = spark._jvm.org.apache.spark.sql.execution.streaming.state
    getattr(getattr(states, "StateStore$"), "MODULE$").stop()


def test_state_of_lost_micro_batches_is_not_taken_for_that_of_the_next(
    spark: SparkSession, log: Scene, truth: dict[str, ref.Answers], tmp_path: Path
) -> None:
    """Spark keeps a file of changes that is there already, and reads it at the next start."""
    scene = log.copy(tmp_path)
    lake = scene.lakes["hourly"]
    scene.answer(spark, 1, lambda pulse: pulse.steps.get("hourly", {}).get("block", 0) >= 5)
    committed = newest_checkpoint(lake.tables, lake.query_name).committed
    assert committed is not None
    for later in (lake.checkpoint / "offsets").glob("*"):
        if later.name.isdigit() and int(later.name) > committed:
            later.unlink()
    assert stale(lake.checkpoint, committed + 1) == 2
    forget(spark)
    scene.answer(spark, 1, lambda pulse: pulse.steps.get("hourly", {}).get("block", 0) >= 8)
    forget(spark)
    scene.answer(spark, 1)
    assert [g.number for g in generations(lake.tables, lake.step)] == [0]
    assert_answers_of_the_log(scene, truth)
