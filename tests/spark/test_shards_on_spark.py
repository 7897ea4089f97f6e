"""Shards and results in files on real Spark: what a state is cut into, and what its tasks write."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.position import position
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import data_files, read_table
from penstock.spark import results
from penstock.spark.audit import Audit
from penstock.spark.cores import PARTITIONS, cores_of
from tests import reference as ref
from tests.doubles import FixedClock
from tests.lakes import Lake
from tests.spark.conftest import Scene
from tests.spark.test_correct_and_audit import found as faults_in
from tests.spark.test_law0_on_spark import assert_answers_of_the_log

pytestmark = pytest.mark.spark


def partitions(lake: Lake) -> int:
    """Into how many Spark has cut the newest state."""
    return sum(path.name.isdigit() for path in (lake.checkpoint / "state" / "0").iterdir())


def test_a_state_is_cut_as_it_was_asked_to_be_and_its_tasks_write_what_is_large(
    spark: SparkSession,
    log: Scene,
    truth: dict[str, ref.Answers],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results, "LARGE", 10_000)
    scene, found = log.copy(tmp_path), []
    hourly = scene.lakes["hourly"]
    for shards, until in ((0, 4), (3, 8), (0, 1_000)):
        at = position(hourly.tables, hourly.step)
        block = 0 if at is None else at.sealed.block

        def far(_: object, until: int = max(until, block + 1)) -> bool:
            now = position(hourly.tables, hourly.step)
            return now is not None and now.sealed.block >= until

        scene.answer(spark, 2, far, shards)
        found.append(partitions(hourly))
    assert found == [cores_of(spark), 3, 3]
    assert spark.conf.get(PARTITIONS) == str(cores_of(spark)), "as before"
    assert_answers_of_the_log(scene, truth)
    for lake in scene.lakes.values():
        rows = read_table(Table(lake.tables.registry()))
        mine = [r for r in rows.to_pylist() if r["step"] == lake.name]
        reasons = [r["reason"] for r in sorted(mine, key=lambda r: r["generation"])]
        assert reasons == ["first start", "shards"]
    answers = Table(hourly.tables.answers(hourly.step)).refresh()
    rows = read_table(Table(hourly.tables.answers(hourly.step)), ["generation", "micro_batch"])
    commits = rows.group_by(["generation", "micro_batch"]).aggregate([]).num_rows
    assert len(data_files(answers, "window_start")) > commits, "some by their tasks, some not"
    clock, interval = FixedClock(), timedelta(hours=1)
    told = Audit(spark, hourly.tables, hourly.pipeline, clock).comparisons(interval)
    assert [(row["step"], each) for row in told if (each := faults_in(row))] == []
