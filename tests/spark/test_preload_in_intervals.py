"""Preload by intervals on real Spark: each answers what it brought, and the audit agrees."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.standing import answers_in_force
from penstock.lake.ingest import door as door_module
from penstock.spark import chunks as chunks_module
from penstock.spark.answers import answers_in_force as answers_frame
from penstock.spark.correct import correct_pipeline
from tests.forgery import INTERVAL, Forger, at_window, audited
from tests.lakes import Lake
from tests.laws.test_history_in_intervals import (
    FORWARD,
    MIXED,
    Span,
    assert_exact,
    brought,
    history_lake,
    live_on,
    stored,
    taken_in,
)
from tests.rarely import rare

pytestmark = pytest.mark.spark
SHORT = [(3, 4), (1, 2), (1, 4)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 25)
    monkeypatch.setattr(chunks_module, "PAIRS_A_CHUNK", 400)


def preloaded(spark: SparkSession, home: Path, order: list[Span]) -> Lake:
    lake = history_lake(home)
    for span in order:
        taken_in(lake, span)
        correct_pipeline(spark, lake.tables, lake.pipeline, lake.clock, "r")
    return lake


@pytest.mark.parametrize("order", [SHORT, rare(MIXED)])
def test_each_interval_answers_only_what_it_brought(
    quick: SparkSession, tmp_path: Path, order: list[Span]
) -> None:
    lake = preloaded(quick, tmp_path, order)
    given = stored(lake)
    assert given <= brought(lake, order)
    before = audited(quick, lake, lake.clock.now() + 9 * INTERVAL)
    assert (before.red, before.row["pending_answers"]) == (set(), 0)
    assert before.row["answers_compared"] > given / 2
    correct_pipeline(quick, lake.tables, lake.pipeline, lake.clock, "r")
    assert stored(lake) == given
    live_on(lake)
    assert_exact(lake)
    by = [("window_start", "ascending"), *((k, "ascending") for k in lake.step.key_names)]
    in_force = answers_in_force(lake.tables, lake.step).sort_by(by)
    by_spark = answers_frame(quick, lake.tables, lake.step).toArrow().sort_by(by)
    assert by_spark.cast(in_force.schema).equals(in_force)
    after = audited(quick, lake, lake.clock.now() + timedelta(days=1))
    assert (after.red, after.said) == (set(), ())
    assert after.row["pairs_preloaded"] > 0


@pytest.mark.all
def test_an_answer_of_a_former_interval_that_is_lost_is_missed(
    quick: SparkSession, tmp_path: Path
) -> None:
    lake = preloaded(quick, tmp_path, FORWARD[:3])
    forger = Forger(lake)
    row = min(forger.rows("answers"), key=lambda r: r["through_seq"])
    forger.drop("answers", row)
    found = audited(quick, lake)
    assert found.red == {"missing_answers", "timely_miscounted", "pairs_unaccounted"}
    assert any(at_window(row) in said for said in found.said)
