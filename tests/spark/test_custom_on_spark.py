"""User code on real Spark: preloaded, streamed, rebuilt, audited; what is forged is red."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.generation import generations
from penstock.lake.history.position import SPEED, position
from penstock.lake.ingest import door as door_module
from penstock.lake.log.blocks import HISTORY
from penstock.spark.correct import correct_pipeline, start_epochs
from tests.custom import (
    EVERY,
    FUSSY,
    PAIRS,
    SITES,
    check_left_out,
    check_settled,
    check_timely,
    left_out,
    truth,
    write_code,
)
from tests.doubles import RecordingPulse
from tests.forgery import Forger, Row, assert_red, audited
from tests.lakes import Lake, make_lake, some_rows
from tests.lookups import NOBODY
from tests.spark.answering import answer
from tests.streams import write_jsonl

pytestmark = pytest.mark.spark
RECORDS, OLD, BLOCK = 600, 150, 40


def feed(home: Path, step: dict[str, Any]) -> Lake:
    """A history that is preloaded, and a log that nobody has answered."""
    write_code(home)
    history = {"files": str(home / "history"), "format": "jsonl"}
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "bounded"}
    lake = make_lake(home, (step, NOBODY), history=history, source=source)
    rows = some_rows(RECORDS, 11)
    write_jsonl(home / "history" / "0.jsonl", rows[:OLD])
    write_jsonl(home / "live" / "0.jsonl", rows[OLD:])
    lake.ingest(HISTORY)
    start_epochs(lake.tables, lake.pipeline, lake.clock)
    return lake


def weighed_after_six(pulse: RecordingPulse) -> bool:
    """Whether six blocks are answered, and the stream has told how large its states are."""
    return pulse.steps.get("s", {}).get("block", 0) >= 6 and pulse.figures.get("state_bytes", 0) > 0


@pytest.mark.parametrize("step", [PAIRS, PAIRS | EVERY], ids=["at once", "every 40 s"])
def test_a_history_a_lost_checkpoint_and_an_audit(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: dict[str, Any]
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", BLOCK)
    lake = feed(tmp_path, step)
    answer(quick, lake, 1, weighed_after_six)
    check_timely(lake)
    shutil.rmtree(lake.checkpoint)
    answer(quick, lake, 3 * BLOCK, shards=2)
    assert len(generations(lake.tables, lake.step)) == 2
    check_timely(lake)
    assert correct_pipeline(quick, lake.tables, lake.pipeline, lake.clock, "r").answers > 0
    assert correct_pipeline(quick, lake.tables, lake.pipeline, lake.clock, "r").answers == 0
    check_settled(lake)
    verdict = audited(quick, lake)
    assert (verdict.red, verdict.said, verdict.row["pending_answers"]) == (set(), (), 0)
    assert verdict.row["answers_compared"] == len(truth(lake, RECORDS))


@pytest.fixture(scope="module")
def repaired(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lake]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door_module, "BLOCK", BLOCK)
        lake = feed(tmp_path_factory.mktemp("repaired"), FUSSY)
        lake.query()
        lake.ingest()
        lake.query(blocks=2).run()
        lake.correct()
        yield lake


@pytest.fixture
def forger(repaired: Lake, tmp_path: Path) -> Forger:
    return Forger.of_a_copy(repaired, tmp_path)


def some(forger: Forger) -> Row:
    return forger.pick("answers", lambda row: row["reason"] == SPEED)


def changed(name: str) -> Callable[[Forger], Row]:
    def plant(forger: Forger) -> Row:
        victim = some(forger)
        return forger.change("answers", victim, **{name: victim[name] + 1})

    return plant


def invented(forger: Forger) -> Row:
    """An answer of a record that changed nothing of this key."""
    rows, victim = forger.rows("answers"), some(forger)
    told = {row["arrival_seq"] for row in rows if row["site"] == victim["site"]}
    other = next(r["arrival_seq"] for r in forger.rows("events") if r["arrival_seq"] not in told)
    false = victim | {"arrival_seq": other}
    forger.rewrite("answers", [*rows, false])
    return false


FAULTS: dict[str, tuple[str, Callable[[Forger], Row]]] = {
    "an answer is dropped": ("missing_answers", lambda f: f.drop("answers", some(f))),
    "an answer is doubled": ("doubled_answers", lambda f: f.add("answers", some(f))),
    "an answer is invented": ("extra_answers", invented),
    "what is said is forged": ("wrong_answers", changed("least")),
    "how many there were is forged": ("wrong_answers", changed("n_records")),
}


def test_without_a_fault_the_audit_is_green(quick: SparkSession, repaired: Lake) -> None:
    check_settled(repaired)
    check_left_out(repaired)
    verdict = audited(quick, repaired)
    assert (verdict.red, verdict.said) == (set(), ())
    assert verdict.warned == {"pairs_excluded", "quarantined_share"}
    epoch = position(repaired.tables, repaired.step)
    assert epoch is not None
    since = {seq for seq in left_out(repaired, RECORDS) if seq > epoch.epoch.seq}
    assert verdict.row["pairs_excluded"] == len(since) > 0
    assert verdict.row["answers_compared"] == len(truth(repaired, RECORDS))


@pytest.mark.parametrize("fault", FAULTS)
def test_the_audit_is_red_and_says_where_when(
    quick: SparkSession, forger: Forger, fault: str
) -> None:
    assert_red(quick, forger, *FAULTS[fault])


def invented_exclusion(forger: Forger) -> int:
    """Of a record that the code takes."""
    there = {row["arrival_seq"] for row in forger.rows("excluded")}
    other = max(r["arrival_seq"] for r in forger.rows("events") if r["arrival_seq"] not in there)
    forger.add("excluded", forger.rows("excluded")[-1], arrival_seq=other)
    return other


def dropped_exclusion(forger: Forger) -> int:
    """Of a record since the history."""
    return int(forger.drop("excluded", forger.rows("excluded")[-1])["arrival_seq"])


def dropped_exclusion_of_history(forger: Forger) -> int:
    return int(forger.drop("excluded", forger.rows("excluded")[0])["arrival_seq"])


@pytest.mark.parametrize(
    ("plant", "more"),
    [
        (invented_exclusion, {"pairs_unaccounted", "batches_wrong"}),
        (dropped_exclusion, {"pairs_unaccounted", "batches_wrong"}),
        (dropped_exclusion_of_history, set()),
    ],
)
def test_a_forged_exclusion_is_red(
    quick: SparkSession, forger: Forger, plant: Callable[[Forger], int], more: set[str]
) -> None:
    seq = plant(forger)
    verdict = audited(quick, forger.lake)
    assert verdict.red == {"exclusions_wrong", *more}
    assert any("exclusion" in line and f"arrival_seq={seq}" in line for line in verdict.said)


def test_code_that_does_not_merge_is_found_by_the_audit(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts wrongly wherever states are merged, which the audit does elsewhere."""
    monkeypatch.setattr(door_module, "BLOCK", BLOCK)
    lake = feed(tmp_path, SITES)
    path = tmp_path / "p.py"
    path.write_text(path.read_text().replace('pc.add(one["n"], other["n"])', 'one["n"]'))
    other = make_lake(tmp_path, (SITES, NOBODY), **{k: v for k, v in lake.config.items()
                                                   if k != "steps"})  # fmt: skip
    assert other.step.fingerprint != lake.step.fingerprint
    start_epochs(other.tables, other.pipeline, other.clock)
    other.query()
    other.ingest()
    other.query(blocks=2).run()
    other.correct()
    assert audited(quick, other).red & {"wrong_answers", "missing_answers", "extra_answers"}
