"""Law 0 on real Spark: one log, cut and interrupted in many ways, has one set of answers."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.config.settings import Settings
from penstock.kinds.windowed.layout import layout_of
from penstock.lake.history.checkpoint import newest_checkpoint
from penstock.lake.history.generation import generations
from penstock.lake.history.position import position
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.history.standing import timely_answers
from penstock.lake.history.view import late_at
from tests import reference as ref
from tests.answers import assert_same, late_by_pair, rows_by_pair
from tests.lakes import Lake
from tests.processes import killed_at_end
from tests.spark.conftest import Scene

pytestmark = pytest.mark.spark
DEADLINE = 300.0
"""Seconds; a busy machine is no failure."""


def eventually(true: Callable[[], bool], seconds: float = DEADLINE) -> None:
    """Poll until it is true."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)


def assert_answers_of_the_log(scene: Scene, truth: dict[str, ref.Answers]) -> None:
    for name, lake in scene.lakes.items():
        at = position(lake.tables, lake.step)
        assert at is not None
        timely = rows_by_pair(lake.step, timely_answers(lake.tables, lake.step), "through_seq")
        assert_same(truth[name].timely, timely)
        rows = late_at(lake.tables, lake.step, at, layout_of(lake.step).fields)
        assert_same(truth[name].late, late_by_pair(lake.step, rows))
        assert at.sealed.open_pairs == truth[name].open_pairs == 0


@contextmanager
def slow_host(environment: dict[str, str], log: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """A stream host that takes one block a micro-batch; killed at the end, if it still runs."""
    job = Path(__file__).with_name("one_block_a_micro_batch.py")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(job), "p"], cwd=Settings().root, env=environment,
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        with killed_at_end(process):
            yield process


def batches(lake: Lake) -> int:
    return len(sealed_rows(lake.tables, lake.step, 0))


@pytest.mark.parametrize("blocks", [1, 7])
def test_micro_batches_of_any_size(
    spark: SparkSession, log: Scene, truth: dict[str, ref.Answers], tmp_path: Path, blocks: int
) -> None:
    scene = log.copy(tmp_path)
    scene.answer(spark, blocks)
    assert_answers_of_the_log(scene, truth)
    for name, lake in scene.lakes.items():
        wanted = -(-len(truth[name].watermarks[1:]) // blocks)
        assert wanted <= batches(lake) <= wanted + 2


def test_everything_in_one_micro_batch(answered: Scene, truth: dict[str, ref.Answers]) -> None:
    assert_answers_of_the_log(answered, truth)
    assert all(batches(lake) <= 2 for lake in answered.lakes.values())


def test_a_run_whose_checkpoint_was_deleted_in_the_middle(
    spark: SparkSession, log: Scene, truth: dict[str, ref.Answers], tmp_path: Path
) -> None:
    scene = log.copy(tmp_path)
    scene.answer(spark, 1, lambda pulse: pulse.steps.get("hourly", {}).get("block", 0) >= 5)
    lost, kept = scene.lakes["hourly"], scene.lakes["since"]
    assert 5 <= batches(lost) < len(truth["hourly"].watermarks) - 1
    shutil.rmtree(lost.checkpoint)
    scene.answer(spark, 2)
    assert [g.number for g in generations(lost.tables, lost.step)] == [0, 1]
    assert [g.number for g in generations(kept.tables, kept.step)] == [0, 1]
    assert_answers_of_the_log(scene, truth)


@pytest.mark.all  # make test kills at telling points: tests/crash
def test_a_run_killed_in_the_middle_and_resumed(
    spark: SparkSession, log: Scene, truth: dict[str, ref.Answers], tmp_path: Path
) -> None:
    scene = log.copy(tmp_path)
    environment = scene.environment()
    hourly = scene.lakes["hourly"]
    with slow_host(environment, tmp_path / "killed.log") as process:
        eventually(lambda: batches(hourly) >= 6 or process.poll() is not None)
    assert 6 <= batches(hourly) < len(truth["hourly"].watermarks) - 1, "killed in mid-run"
    assert newest_checkpoint(hourly.tables, hourly.query_name).logged
    done = subprocess.run(
        [sys.executable, "spark_jobs/stream.py", "--job=stream", "--run-id=again", "--pipeline=p"],
        cwd=Settings().root, env=environment, capture_output=True, text=True, timeout=DEADLINE,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert_answers_of_the_log(scene, truth)
    assert len(generations(hourly.tables, hourly.step)) == 1, "a plain continuation"
