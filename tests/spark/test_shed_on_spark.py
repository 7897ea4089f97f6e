"""Shedding on real Spark: a host that is behind asks for it, and audits see it repaired."""

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from penstock.lake.ingest import door as door_module
from penstock.lake.proof import scope
from penstock.spark import shed
from penstock.spark.correct import correct_pipeline
from tests.doubles import RecordingPulse
from tests.forgery import Forger, Row, assert_red, audited, repaired_lake
from tests.joins import CASES as JOINS
from tests.joins import check_settled, check_stream, join_lake, seen
from tests.lakes import Lake
from tests.rarely import rare
from tests.spark.answering import answer
from tests.streams import BEGIN, disordered, write_jsonl

pytestmark = pytest.mark.spark
FILES, EACH = 20, 40


@pytest.fixture(scope="module")
def kept_back(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Half of the last records were shed; some of them are repaired, of others windows are open."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door_module, "BLOCK", 20)
        lake = repaired_lake(tmp_path_factory.mktemp("lake"), lambda lake: lake.shed(50))
        assert lake.sheds()
        yield lake


@pytest.fixture
def forger(kept_back: Lake, tmp_path: Path) -> Forger:
    return Forger.of_a_copy(kept_back, tmp_path)


def shed_row(forger: Forger) -> Row:
    return forger.pick("late", lambda row: row["reason"] == "shed")


def answered_though_shed(forger: Forger) -> Row:
    """A timely answer that holds a record which must not be in it."""
    gone = {row["window_start"] for row in forger.rows("late") if row["reason"] == "shed"}
    victim = forger.pick("answers", lambda r: r["reason"] == "speed" and r["window_start"] in gone)
    return forger.change("answers", victim, n_records=victim["n_records"] + 1)


def decided_otherwise(forger: Forger) -> Row:
    """The door is said to have adopted nothing: all that was shed should have been answered."""
    row = forger.pick("decisions", lambda row: row["what"] == "shed")
    ratio, _, seq = row["value"].partition("@")
    assert ratio == "50"
    forger.change("decisions", row, value=f"0@{seq}")
    rows = [row for row in forger.rows("late") if row["reason"] == "shed"]
    return min(rows, key=lambda row: row["window_start"])


FAULTS: dict[str, tuple[str, Callable[[Forger], Row]]] = {
    "a shed row is lost": ("late_miscounted", lambda f: f.drop("late", shed_row(f))),
    "a shed row is said to be late": (
        "late_miscounted", lambda f: f.change("late", shed_row(f), reason="late")),
    "a record is answered though it was shed": ("timely_miscounted", answered_though_shed),
    "nothing was to be shed": ("late_miscounted", decided_otherwise),
}  # fmt: skip


def test_without_a_fault_the_audit_is_green(quick: SparkSession, kept_back: Lake) -> None:
    kept_back.check()
    verdict = audited(quick, kept_back)
    assert verdict.red == set()
    late = Forger(kept_back).rows("late")
    shed = sum(row["n_records"] for row in late if row["reason"] == "shed")
    assert verdict.row["pairs_shed"] == shed > 0
    assert verdict.row["pairs_late"] > shed
    assert verdict.row["pairs_unaccounted"] == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_the_audit_is_red_and_says_where_when(
    quick: SparkSession, forger: Forger, fault: str
) -> None:
    assert_red(quick, forger, *FAULTS[fault])


def test_audits_go_on_over_what_waited(
    quick: SparkSession, kept_back: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was shed of windows that were open at one audit is compared at the next one."""
    monkeypatch.setattr(scope, "LEAST", 10)  # even so small a log is not covered as a whole
    lake = Forger.of_a_copy(kept_back, tmp_path).lake
    assert audited(quick, lake, kept=True, everything=True).red == set()
    later = BEGIN + timedelta(days=1)  # all windows close
    rows = disordered(60, seed=3, apart=5.0, late_share=0.0, late_by=0.0, begin=later)
    lake.shed(0)
    later_file = kept_back.home / "live" / "later.jsonl"  # its pipeline reads there
    write_jsonl(later_file, rows)
    lake.ingest()
    later_file.unlink()
    lake.query().run()
    waits = audited(quick, lake, kept=True)
    assert waits.red == set()
    assert waits.row["pending_answers"] > 0
    lake.correct()
    lake.check()
    after = audited(quick, lake, kept=True)
    assert (after.red, after.row["pending_answers"]) == (set(), 0)
    assert "since number" in after.row["covered"]


@pytest.mark.parametrize("name", ["same", rare("far")])
def test_a_host_that_is_behind_sheds_and_all_pairs_are_found(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 40)
    monkeypatch.setattr(shed, "EVERY_SECONDS", 0.0)
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"}
    (tmp_path / "live").mkdir()
    may: dict[str, Any] = {"base": 0.6, "from": 0.0, "within": "PT0.001S"}
    lake = join_lake(tmp_path, name, source=source)
    lake.edit(shed=may)
    draw, number = random.Random(11), iter(range(FILES))  # noqa: S311

    def come(pulse: RecordingPulse) -> bool:
        """More comes than a micro-batch takes, until all has come and is answered."""
        if (n := next(number, None)) is not None:
            rows = seen(draw, EACH, JOINS[name].apart, EACH // 2 * n)
            write_jsonl(tmp_path / "next", rows)
            (tmp_path / "next").rename(tmp_path / "live" / f"{n:02d}.jsonl")
        return pulse.steps.get("s", {}).get("through_seq") == FILES * EACH - 1

    answer(quick, lake, EACH, come)
    assert check_stream(lake, JOINS[name])
    ratios = [ratio for _, ratio in lake.sheds()]
    assert ratios
    assert max(ratios) == 60
    late = Forger(lake).rows("late")
    assert any(row["reason"] == "shed" for row in late)
    correct_pipeline(quick, lake.tables, lake.pipeline, lake.clock, "r")
    pairs = check_settled(lake, JOINS[name])
    verdict = audited(quick, lake)
    assert (verdict.red, verdict.row["pending_answers"]) == (set(), 0)
    assert verdict.row["answers_compared"] == pairs
    assert (
        verdict.row["pairs_shed"]
        == pc.sum(pc.cast(pc.equal([row["reason"] for row in late], "shed"), "int64")).as_py()
    )
