"""Joins on real Spark: one log, cut and interrupted in many ways, has one set of pairs."""

import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.generation import generations
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.ingest import door as door_module
from penstock.lake.log.blocks import HISTORY
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.spark.correct import correct_pipeline, start_epochs
from tests.forgery import audited
from tests.joins import (
    CASES,
    Case,
    check_settled,
    check_stream,
    join_lake,
    logged,
    seen,
    steered,
)
from tests.lakes import Lake
from tests.rarely import rare
from tests.spark.answering import answer
from tests.streams import write_jsonl
from tests.two_streams import CASES as TWO
from tests.two_streams import Life

pytestmark = pytest.mark.spark
RECORDS, OLD, BLOCK = 600, 150, 40


def feed(home: Path, name: str) -> Lake:
    """A history that is preloaded, and a log that nobody has answered."""
    history = {"files": str(home / "history"), "format": "jsonl"}
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "bounded"}
    lake = join_lake(home, name, history=history, source=source)
    rows = seen(random.Random(11), RECORDS, CASES[name].apart)  # noqa: S311
    write_jsonl(home / "history" / "0.jsonl", rows[:OLD])
    write_jsonl(home / "live" / "0.jsonl", rows[OLD:])
    lake.ingest(HISTORY)
    start_epochs(lake.tables, lake.pipeline, lake.clock)
    return lake


@pytest.mark.parametrize("name", [rare("far"), "month", rare("near")])
def test_a_history_a_lost_checkpoint_and_a_correction(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", BLOCK)
    lake, case = feed(tmp_path, name), CASES[name]
    answer(spark, lake, 1, lambda pulse: pulse.steps.get("s", {}).get("block", 0) >= 6)
    check_stream(lake, case)
    assert len(sealed_rows(lake.tables, lake.step, 0)) < RECORDS // BLOCK
    shutil.rmtree(lake.checkpoint)
    answer(spark, lake, 3 * BLOCK, shards=2)
    assert len(generations(lake.tables, lake.step)) == 2
    assert check_stream(lake, case)
    done = correct_pipeline(spark, lake.tables, lake.pipeline, lake.clock, "r")
    assert done.answers > 0
    assert correct_pipeline(spark, lake.tables, lake.pipeline, lake.clock, "r").answers == 0
    assert maintain_pipeline(lake.tables, lake.pipeline)
    assert len(logged(lake).records) == RECORDS
    pairs = check_settled(lake, case)
    verdict = audited(spark, lake)
    assert (verdict.red, verdict.row["pending_answers"]) == (set(), 0)
    assert verdict.row["answers_compared"] == pairs


TARGETED = steered(TWO["any"])


@pytest.mark.parametrize("case", [TARGETED, rare(TWO["any"]), rare(TWO["site"])])
def test_two_streams_are_corrected_and_audited(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 7)
    life = Life(tmp_path, case, seed=3)
    for _ in range(40):
        life.step()
    lake = life.lake
    life.finish(lambda: correct_pipeline(spark, lake.tables, lake.pipeline, lake.clock, "r"))
    pairs = check_settled(lake, case)
    verdict = audited(spark, lake)
    assert (verdict.red, verdict.row["pending_answers"]) == (set(), 0)
    assert verdict.row["answers_compared"] == pairs
    assert verdict.row["pairs_late"] > 0
    recorded = read_table(Table(lake.tables.coverage(lake.step)))
    assert (recorded.num_rows > 0) == (case is TARGETED)
