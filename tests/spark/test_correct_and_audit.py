"""Correction makes every answer exact; the audit proves it, and is not to be fooled."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.correction import pending_count
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force
from penstock.lake.storage.commit import Table
from penstock.quality.checks import CHECKS, Severity
from penstock.quality.comparisons import COUNTS
from penstock.quality.suite import run_suite
from penstock.spark.answers import answers_in_force as spark_answers_in_force
from penstock.spark.audit import Audit
from penstock.spark.correct import correct_pipeline
from tests import reference as ref
from tests.answers import assert_same, rows_by_pair
from tests.doubles import NOON, FixedClock, RisingClock
from tests.lakes import Lake
from tests.spark.conftest import Scene

pytestmark = pytest.mark.spark
INTERVAL = timedelta(minutes=15)
GOOD = tuple(c.column for c in CHECKS if c.severity is Severity.CRITICAL and c.column in COUNTS)


def correct(spark: SparkSession, scene: Scene) -> Any:
    lake = scene.lake("hourly")
    return correct_pipeline(spark, lake.tables, lake.pipeline, RisingClock(), "r")


def compare(spark: SparkSession, scene: Scene) -> dict[str, dict[str, Any]]:
    lake = scene.lake("hourly")
    rows = Audit(spark, lake.tables, lake.pipeline, FixedClock()).comparisons(INTERVAL)
    return {row["step"]: row for row in rows}


def found(row: dict[str, Any]) -> dict[str, int]:
    """What the audit holds against a step."""
    return {name: row[name] for name in GOOD if row[name]}


@pytest.fixture(scope="module")
def corrected(
    spark: SparkSession, answered: Scene, tmp_path_factory: pytest.TempPathFactory
) -> Scene:
    scene = answered.copy(tmp_path_factory.mktemp("corrected"))
    done = correct(spark, scene)
    assert done.answers > 0
    assert 0 < done.changed <= done.answers
    return scene


def test_after_correction_every_answer_in_force_is_exact(
    spark: SparkSession, corrected: Scene, truth: dict[str, ref.Answers]
) -> None:
    for name, lake in corrected.lakes.items():
        in_force = answers_in_force(lake.tables, lake.step)
        rows = rows_by_pair(lake.step, in_force, "through_seq")
        assert_same(truth[name].corrected, rows, position=False)
        assert pending_count(lake.tables, lake.step) == 0
        by = [("window_start", "ascending"), *((k, "ascending") for k in lake.step.key_names)]
        by_spark = spark_answers_in_force(spark, lake.tables, lake.step).toArrow()
        assert by_spark.cast(in_force.schema).sort_by(by).equals(in_force.sort_by(by))


def test_correcting_again_appends_nothing(spark: SparkSession, corrected: Scene) -> None:
    assert correct(spark, corrected).answers == 0


def test_the_audit_is_green_and_says_the_balance(
    spark: SparkSession, corrected: Scene, truth: dict[str, ref.Answers], tmp_path: Path
) -> None:
    rows = compare(spark, corrected)
    for name, row in rows.items():
        wanted = truth[name]
        assert found(row) == {}, row["examples"]
        assert row["answers_compared"] == len(wanted.corrected)
        assert row["pending_answers"] == 0
        assert row["received"] == row["accepted"] + row["quarantined"] == 20_000
        assert row["quarantined"] == 50
        assert row["pairs_events"] == wanted.pairs
        assert row["pairs_late"] == sum(a.n_records for a in wanted.late.values())
        assert row["pairs_on_time"] == sum(a.n_records for a in wanted.timely.values())
    assert judged(rows, tmp_path)


def judged(rows: dict[str, dict[str, Any]], folder: Path) -> bool:
    """The verdict of the suite."""
    return bool(
        run_suite(
            pd.DataFrame(list(rows.values())), pipeline="p", steps=tuple(rows), run_name="r",
            root=folder / "gx", site=folder / "site", at=NOON,
        ).success
    )  # fmt: skip


def test_a_late_window_may_wait_but_not_for_ever(spark: SparkSession, answered: Scene) -> None:
    lake = answered.lake("hourly")
    clock = FixedClock(NOON + timedelta(hours=1))
    rows = Audit(spark, lake.tables, lake.pipeline, clock).comparisons(INTERVAL)
    for row in rows:
        assert row["pending_answers"] > 0
        assert row["overdue_answers"] == row["pending_answers"]
        assert {*found(row)} == {"overdue_answers"}


def forged(lake: Lake) -> pa.Table:
    """An answer of a finished plan, of all of the log as it says, and wrong by one record."""
    at = position(lake.tables, lake.step)
    assert at is not None
    row = answers_in_force(lake.tables, lake.step).slice(40, 1).to_pylist()[0]
    row |= {"n": row["n"] + 1, "reason": "late", "revision": 9, "through_seq": at.sealed.seq}
    row |= {"epoch": at.epoch.number, "generation": None, "micro_batch": None}
    row |= {"plan": max(at.done)}
    return pa.Table.from_pylist([row], schema=lake.tables.answers(lake.step).schema)


def test_a_forged_answer_is_found(spark: SparkSession, corrected: Scene, tmp_path: Path) -> None:
    scene = corrected.copy(tmp_path)
    lake = scene.lake("hourly")
    Table(lake.tables.answers(lake.step)).append(forged(lake), "forger", 0)
    rows = compare(spark, scene)
    assert rows["hourly"]["wrong_answers"] == 1
    assert "wrong answer" in rows["hourly"]["examples"]
    assert found(rows["since"]) == {}
    assert not judged(rows, tmp_path)


def test_a_hidden_late_row_and_a_lost_record_are_found(
    spark: SparkSession, answered: Scene, tmp_path: Path
) -> None:
    scene = answered.copy(tmp_path)
    lake = scene.lake("hourly")
    late = Table(lake.tables.late(lake.step, []))
    hidden = int(late.delta.delete("site = 'LGA'")["num_deleted_rows"])
    assert hidden > 0
    events = Table(lake.tables.events(lake.pipeline.types))
    assert events.delta.delete("arrival_seq = 777")["num_deleted_rows"] == 1
    compared = compare(spark, scene)
    assert compared["hourly"]["pairs_unaccounted"] >= hidden - 4
    assert compared["hourly"]["wrong_answers"] > 0
    assert compared["hourly"]["numbers_missing"] == compared["since"]["numbers_missing"] == 1
    assert not judged(compared, tmp_path)
