"""Ways to falsify the newest record of a key: the audit is red for each, and says where."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.ingest import door as door_module
from tests.forgery import Forger, Row, assert_red, audited, repaired_lake
from tests.lakes import Lake
from tests.steps import SEEN, SEEN_REF

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def repaired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door_module, "BLOCK", 16)
        yield repaired_lake(tmp_path_factory.mktemp("repaired"), case=(SEEN, SEEN_REF))


@pytest.fixture
def forger(repaired: Lake, tmp_path: Path) -> Forger:
    shutil.copytree(repaired.home / "lake", tmp_path / "lake")
    return Forger(Lake(tmp_path, repaired.pipeline, repaired.oracle, repaired.config))


def timely(row: Row) -> bool:
    """A timely answer of several records that no correction has touched: its key has one row."""
    return row["reason"] == "speed" and row["n_records"] > 1 and row["delay"] is not None


def other_record(forger: Forger, answer: Row) -> Row:
    """A record of the answer's window and key that is not the newest."""
    span = answer["window_start"], answer["window_end"]
    return forger.pick(
        "events",
        lambda r: (
            r["site"] == answer["site"]
            and r["code"] is not None
            and span[0] <= r["event_time"] < span[1]
            and r["arrival_seq"] != answer["arrival_seq"]
        ),
    )


def untouched(forger: Forger) -> Row:
    """A timely answer that stands alone, with an older record beside its newest."""
    rows = forger.rows("answers")
    alone = [
        r for r in rows if timely(r)
        and sum((o["window_start"], o["site"]) == (r["window_start"], r["site"]) for o in rows) == 1
    ]  # fmt: skip
    return alone[len(alone) // 2]


def older_record(forger: Forger) -> Row:
    victim = untouched(forger)
    other = other_record(forger, victim)
    names = ("event_time", "arrival_seq", "code", "delay", "live")
    return forger.change("answers", victim, **{name: other[name] for name in names})


def kept(name: str, change: Callable[[Row], object]) -> Callable[[Forger], Row]:
    def plant(forger: Forger) -> Row:
        victim = untouched(forger)
        return forger.change("answers", victim, **{name: change(victim)})

    return plant


FAULTS: dict[str, tuple[str, Callable[[Forger], Row]]] = {
    "an older record is told": ("wrong_answers", older_record),
    "a kept value is forged": ("wrong_answers", kept("code", lambda r: r["code"] + 1)),
    "a kept value is null": ("wrong_answers", kept("delay", lambda _: None)),
    "another record at the same instant is named": (
        "wrong_answers", kept("arrival_seq", lambda r: r["arrival_seq"] - 1)),
    "its instant is off by a microsecond": (
        "wrong_answers",
        kept("event_time", lambda r: r["event_time"] - timedelta(microseconds=1))),
    "a timely answer is lost": (
        "missing_answers", lambda f: f.drop("answers", untouched(f))),
    "a late row is hidden": (
        "late_miscounted", lambda f: f.drop("late", f.pick("late", lambda _: True))),
}  # fmt: skip


def test_without_a_fault_the_audit_is_green(quick: SparkSession, repaired: Lake) -> None:
    verdict = audited(quick, repaired)
    assert (verdict.red, verdict.warned, verdict.said) == (set(), set(), ())
    assert verdict.row["answers_compared"] > 50


@pytest.mark.parametrize("fault", FAULTS)
def test_the_audit_is_red_and_says_where_when(
    quick: SparkSession, forger: Forger, fault: str
) -> None:
    assert_red(quick, forger, *FAULTS[fault])
