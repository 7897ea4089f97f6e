"""Joins audited: green as they are, red for every way to falsify a pair, and it says where."""

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.position import SPEED
from penstock.lake.ingest import door as door_module
from tests.asking import ASKED, Asking
from tests.forgery import Forger, Row, assert_red, audited
from tests.joins import logged, oracle_of, seen
from tests.lakes import Lake, make_lake
from tests.rarely import rare
from tests.side import taken_at_once
from tests.streams import write_jsonl

__all__ = ["taken_at_once"]
pytestmark = pytest.mark.spark
FILES = 6


@pytest.fixture(scope="module")
def repaired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Queries change while records come; late ones are corrected."""
    home, draw = tmp_path_factory.mktemp("repaired"), random.Random(5)  # noqa: S311
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door_module, "BLOCK", 7)
        patch.setattr("penstock.lake.ingest.side_files.SETTLED", timedelta())
        source = {"files": str(home / "live"), "format": "jsonl"}
        first = {"queries": {"far": "abs(left.code - right.code) > 1"}}
        lake = make_lake(home, (ASKED | first, oracle_of("far")[1]), source=source)
        asking = Asking(lake, draw)
        for number in range(FILES):
            asking.change(["far", "up"] if number < FILES // 2 else ["near", "far", "same"])
            rows = seen(draw, 15, 1.0, 6 * number)
            write_jsonl(home / "live" / f"{number}.jsonl", rows)
            lake.query()
            lake.ingest()
            lake.query(blocks=2).run()
        assert len(asking.decided()) > 1
        lake.correct()
        asking.check(settled=True)
        yield lake


@pytest.fixture
def forger(repaired: Lake, tmp_path: Path) -> Forger:
    return Forger.of_a_copy(repaired, tmp_path)


def by_pair(forger: Forger, which: Callable[[Row], Any] = lambda _: True) -> Row:
    """A timely pair that stands alone."""
    rows = [r for r in forger.rows("answers") if r["reason"] == SPEED and which(r)]
    assert rows
    return rows[len(rows) // 2]


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Forger], Row]:
    def plant(forger: Forger) -> Row:
        victim = by_pair(forger, lambda r: r[name] is not None)
        return forger.change("answers", victim, **{name: change(victim[name])})

    return plant


def corrected(forger: Forger) -> Row:
    return forger.pick("answers", lambda r: r["reason"] != SPEED and r["n_records"])


def invented(forger: Forger) -> Row:
    """Two records that are no pair."""
    rows = forger.rows("answers")
    victim = by_pair(forger)
    told = {r["right_seq"] for r in rows if r["left_seq"] == victim["left_seq"]}
    other = next(r for r in forger.rows("events") if r["arrival_seq"] < victim["left_seq"]
                 and r["arrival_seq"] not in told)  # fmt: skip
    false = victim | {"right_seq": other["arrival_seq"], "right_time": other["event_time"]}
    forger.rewrite("answers", [*rows, false])
    return false


FAULTS: dict[str, tuple[str, Callable[[Forger], Row]]] = {
    "a pair is lost": ("missing_answers", lambda f: f.drop("answers", by_pair(f))),
    "a corrected pair is lost": ("missing_answers", lambda f: f.drop("answers", corrected(f))),
    "a pair is doubled": ("doubled_answers", lambda f: f.add("answers", by_pair(f))),
    "a pair is invented": ("extra_answers", invented),
    "a tag is wrong": ("wrong_answers", changed("queries", lambda names: f"{names},up")),
    "a selected value is forged": ("wrong_answers", changed("left_code", lambda v: v + 1)),
    "an instant is off by a microsecond": (
        "wrong_answers", changed("right_time", lambda v: v - timedelta(microseconds=1))),
    "a late record is hidden": (
        "late_miscounted", lambda f: f.drop("late", f.pick("late", lambda _: True))),
}  # fmt: skip

SELDOM = {"a corrected pair is lost", "a selected value is forged",
          "an instant is off by a microsecond"}  # fmt: skip


def test_without_a_fault_the_audit_is_green(quick: SparkSession, repaired: Lake) -> None:
    verdict = audited(quick, repaired)
    assert (verdict.red, verdict.warned, verdict.said) == (set(), set(), ())
    log = logged(repaired)
    exact = Asking(repaired, random.Random(0)).true_pairs(log)  # noqa: S311
    assert verdict.row["answers_compared"] == len(exact)
    assert verdict.row["pairs_on_time"] + verdict.row["pairs_late"] == len(log.records)
    assert verdict.row["pairs_late"] > 0


@pytest.mark.parametrize("fault", [rare(f) if f in SELDOM else f for f in FAULTS])
def test_the_audit_is_red_and_says_where_when(
    quick: SparkSession, forger: Forger, fault: str
) -> None:
    assert_red(quick, forger, *FAULTS[fault])
