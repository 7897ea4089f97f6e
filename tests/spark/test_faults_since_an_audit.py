"""Faults after a green audit: in what is new at once, in what is older before the round is over."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.ingest import door as door_module
from penstock.lake.proof import scope
from tests.forgery import Forger, Row, audited, repaired_lake
from tests.lakes import Lake

pytestmark = pytest.mark.spark
HEAD, END = 289, 420
"""The last number that the green audit had seen, and how many there are."""
ROUND = 4
"""Audits after which all older ground was covered again: each takes as much as is new, or more."""
Plant = Callable[[Forger], object]


def new(row: Row) -> bool:
    """Of a record that came since, or of what it caused; old enough for closed windows."""
    seq = next(row[n] for n in ("arrival_seq", "last_seq", "through_seq") if n in row)
    return bool(HEAD < seq < END - 60)


def valued(row: Row) -> bool:
    return bool(row["delay"] and row["bags"] and row["origin"] == "live")


def in_force(forger: Forger, where: Callable[[Row], bool]) -> Row:
    """The newest answer of a window and key that fits."""
    best: dict[object, Row] = {}
    for row in sorted(forger.rows("answers"), key=lambda r: (r["through_seq"], r["revision"])):
        best[row["window_start"], row["site"]] = row
    found = [r for r in best.values() if r["total"] is not None and where(r)]
    return found[len(found) // 2]


def answer_forged(where: Callable[[Row], bool]) -> Plant:
    def plant(forger: Forger) -> object:
        row = in_force(forger, where)
        return forger.change("answers", row, total=row["total"] + 1e4)

    return plant


def last(table: str, **by: int) -> Plant:
    def plant(forger: Forger) -> object:
        row = forger.rows(table)[-1]
        return forger.change(table, row, **{name: row[name] + n for name, n in by.items()})

    return plant


def unanswered(forger: Forger) -> None:
    """The newest correction is done but left no answers."""
    rows = forger.rows("answers")
    plan = max(r["plan"] for r in rows if r["plan"] is not None)
    forger.rewrite("answers", [r for r in rows if r["plan"] != plan])


def value_of(where: Callable[[Row], bool]) -> Plant:
    def plant(forger: Forger) -> object:
        row = forger.pick("events", lambda r: valued(r) and where(r))
        return forger.change("events", row, bags=row["bags"] + 1)

    return plant


def slack_changed(forger: Forger) -> None:
    row = forger.rows("decisions")[0]
    forger.change("decisions", row, value="fixed:10000000")


NEW: dict[str, tuple[str, Plant]] = {
    "a record is lost": ("numbers_missing",
        lambda f: f.drop("events", f.pick("events", lambda r: valued(r) and new(r)))),
    "a record has another value": ("wrong_answers", value_of(new)),
    "a late row is hidden": ("late_miscounted",
        lambda f: f.drop("late", f.pick("late", new))),
    "a timely answer is lost": ("timely_miscounted", lambda f: f.drop(
        "answers", f.pick("answers", lambda r: new(r) and r["reason"] == "speed"))),
    "a corrected answer is forged": ("wrong_answers",
        answer_forged(lambda r: r["reason"] == "late" and r["through_seq"] > HEAD)),
    "the newest block is forged": ("blocks_wrong", last("blocks", accepted=1)),
    "the newest row of control is forged": ("batches_wrong", last("control", k_us=1)),
    "the open pairs are forged": ("pairs_unaccounted", last("control", pairs_open=1)),
    "a correction left no answers": ("corrections_wrong", unanswered),
    "the slack that was decided is changed": ("batches_wrong", slack_changed),
    "the start of the epoch is forged": ("generations_wrong", last("registry", t_max_us=-5)),
}  # fmt: skip
RARE = {"a record has another value", "the newest row of control is forged",
        "the open pairs are forged", "a correction left no answers",
        "a late row is hidden"}  # fmt: skip


def old(row: Row) -> bool:
    """Of what the green audit had seen, but for its first records."""
    seq = next(row[n] for n in ("arrival_seq", "last_seq", "through_seq") if n in row)
    return bool(120 < seq < HEAD)


OLD: dict[str, tuple[str, Plant]] = {
    "a record is lost": ("numbers_missing",
        lambda f: f.drop("events", f.pick("events", lambda r: valued(r) and old(r)))),
    "an answer is forged": ("wrong_answers", answer_forged(old)),
    "a late row is hidden": ("late_miscounted",
        lambda f: f.drop("late", f.pick("late", old))),
}  # fmt: skip


@pytest.fixture(scope="module")
def gone_on(quick: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake that was audited before its last records came."""

    def green(lake: Lake) -> None:
        verdict = audited(quick, lake, kept=True)
        assert (verdict.red, verdict.row["through_seq"]) == (set(), HEAD)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door_module, "BLOCK", 16)
        patch.setattr(scope, "LEAST", 80)
        yield repaired_lake(tmp_path_factory.mktemp("gone_on"), green)


@pytest.fixture
def forger(gone_on: Lake, tmp_path: Path) -> Forger:
    shutil.copytree(gone_on.home / "lake", tmp_path / "lake")
    return Forger(replace(gone_on, home=tmp_path))


def test_the_next_audit_goes_on_and_the_round_ends(quick: SparkSession, forger: Forger) -> None:
    lake, again = forger.lake, 0
    maintain_pipeline(lake.tables, lake.pipeline)
    for number in range(ROUND):
        verdict = audited(quick, lake, kept=True)
        assert (verdict.red, verdict.row["everything"]) == (set(), False)
        assert verdict.row["records_new"] == (END - 1 - HEAD if number == 0 else 0)
        assert verdict.row["received"] == END
        assert verdict.row["answers_compared"] > 0
        again += verdict.row["records_again"]
        maintain_pipeline(lake.tables, lake.pipeline)
        if again >= HEAD + 1:
            break
    assert again >= HEAD + 1


@pytest.mark.parametrize(
    "fault", [pytest.param(n, marks=[pytest.mark.all] if n in RARE else []) for n in NEW]
)
def test_a_fault_in_what_is_new_is_found_at_once(
    quick: SparkSession, forger: Forger, fault: str
) -> None:
    red, plant = NEW[fault]
    plant(forger)
    verdict = audited(quick, forger.lake, kept=True)
    assert red in verdict.red
    assert verdict.said or red == "pairs_unaccounted"
    again = audited(quick, forger.lake)
    assert red in again.red, "an audit that failed is no footing"


@pytest.mark.parametrize("fault", OLD)
def test_a_fault_in_what_is_old_is_found_before_the_round_is_over(
    quick: SparkSession, forger: Forger, fault: str
) -> None:
    red, plant = OLD[fault]
    plant(forger)
    every = audited(quick, forger.lake, everything=True)
    assert red in every.red
    found = [audited(quick, forger.lake, kept=True)]
    while not found[-1].red and len(found) < ROUND + 1:
        found.append(audited(quick, forger.lake, kept=True))
    assert found[-1].red
    assert found[-1].red <= every.red


def test_after_an_audit_of_everything_failed_the_next_is_of_everything(
    quick: SparkSession, forger: Forger
) -> None:
    answer_forged(old)(forger)
    assert audited(quick, forger.lake, everything=True, kept=True).red
    next_one = audited(quick, forger.lake)
    assert (next_one.row["everything"], next_one.red) == (True, {"wrong_answers"})
