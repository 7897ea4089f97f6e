"""Look-ups audited: green as they are, red for every way to falsify an alarm, and it says where."""

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.position import SPEED
from penstock.lake.history.standing import answers_in_force
from penstock.lake.ingest import door as door_module
from penstock.lake.log.blocks import HISTORY
from penstock.spark.correct import correct_pipeline, start_epochs
from tests import lookup_model as model
from tests.forgery import Forger, Row, assert_red, audited
from tests.lakes import Lake
from tests.lookups import alarms, logged, lookup_lake, seen
from tests.rarely import rare
from tests.streams import write_jsonl

pytestmark = pytest.mark.spark


def lake_of(home: Path, pairs: str, seed: int) -> Lake:
    """A history, then a stream, answered in many micro-batches."""
    draw = random.Random(seed)  # noqa: S311
    history = {"files": str(home / "history"), "format": "jsonl"}
    lake = lookup_lake(home, pairs, keep=2, history=history)
    rows = seen(draw, 160)
    write_jsonl(home / "history" / "0.jsonl", rows[:40])
    lake.ingest(HISTORY)
    start_epochs(lake.tables, lake.pipeline, lake.clock)
    for number in range(6):
        write_jsonl(home / "live" / f"{number}.jsonl", rows[40 + 20 * number :][:20])
    lake.query()
    lake.ingest()
    lake.query(blocks=2).run()
    return lake


@pytest.fixture(scope="module", params=["consecutive", rare("all")])
def repaired(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lake]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door_module, "BLOCK", 7)
        lake = lake_of(tmp_path_factory.mktemp("repaired"), request.param, seed=3)
        lake.correct()
        yield lake


@pytest.fixture
def forger(repaired: Lake, tmp_path: Path) -> Forger:
    return Forger.of_a_copy(repaired, tmp_path)


def some(forger: Forger, which: Callable[[Row], Any] = lambda _: True) -> Row:
    """A timely alarm that stands alone."""
    rows = forger.rows("answers")
    pairs = [(r["new_seq"], r["old_seq"]) for r in rows]
    alone = [r for r in rows if r["reason"] == SPEED and which(r)
             and pairs.count((r["new_seq"], r["old_seq"])) == 1]  # fmt: skip
    return alone[len(alone) // 2]


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Forger], Row]:
    def plant(forger: Forger) -> Row:
        victim = some(forger)
        return forger.change("answers", victim, **{name: change(victim[name])})

    return plant


def invented(forger: Forger) -> Row:
    """A pair of records of a key that is no alarm."""
    rows = forger.rows("answers")
    told = {(r["new_seq"], r["old_seq"]) for r in rows}
    victim = some(forger)
    mine = [r for r in forger.rows("events") if r["site"] == victim["site"]]
    old = next(r for r in mine if r["arrival_seq"] < victim["new_seq"]
               and (victim["new_seq"], r["arrival_seq"]) not in told)  # fmt: skip
    false = victim | {"old_seq": old["arrival_seq"], "old_time": old["event_time"]}
    forger.rewrite("answers", [*rows, false])
    return false


def not_taken_back(forger: Forger) -> Row:
    victim = forger.pick("answers", lambda r: r["n_records"] == 0)
    return forger.drop("answers", victim)


def corrected(forger: Forger) -> Row:
    return forger.pick("answers", lambda r: r["reason"] != SPEED and r["n_records"])


FAULTS: dict[str, tuple[str, Callable[[Forger], Row]]] = {
    "an alarm is dropped": ("missing_answers", lambda f: f.drop("answers", some(f))),
    "a corrected alarm is dropped": (
        "missing_answers", lambda f: f.drop("answers", corrected(f))),
    "an alarm is doubled": ("doubled_answers", lambda f: f.add("answers", some(f))),
    "an alarm is invented": ("extra_answers", invented),
    "a kept value is forged": ("wrong_answers", changed("new_code", lambda v: v + 1)),
    "an instant is off by a microsecond": (
        "wrong_answers", changed("old_time", lambda v: v - timedelta(microseconds=1))),
    "a late row is hidden": (
        "late_miscounted", lambda f: f.drop("late", f.pick("late", lambda _: True))),
}  # fmt: skip
SELDOM = {"a corrected alarm is dropped", "an instant is off by a microsecond"}


def test_without_a_fault_the_audit_is_green(quick: SparkSession, repaired: Lake) -> None:
    verdict = audited(quick, repaired)
    assert (verdict.red, verdict.warned, verdict.said) == (set(), set(), ())
    row, log = verdict.row, logged(repaired)
    assert row["answers_compared"] == len(model.true_pairs(log, repaired.step.pairs.value))
    assert row["pairs_preloaded"] == 40
    assert row["pairs_on_time"] + row["pairs_late"] == len(log) - 40
    assert row["pairs_late"] > 0


@pytest.mark.parametrize("fault", [rare(f) if f in SELDOM else f for f in FAULTS])
def test_the_audit_is_red_and_says_where_when(
    quick: SparkSession, forger: Forger, fault: str
) -> None:
    assert_red(quick, forger, *FAULTS[fault])


def test_what_waits_for_the_correction_is_no_fault_and_spark_corrects_it(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 7)
    lake = lake_of(tmp_path, "consecutive", seed=5)
    before = audited(quick, lake)
    assert before.red == set()
    assert before.row["pending_answers"] > 0
    correct_pipeline(quick, lake.tables, lake.pipeline, lake.clock, "r")
    found = alarms(answers_in_force(lake.tables, lake.step))
    assert found == model.true_pairs(logged(lake), "consecutive")
    after = audited(quick, lake)
    assert (after.red, after.row["pending_answers"]) == (set(), 0)


def test_a_refuted_alarm_that_was_not_taken_back_is_red(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 7)
    lake = lake_of(tmp_path, "consecutive", seed=3)
    lake.correct()
    assert_red(quick, Forger(lake), "extra_answers", not_taken_back)
