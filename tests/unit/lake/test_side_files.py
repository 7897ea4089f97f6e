"""Side data as its files change: taken once, adopted by a plan; what is unfit changes nothing."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import ConfigError, TransientError
from penstock.lake.log.side import REFUSED, SideReader
from penstock.lake.serve.sides import SideState, sides
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests.lakes import Lake, make_lake
from tests.lookups import NOBODY, seen
from tests.side import LIMITED, LOAD, LimitsFile
from tests.streams import write_jsonl

CODES = [0, 1, 2]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return make_lake(tmp_path, (LIMITED, NOBODY), load=LOAD)


@pytest.fixture
def file(tmp_path: Path) -> LimitsFile:
    return LimitsFile(tmp_path, CODES, random.Random(1))  # noqa: S311


def arrive(lake: Lake, number: int) -> None:
    rows = seen(random.Random(number), 5)  # noqa: S311
    write_jsonl(lake.home / "live" / f"{number}.jsonl", rows)
    lake.ingest()


def held(lake: Lake) -> list[tuple[int, dict[tuple[int, int], int]]]:
    (join,) = lake.step.looked_up
    versions = SideReader(lake.tables)(join.table)
    rows = [(v.first, v.rows.to_pylist()) for v in versions]
    return [(at, {(r["a"], r["b"]): r["seconds"] for r in some}) for at, some in rows]


def state(lake: Lake) -> SideState:
    (found,) = sides(lake.tables, lake.pipeline)
    return found


def refused(lake: Lake) -> list[str]:
    rows = read_table(Table(lake.tables.decisions())).to_pylist()
    return [row["value"] for row in rows if row["what"] == REFUSED]


def test_a_changed_file_holds_from_the_next_plan_on(lake: Lake, file: LimitsFile) -> None:
    first = file.write({(0, 1): 5})
    arrive(lake, 0)
    arrive(lake, 1)
    assert held(lake) == [(0, first)]
    second = file.write({(0, 1): 6, (1, 0): 7})
    lake.ingest()  # nothing came: no plan adopts it
    assert held(lake) == [(0, first)]
    arrive(lake, 2)
    assert held(lake) == [(0, first), (10, second)]
    file.write(first)
    arrive(lake, 3)
    assert held(lake) == [(0, first), (10, second), (15, first)]
    file.path.touch()
    arrive(lake, 4)
    assert len(held(lake)) == 3, "the same content is no other version"


def test_several_changes_between_two_plans_are_one(lake: Lake, file: LimitsFile) -> None:
    first = file.write({(0, 1): 5})
    arrive(lake, 0)
    file.write({(0, 1): 6})
    lake.ingest()
    last = file.write({(0, 1): 7})
    arrive(lake, 1)
    assert held(lake) == [(0, first), (5, last)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b,seconds\n1,2,3\n1,2,4\n", "two rows have a = 1, b = 2. Leave one of them out"),
        ("a,b\n1,2\n", "limits.csv: Column 'seconds' in include_columns does not exist"),
        ("a,b,seconds\n1,2,soon\n", "invalid value 'soon'"),
        ("", "limits.csv: Empty CSV file"),
        ("a,b,seconds\n1,2\n", "Expected 3 columns, got 2"),
    ],
)
def test_what_cannot_be_used_is_noted_once_and_the_former_holds_on(
    lake: Lake, file: LimitsFile, text: str, why: str
) -> None:
    file.path.write_text(text)
    with pytest.raises(ConfigError, match=r"^load\.limits: ") as wrong:
        arrive(lake, 0)
    assert why in str(wrong.value)
    first = file.write({(0, 1): 5})
    arrive(lake, 0)
    for number in (1, 2):
        file.path.write_text(text)
        arrive(lake, number)
    assert held(lake) == [(0, first)]
    (said,) = refused(lake)
    assert why in said
    assert state(lake) == SideState("limits", 1, 0, 1, said)
    other = file.write({(0, 1): 6})
    arrive(lake, 3)
    assert held(lake) == [(0, first), (15, other)]
    assert state(lake) == SideState("limits", 1, 15, 2, "")


def test_a_file_that_is_away_stops_only_who_never_had_one(lake: Lake, file: LimitsFile) -> None:
    assert state(lake) == SideState("limits", None, 0, 0, "")
    with pytest.raises(TransientError, match=r"load\.limits: .*limits\.csv: No such file"):
        arrive(lake, 0)
    first = file.write({(0, 1): 5})
    arrive(lake, 0)
    file.path.unlink()
    arrive(lake, 1)
    assert held(lake) == [(0, first)]


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    load = {"limits": LOAD["limits"] | {"files": "limits", "format": "parquet"}}
    lake = make_lake(tmp_path, (LIMITED, NOBODY), load=load)
    folder = tmp_path / "limits"
    folder.mkdir()
    with pytest.raises(ConfigError, match=r"no \.parquet file is there"):
        arrive(lake, 0)
    for name, at in (("one", 0), ("two", 1)):
        rows = {"seconds": pa.array([at], pa.int32()), "b": [at], "more": ["x"], "a": [2]}
        pq.write_table(pa.table(rows), folder / f"{name}.parquet")
    (folder / "_SUCCESS").touch()
    arrive(lake, 0)
    assert held(lake) == [(0, {(2, 0): 0, (2, 1): 1})]
    pq.write_table(pa.table({"a": [1], "b": [1]}), folder / "three.parquet")
    arrive(lake, 1)
    (said,) = refused(lake)
    assert "three.parquet: no column seconds" in said
