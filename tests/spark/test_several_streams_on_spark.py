"""Two sources in one pipeline on real Spark: answers of each, and audits that see whose is what."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.generation import generations
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.ingest import door as door_module
from penstock.lake.log.blocks import HISTORY
from penstock.lake.proof import scope
from penstock.spark.correct import correct_pipeline, start_epochs
from tests.forgery import Forger, all_audited
from tests.lakes import Lake
from tests.rivers import Rivers, some_far, some_near
from tests.spark.answering import answer

pytestmark = pytest.mark.spark
FILES, BLOCK = 8, 10
NEAR, FAR = some_near(25 * 12, 1), some_far(20 * 12, 1)


def flowing(home: Path, mode: str, **options: str) -> Rivers:
    """A history of both streams, which is preloaded, and files of both."""
    rivers = Rivers(home, {"near": mode, "far": mode}, "sites", "codes", **options)
    rivers.put("near", some_near(30, 100), HISTORY)
    rivers.put("far", some_far(30, 100), HISTORY)
    rivers.ingest(HISTORY)
    start_epochs(rivers.tables, rivers.pipeline, rivers.clock)
    for number in range(FILES):
        more(rivers, number)
    return rivers


def more(rivers: Rivers, number: int) -> None:
    """The next file of each stream."""
    rivers.put("near", NEAR[25 * number : 25 * (number + 1)])
    rivers.put("far", FAR[20 * number : 20 * (number + 1)])


def corrected(spark: SparkSession, lake: Lake) -> int:
    return correct_pipeline(spark, lake.tables, lake.pipeline, lake.clock, "r").answers


def test_a_lost_checkpoint_a_correction_an_audit_and_a_record_under_another_name(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", BLOCK)
    rivers = flowing(tmp_path / "a", "bounded")
    lakes = rivers.lakes
    lake = lakes["sites"]
    answer(quick, lake, 1, lambda pulse: pulse.steps.get("sites", {}).get("block", 0) >= 9)
    rivers.check()
    shutil.rmtree(lake.checkpoint)
    answer(quick, lake, 7 * BLOCK, shards=2)
    assert len(generations(lake.tables, lake.step)) == 2
    rivers.check()
    assert corrected(quick, lake) > 0
    assert corrected(quick, lake) == 0
    assert maintain_pipeline(lake.tables, lake.pipeline)
    rivers.check()
    verdicts = all_audited(quick, lake)
    assert {name: verdict.red for name, verdict in verdicts.items()} == {
        "sites": set(), "codes": set(),
    }  # fmt: skip
    assert all(verdict.row["answers_compared"] > 0 for verdict in verdicts.values())

    forger = Forger.of_a_copy(lake, tmp_path / "b")
    victim = forger.pick("events", lambda row: row["stream"] == "near" and row["site"] == "JFK")
    forger.change("events", victim, stream="far")
    found = all_audited(quick, forger.lake)
    assert {"blocks_wrong", "wrong_answers"} <= found["sites"].red | found["codes"].red
    for verdict in found.values():
        assert "blocks_wrong" in verdict.red
        assert any("rows of another block" in line for line in verdict.said), verdict.said


def test_an_audit_goes_on_where_the_last_one_of_its_stream_ended(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", BLOCK)
    monkeypatch.setattr(scope, "LEAST", 4 * BLOCK)
    rivers = flowing(tmp_path, "live", idle_after="PT1H")
    lake = rivers.lakes["codes"]
    for number in range(3):
        rivers.ingest()
        rivers.query(blocks=3).run()
        for each in rivers.lakes.values():
            each.correct()
        verdicts = all_audited(quick, lake, kept=True)
        assert {name: verdict.red for name, verdict in verdicts.items()} == {
            "sites": set(), "codes": set(),
        }  # fmt: skip
        more(rivers, FILES + number)
    assert not any(verdict.row["everything"] for verdict in verdicts.values()), [
        verdict.row["covered"] for verdict in verdicts.values()
    ]
