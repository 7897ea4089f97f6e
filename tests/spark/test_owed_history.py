"""What a step owes of its history is pending from its start, and overdue like all that waits."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.position import position, start_of
from penstock.lake.ingest import door as door_module
from penstock.lake.log.blocks import HISTORY
from penstock.lake.proof.audits import record_audit
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.spark.correct import start_epochs
from tests.forgery import INTERVAL, Verdict, audited, repaired_lake
from tests.lakes import Lake, make_lake, some_rows
from tests.steps import CASES
from tests.streams import write_jsonl

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 25)


def after(spark: SparkSession, lake: Lake, waited: timedelta) -> Verdict:
    """The audit so long after the step's start."""
    start = start_of(lake.tables, lake.step)
    assert start is not None
    return audited(spark, lake, start.epoch.started + waited)


def assert_owed(spark: SparkSession, lake: Lake) -> None:
    """Nothing to say at first, then red, and exact once the history is answered."""
    soon = after(spark, lake, INTERVAL)
    assert (soon.red, soon.row["answers_compared"]) == (set(), 0)
    assert soon.row["pending_answers"] > 0
    late = after(spark, lake, 3 * INTERVAL)
    assert late.red == {"overdue_answers"}
    assert late.row["overdue_answers"] == late.row["pending_answers"]
    lake.correct()
    done = after(spark, lake, 3 * INTERVAL)
    assert (done.red, done.row["pending_answers"]) == (set(), 0)
    assert done.row["answers_compared"] > 0


def test_a_changed_definition_owes_all_that_was_there(quick: SparkSession, tmp_path: Path) -> None:
    lake = repaired_lake(tmp_path)
    lake.edit(window={"size": "PT100S"})
    lake.query()
    write_jsonl(tmp_path / "live" / "9.jsonl", some_rows(3, 1)[:2])
    lake.ingest()
    lake.query().run()
    assert position(lake.tables, lake.step) is not None
    assert_owed(quick, lake)


def test_a_preload_that_was_never_answered_is_owed_before_anything_is_sealed(
    quick: SparkSession, tmp_path: Path
) -> None:
    lake = _preloaded(tmp_path)
    assert position(lake.tables, lake.step) is None
    assert_owed(quick, lake)


def _preloaded(home: Path) -> Lake:
    lake = make_lake(home, CASES["sites"], history={
        "files": str(home / "history"), "format": "jsonl"})  # fmt: skip
    write_jsonl(home / "history" / "0.jsonl", some_rows(60, seed=8))
    lake.ingest(HISTORY)
    start_epochs(lake.tables, lake.pipeline, lake.clock)
    return lake


def test_the_table_of_audits_says_which_step_had_nothing_to_say(tmp_path: Path) -> None:
    lake = _preloaded(tmp_path)
    rows = [{"step": name, "through_seq": 1, "answers_compared": n} for name, n in
            (("a", 3), ("b", 0))]  # fmt: skip
    for passed in (True, False):
        record_audit(lake.tables, [lake.step], f"r{passed}", lake.clock.now(), rows, passed, [])
    found = read_table(Table(lake.tables.audits())).to_pylist()
    said = {(r["run_id"], r["step"]): (r["state"], r["passed"]) for r in found}
    assert said == {
        ("rTrue", "a"): ("passed", True), ("rTrue", "b"): ("nothing", None),
        ("rFalse", "a"): ("failed", False), ("rFalse", "b"): ("failed", False),
    }  # fmt: skip
