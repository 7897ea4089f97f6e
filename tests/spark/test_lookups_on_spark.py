"""Look-ups on real Spark: one log, cut and interrupted in many ways, has one set of alarms."""

import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.generation import generations
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.history.sealed import sealed_rows
from penstock.lake.history.standing import answers_in_force
from penstock.lake.ingest import door as door_module
from penstock.lake.log.blocks import HISTORY
from penstock.spark.answers import answers_in_force as spark_answers_in_force
from penstock.spark.correct import correct_pipeline, start_epochs
from tests import lookup_model as model
from tests.forgery import audited
from tests.lakes import Lake
from tests.lookups import alarms, check_stream, logged, lookup_lake, seen
from tests.rarely import rare
from tests.spark.answering import answer
from tests.streams import write_jsonl

pytestmark = pytest.mark.spark
RECORDS, OLD, BLOCK = 900, 200, 50


def feed(home: Path, pairs: str) -> Lake:
    """A history that is preloaded, and a log that nobody has answered."""
    history = {"files": str(home / "history"), "format": "jsonl"}
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "bounded"}
    lake = lookup_lake(home, pairs, keep=3, history=history, source=source)
    rows = seen(random.Random(11), RECORDS)  # noqa: S311
    write_jsonl(home / "history" / "0.jsonl", rows[:OLD])
    write_jsonl(home / "live" / "0.jsonl", rows[OLD:])
    lake.ingest(HISTORY)
    start_epochs(lake.tables, lake.pipeline, lake.clock)
    return lake


@pytest.mark.parametrize("pairs", ["consecutive", rare("all")])
def test_a_history_a_lost_checkpoint_and_a_correction(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pairs: str
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", BLOCK)
    lake = feed(tmp_path, pairs)
    answer(spark, lake, 1, lambda pulse: pulse.steps.get("s", {}).get("block", 0) >= 8)
    check_stream(lake)
    assert len(sealed_rows(lake.tables, lake.step, 0)) < RECORDS // BLOCK
    shutil.rmtree(lake.checkpoint)
    answer(spark, lake, 3 * BLOCK, shards=2)
    assert len(generations(lake.tables, lake.step)) == 2
    check_stream(lake)
    done = correct_pipeline(spark, lake.tables, lake.pipeline, lake.clock, "r")
    assert done.answers > 0
    assert correct_pipeline(spark, lake.tables, lake.pipeline, lake.clock, "r").answers == 0
    assert maintain_pipeline(lake.tables, lake.pipeline)
    log = logged(lake)
    assert len(log) == RECORDS
    in_force = answers_in_force(lake.tables, lake.step)
    assert alarms(in_force) == model.true_pairs(log, pairs)
    by_spark = spark_answers_in_force(spark, lake.tables, lake.step).toArrow()
    by = [("new_seq", "ascending"), ("old_seq", "ascending")]
    assert by_spark.cast(in_force.schema).sort_by(by).equals(in_force.sort_by(by))
    verdict = audited(spark, lake)
    assert (verdict.red, verdict.row["pending_answers"]) == (set(), 0)
