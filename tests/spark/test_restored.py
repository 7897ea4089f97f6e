"""A stream goes on from a backup that was taken beside it, under Spark; the audit is green."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.core.clock import SystemClock
from penstock.lake.backup.restore import restore_backup
from penstock.lake.backup.save import take_backup
from penstock.lake.history.generation import generations
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.history.standing import answers_in_force
from penstock.lake.storage.commit import Table
from penstock.spark.audit import Audit, correction_interval
from penstock.spark.correct import correct_pipeline
from tests import reference as ref
from tests.answers import assert_same, blocks_of, rows_by_pair
from tests.doubles import RecordingPulse, RisingClock
from tests.spark.conftest import Scene, flow, make_scene
from tests.spark.test_correct_and_audit import found
from tests.streams import write_files

pytestmark = [pytest.mark.spark, pytest.mark.all]
RECORDS = 6_000


def test_a_stream_goes_on_from_a_backup_taken_beside_it_and_the_audit_is_green(
    spark: SparkSession, tmp_path: Path
) -> None:
    scene, folder = make_scene(tmp_path / "home"), tmp_path / "backup"
    write_files(scene.home / "live", flow(RECORDS), 500)
    scene.begin()
    pipelines = scene.write_yaml()

    def back_up(_: RecordingPulse) -> bool:
        """Once some micro-batches are sealed, while queries and door go on."""
        lake = scene.lake("hourly")
        if len(sealed_rows(lake.tables, lake.step, 0)) < 3:
            return False
        take_backup(scene.home / "lake", folder, pipelines, SystemClock())
        return True

    scene.answer(spark, 2, back_up)
    restore_backup(folder, tmp_path / "other" / "lake", SystemClock())
    again = Scene(tmp_path / "other", scene.config)
    first = again.lake("hourly")
    sealed = [row.seq for row in sealed_rows(first.tables, first.step, 0)]
    assert sealed[-1] < RECORDS - 1, "something is left to be done"

    again.answer(spark, 5)
    correct_pipeline(spark, first.tables, first.pipeline, RisingClock(), "r")

    blocks = blocks_of(first.tables, first.pipeline)
    assert sum(len(block.records) for block in blocks) == RECORDS
    assert [g.number for g in generations(first.tables, first.step)] == [0, 1]
    for lake in again.lakes.values():
        in_force = answers_in_force(lake.tables, lake.step)
        expected = ref.run(lake.oracle, blocks).corrected
        assert_same(expected, rows_by_pair(lake.step, in_force, "through_seq"), position=False)
        files = Table(lake.tables.answers(lake.step)).delta.file_uris()
        read = spark.read.format("delta").load(lake.tables.answers(lake.step).uri)
        assert files
        assert read.count() >= in_force.num_rows
    rows = Audit(spark, first.tables, first.pipeline, SystemClock()).comparisons(
        correction_interval(first.pipeline)
    )
    assert {row["step"]: found(row) for row in rows} == {"hourly": {}, "since": {}}
    assert all(row["answers_compared"] > 0 for row in rows)
