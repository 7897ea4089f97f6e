"""What maintenance merged is audited as the answers are."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.lake.history.merging import Noted, due_of, write
from penstock.lake.history.reads import READ, note
from penstock.lake.ingest import door as door_module
from tests.forgery import Forger, Row, at_window, audited, repaired_lake
from tests.lakes import Lake
from tests.rarely import rare

pytestmark = pytest.mark.spark


def merged(lake: Lake) -> None:
    note(lake.tables.merges(), lake.step, READ, 1, 1.0)
    due = due_of(lake.tables, lake.step, Noted.of(lake.tables, lake.step))
    assert due is not None
    assert write(lake.tables, lake.step, due)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Merged before the last records, and some answers came after."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door_module, "BLOCK", 16)
        return repaired_lake(tmp_path_factory.mktemp("scene"), merged)


@pytest.fixture
def forger(scene: Lake, tmp_path: Path) -> Forger:
    shutil.copytree(scene.home, tmp_path / "home")
    lake = Lake(tmp_path / "home", scene.pipeline, scene.oracle, scene.config)
    found = Forger(lake)
    found.specs["merged"] = lake.tables.merged(lake.step)
    return found


def test_what_is_merged_is_no_false_alarm(quick: SparkSession, forger: Forger) -> None:
    first = audited(quick, forger.lake, kept=True)
    assert (first.red, first.said) == (set(), ())
    merged(forger.lake)
    for everything in (False, True):
        found = audited(quick, forger.lake, everything=everything)
        assert (found.red, found.said) == (set(), ())


def other(forger: Forger, row: Row) -> None:
    forger.change("merged", row, n=row["n"] + 1)


def lost(forger: Forger, row: Row) -> None:
    forger.drop("merged", row)


def doubled(forger: Forger, row: Row) -> None:
    forger.add("merged", row)


def revised(forger: Forger, row: Row) -> None:
    forger.change("merged", row, through_seq=row["through_seq"] - 1)


@pytest.mark.parametrize(
    "fault",
    [other, lost, *(rare(each) for each in (doubled, revised))],
)
def test_a_copy_that_says_something_else_is_red(
    quick: SparkSession, forger: Forger, fault: Callable[[Forger, Row], None]
) -> None:
    row = forger.pick("merged", lambda row: row["revision"] > 0)
    fault(forger, row)
    found = audited(quick, forger.lake)
    assert found.red == {"merged_wrong"}
    assert found.row["merged_wrong"] == 1
    (said,) = found.said
    assert at_window(row) in said
    assert "merged answer" in said
