"""Look-ups, joins and newest records over answers on real Spark: audits and planted faults."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.registry import Registry
from penstock.spark.correct import correct_pipeline
from tests import chains, pairs_over
from tests.chains import Over
from tests.forgery import Forger
from tests.lakes import Lake
from tests.pairs_over import CASES
from tests.rarely import rare
from tests.spark.test_chains_on_spark import answered, based, later, streamed

pytestmark = pytest.mark.spark
Row = dict[str, Any]
EACH_TIME = ("consecutive", "join")
"""Cases that every run of the tests takes through Spark; in memory it takes them all."""


@pytest.mark.parametrize("name", [n if n in EACH_TIME else rare(n) for n in CASES])
def test_streams_corrections_and_audits(name: str, quick: SparkSession, tmp_path: Path) -> None:
    case, lake = CASES[name], based(tmp_path)
    one = chains.first(lake)
    two = pairs_over.paired(case, one)
    for each in (lake, one, two):  # what comes from now on is no history
        Registry(each.tables, each.clock, each.pipeline).start_all()
    for each in (lake, one, two):
        streamed(quick, each)
    red, row = later(quick, two)
    assert red <= {"overdue_answers"}
    assert row["pending_answers"] > 0, "what the step above has late waits here, too"
    for each in (lake, one, two):
        if each is not lake:
            streamed(quick, each)
        correct_pipeline(quick, each.tables, each.pipeline, each.clock, "r")
        red, row = later(quick, each)
        assert (red, row["pending_answers"]) == (set(), 0)
    assert row["answers_compared"] > 3
    expected = case.said(pairs_over.newest_of(pairs_over.logged(two)))
    assert pairs_over.in_force(case, two) == expected
    assert pairs_over.timely(case, two) - expected, "some were taken back"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Copy it."""
    return answered(tmp_path_factory.mktemp("begun"))


def changed(rows: list[Row]) -> list[Row]:
    """The answer of the last window with another measure."""
    last = max(rows, key=lambda row: row["window_start"])["window_start"]
    return [{**row, "n": row["n"] + 1_000 * (row["window_start"] == last)} for row in rows]


def shortened(rows: list[Row]) -> list[Row]:
    """It is lost."""
    last = max(rows, key=lambda row: row["window_start"])["window_start"]
    return [row for row in rows if row["window_start"] != last]


def invented(rows: list[Row]) -> list[Row]:
    """One more."""
    return [*rows, {**rows[-1], rows_seq(rows): rows[-1][rows_seq(rows)] + 1}]


def rows_seq(rows: list[Row]) -> str:
    """The column that says which record the second one of a pair is."""
    return "old_seq" if "old_seq" in rows[0] else "right_seq"


@pytest.mark.parametrize(
    ("name", "where", "fault"),
    [
        ("consecutive", "above", changed), rare("join", "above", changed),
        rare("consecutive", "above", shortened), ("join", "above", shortened),
        rare("consecutive", "own", shortened), ("join", "own", shortened),
        ("consecutive", "own", invented), rare("join", "own", invented),
    ],
)  # fmt: skip
def test_planted_faults_are_red(
    name: str, where: str, fault: Callable[[list[Row]], list[Row]], begun: Lake,
    quick: SparkSession, tmp_path: Path,
) -> None:  # fmt: skip
    one = exact_over(begun, name, tmp_path, fault if where == "above" else None)
    if where == "own":
        assert later(quick, one)[0] == set()
        forger = Forger(one)  # type: ignore[arg-type]  it has what a lake of one step has
        forger.rewrite("answers", fault(forger.rows("answers")))
    assert later(quick, one)[0] & {"missing_answers", "extra_answers", "wrong_answers"}


def exact_over(begun: Lake, name: str, home: Path, fault: Any) -> Over:
    """A step over a copy of that lake, answered and corrected; its answers may be forged first."""
    forger = Forger.of_a_copy(begun, home)
    if fault is not None:
        forger.rewrite("answers", fault(forger.rows("answers")))
    one = pairs_over.paired(CASES[name], forger.lake)
    one.feed().catch_up()
    one.query().run()
    one.correct()
    return one
