"""The list of points is the code's, and the most telling of them, killed at in every run."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.config.pipeline import TOGETHER
from penstock.core import crash
from penstock.lake.history.checkpoint import FAILED, FAILURES, failures, note_failure
from tests.crash.life import Life
from tests.crash.matrix import Row
from tests.crash.points import LIBRARY, Reached, marks, sites, uncovered, unreached
from tests.crash.rows import OF_A_SCALING, POINTS
from tests.lakes import make_lake
from tests.rarely import rare
from tests.steps import CASES

pytestmark = pytest.mark.spark
TELLING = ["within ingest plans", "inside state", *map(rare, ("supervisor driving",
           "before done corrections"))]  # fmt: skip


def test_every_write_of_the_loop_is_guarded_by_points_that_a_life_reaches(
    lives: Callable[[int], Life],
    freezing: list[Reached],
    scaling: list[Reached],
    feeding: list[Reached],
) -> None:
    trace = lives(0).trace + freezing + scaling + feeding
    assert uncovered(sites(), trace) == []
    assert unreached(marks(), trace) == []


def test_every_point_has_a_row_of_the_matrix_and_the_other_way_round(
    lives: Callable[[int], Life],
) -> None:
    reached = {each.point for each in lives(0).trace if not each.point.startswith("# ")}
    looked = {point for point in OF_A_SCALING if "load" in point or "executors" in point}
    assert reached - looked == POINTS.keys(), "a stream that runs for long enough looks at the load"


INJECTED = {
    "lake/proof/audits.py": "\n\ndef again(table, rows):\n    table.append(rows, 'again', 1)\n",
    "spark/audit.py": "\n\ndef forge(delta, rows):\n    write_deltalake(delta, rows)\n",
    "lake/serve/show.py": "\n\ndef tidy(delta):\n    delta.vacuum(retention_hours=0)\n",
    "lake/serve/query.py": (
        "\n\ndef note(path):\n    reached('before note')\n    path.write_text('x')\n"
    ),
    "quality/lock.py": "\n\ndef swap(old, new):\n    old.replace(new)\n",
}


def test_a_new_write_without_a_point_is_caught(
    lives: Callable[[int], Life],
    freezing: list[Reached],
    scaling: list[Reached],
    feeding: list[Reached],
    tmp_path: Path,
) -> None:
    trace = lives(0).trace + freezing + scaling + feeding
    copy = tmp_path / "penstock"
    shutil.copytree(LIBRARY, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for place, text in INJECTED.items():
        with (copy / place).open("a") as file:
            file.write(text)
    found = uncovered(sites(copy), trace)
    assert sorted({where.split(":")[0] for where in found}) == sorted(INJECTED)
    assert [where.split(":")[0] for where in unreached(marks(copy), trace)] == [
        "lake/serve/query.py"
    ]


def test_a_point_is_an_empty_function_unless_a_test_arms_it() -> None:
    assert crash.TRACE is None
    assert not crash.reached.__code__.co_names
    assert crash.SYNCS is None
    assert not crash.lasts.__code__.co_names


def test_a_count_of_failures_that_was_emptied_counts_as_none(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, CASES["sites"])
    lake.query()
    folder = lake.checkpoint
    for _ in range(FAILURES):
        note_failure(lake.tables, TOGETHER)
    assert failures(str(folder), None) == FAILURES
    (folder / FAILED).write_text("")
    assert failures(str(folder), None) == 0
    note_failure(lake.tables, TOGETHER)
    assert failures(str(folder), None) == 1
    assert lake.query().generation.number == 0


@pytest.mark.parametrize("point", TELLING)
def test_killed_at_a_telling_point_a_life_ends_as_the_undisturbed_one(
    quick: SparkSession, lives: Callable[[int], Life], tmp_path: Path, point: str
) -> None:
    Row(lives(0), point, tmp_path / "row", quick).live()
