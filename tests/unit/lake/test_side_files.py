"""Side data as its files change: taken once, adopted by a plan; what is unfit changes nothing."""

import os
import pickle
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from penstock.core.errors import ConfigError, TerminalError
from penstock.lake.ingest import side_content, side_files
from penstock.lake.ingest.reading import SourceError
from penstock.lake.log.blocks import HISTORY
from penstock.lake.log.side import REFUSED, SideReader
from penstock.lake.serve.sides import SideState, sides
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests.doubles import FixedClock
from tests.lakes import Lake, make_lake
from tests.lookups import NOBODY, seen
from tests.side import LIMITED, LOAD, LimitsFile, taken_at_once
from tests.streams import write_jsonl

__all__ = ["taken_at_once"]
CODES = [0, 1, 2]
Held = list[tuple[int, dict[tuple[int, int], int]]]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return make_lake(tmp_path, (LIMITED, NOBODY), load=LOAD)


@pytest.fixture
def file(tmp_path: Path) -> LimitsFile:
    return LimitsFile(tmp_path, CODES, random.Random(1))  # noqa: S311


def limits_of(**changes: Any) -> dict[str, Any]:
    return {"limits": LOAD["limits"] | changes}


def supply(lake: Lake, number: int, folder: str = "live") -> None:
    rows = seen(random.Random(number), 5)  # noqa: S311
    write_jsonl(lake.home / folder / f"{number}.jsonl", rows)


def arrive(lake: Lake, number: int) -> None:
    supply(lake, number)
    lake.ingest()


def held(lake: Lake) -> Held:
    (join,) = lake.step.looked_up
    reader = SideReader(lake.tables)
    seqs = np.array([first for first, _ in reader.begun(join.table)])
    rows = [(v.first, v.rows.to_pylist()) for v in reader(join.table, seqs)]
    return [(at, {(r["a"], r["b"]): r["seconds"] for r in some}) for at, some in rows]


def state(lake: Lake) -> SideState:
    (found,) = sides(lake.tables, lake.pipeline)
    return found


def refused(lake: Lake) -> list[str]:
    rows = read_table(Table(lake.tables.decisions())).to_pylist()
    rows = [row for row in rows if row["what"] == REFUSED]
    return [row["value"] for row in sorted(rows, key=lambda row: row["decided_at"])]


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
    file.path.write_text("seconds,b,a\n05,1,0\n")
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


def test_two_doors_that_see_a_change_at_once_lose_none(tmp_path: Path, file: LimitsFile) -> None:
    history = {"files": str(tmp_path / "history"), "format": "jsonl"}
    lake = make_lake(tmp_path, (LIMITED, NOBODY), load=LOAD, history=history)
    first = file.write({(0, 1): 5})
    arrive(lake, 0)
    one, other = lake.door(), lake.door()
    second = file.write({(0, 1): 6})
    assert one.work() < 0
    supply(lake, 1)
    assert other.work() == 5, "it adopts what the first has proposed"
    third = file.write({(0, 1): 7})
    other._side.look()
    supply(lake, 2, "history")
    assert one.work(HISTORY) == 5
    for number in (3, 4):
        supply(lake, number)
        assert other.work() == 5
    assert held(lake) == [(0, first), (5, second), (10, third)]


def test_a_proposal_that_another_plan_has_passed_over_is_made_again(
    lake: Lake, file: LimitsFile
) -> None:
    """One door plans with the second content while another proposes the third."""
    first = file.write({(0, 1): 5})
    arrive(lake, 0)
    second = file.write({(0, 1): 6})
    lake.door().work()
    planner, other = lake.door(), lake.door()
    found = planner._proposals

    def proposals() -> str | None:
        adopts = found()
        file.write({(0, 1): 7})
        other._side.look()
        return adopts

    planner._proposals = proposals  # type: ignore[method-assign]
    supply(lake, 1)
    assert planner.work() == 5
    for number in (2, 3):
        supply(lake, number)
        assert other.work() == 5
    assert held(lake) == [(0, first), (5, second), (10, {(0, 1): 7})]


def test_a_clock_that_steps_back_hides_no_change(lake: Lake, file: LimitsFile) -> None:
    first, now = file.write({(0, 1): 5}), lake.clock.now()
    arrive(lake, 0)
    files = [lake.door()._side for _ in range(2)]
    file.write({(0, 1): 6})
    files[0].look()
    files[1].clock = FixedClock(now - timedelta(hours=1))
    last = file.write({(0, 1): 7})
    files[1].look()
    arrive(lake, 1)
    assert held(lake) == [(0, first), (5, last)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b,seconds\n1,2,3\n1,2,4\n", "limits.csv, row 1 and {}limits.csv, row 2 both have a = 1,"
         " b = 2. Leave one of them out"),
        ("a,b\n1,2\n", "limits.csv: Column 'seconds' in include_columns does not exist"),
        ("a,b,seconds\n1,2,5\n2,2,soon\n", "limits.csv, row 2: seconds 'soon' is no long. Mend it"),
        ("a,b,seconds\n1,,5\n", "limits.csv, row 1: b is missing. Add it"),
        ("", "limits.csv: Empty CSV file"),
        ("a,b,seconds\n", "limits.csv: no row is there. Put rows there"),
        ("a,b,seconds\n1,2\n", "Expected 3 columns, got 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_noted_once_and_the_former_holds_on(
    lake: Lake, file: LimitsFile, text: str, why: str
) -> None:
    why = why.format(f"{lake.home}/")
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
    file.write(first)
    arrive(lake, 3)
    assert state(lake) == SideState("limits", 1, 0, 1, ""), "it is as it was"
    file.path.write_text(text)
    arrive(lake, 4)
    assert state(lake).refused == said
    other = file.write({(0, 1): 6})
    arrive(lake, 5)
    assert held(lake) == [(0, first), (25, other)]
    assert state(lake) == SideState("limits", 1, 25, 2, "")
    assert refused(lake) == [said, "", said, ""]


def test_a_file_that_is_away_stops_only_who_never_had_one(lake: Lake, file: LimitsFile) -> None:
    assert state(lake) == SideState("limits", None, 0, 0, "")
    with pytest.raises(SourceError, match=r"limits\.csv: FileNotFoundError"):
        arrive(lake, 0)
    first = file.write({(0, 1): 5})
    arrive(lake, 0)
    file.path.unlink()
    arrive(lake, 1)
    assert held(lake) == [(0, first)]
    assert "limits.csv: No such file or directory. Put it there" in state(lake).refused
    file.write(first)
    arrive(lake, 2)
    assert state(lake).refused == ""


def test_what_passes_is_no_word_on_the_content(
    lake: Lake, file: LimitsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = file.write({(0, 1): 5})
    arrive(lake, 0)
    second = file.write({(0, 1): 6})
    door = lake.door()
    with monkeypatch.context() as patch:

        def fails(_self: object, _paths: object) -> None:
            raise SourceError("limits.csv", OSError(5, "Input/output error"))

        patch.setattr(side_content.SidePlace, "read", fails)
        supply(lake, 1)
        assert door.work() == 5
    assert (held(lake), refused(lake)) == ([(0, first)], [])
    supply(lake, 2)
    assert door.work() == 5
    assert held(lake) == [(0, first), (10, second)]


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    load = limits_of(files="limits", format="parquet")
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


def test_a_damaged_parquet_file_is_unfit_wherever_it_is_damaged(tmp_path: Path) -> None:
    load = limits_of(files="limits.parquet", format="parquet")
    lake = make_lake(tmp_path, (LIMITED, NOBODY), load=load)
    rows = {name: np.arange(400) for name in ("a", "b", "seconds")}
    pq.write_table(pa.table(rows), tmp_path / "limits.parquet")
    whole = (tmp_path / "limits.parquet").read_bytes()
    arrive(lake, 0)
    door, draw = lake.door(), random.Random(7)  # noqa: S311
    for _ in range(60):
        bad = bytearray(whole)
        for at in draw.sample(range(4, len(bad)), 12):
            bad[at] = draw.randrange(256)
        (tmp_path / "limits.parquet").write_bytes(bad)
        door._side.look()
    assert len(refused(lake)) > 1


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_unfit(tmp_path: Path, number: float) -> None:
    columns = {"a": "long", "b": "long", "seconds": "double"}
    load = limits_of(files="limits.parquet", format="parquet", columns=columns)
    lake = make_lake(tmp_path, (LIMITED, NOBODY), load=load)
    pq.write_table(pa.table({"a": [1], "b": [2], "seconds": [number]}), tmp_path / "limits.parquet")
    with pytest.raises(ConfigError, match=r"row 1: seconds (nan|inf) is no finite double"):
        arrive(lake, 0)


def test_values_mean_what_they_mean_in_records(tmp_path: Path) -> None:
    """Text of any form stays text, and an instant without a zone is the pipeline's."""
    step = LIMITED | {
        "load": {"limits": {"site": "new.site"}},
        "columns": ["site", "code"],
        "alarm": "limits.tag = 'NA'",
    }
    columns = {"site": "string", "tag": "string", "at": "timestamp", "n": "long"}
    load = limits_of(columns=columns, keys=["site"])
    lake = make_lake(tmp_path, (step, NOBODY), load=load, zone="Europe/Berlin")
    text = "site,tag,at,n\nNA,null, 2026-01-01T00:00:00,3.00\nb,NA,2026-07-01T00:00:00Z,\n"
    (tmp_path / "limits.csv").write_text(text)
    arrive(lake, 0)
    (join,) = lake.step.looked_up
    (version,) = SideReader(lake.tables)(join.table, np.array([0]))
    rows = [{**r, "at": r["at"].isoformat()} for r in version.rows.to_pylist()]
    assert rows == [
        {"site": "NA", "tag": "null", "at": "2025-12-31T23:00:00+00:00", "n": 3},
        {"site": "b", "tag": "NA", "at": "2026-07-01T00:00:00+00:00", "n": None},
    ]


def test_a_table_that_is_not_small_is_not_read(
    lake: Lake, file: LimitsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write({(0, 1): 5})
    arrive(lake, 0)
    monkeypatch.setattr(side_content, "LARGEST", 30)
    file.write({(at, 1): 5 for at in range(9)})
    arrive(lake, 1)
    assert "limits.csv: 66 bytes are no small table (at most 30)" in state(lake).refused


def test_files_are_taken_once_nobody_writes_them_any_more(
    lake: Lake, file: LimitsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = file.write({(0, 1): 5})
    arrive(lake, 0)
    monkeypatch.setattr(side_files, "SETTLED", timedelta(seconds=2))
    files, clock = lake.door()._side, FixedClock(lake.clock.now())
    files.clock = clock
    second = {(0, 1): 6, (1, 0): 7}
    with file.path.open("w") as half:
        half.write("a,b,seconds\n0,1,6\n")
        half.flush()
        files.look()
        clock.move(timedelta(seconds=1))
        files.look()
        half.write("1,0,7\n")
    for _ in range(3):
        clock.move(timedelta(seconds=1))
        files.look()
    arrive(lake, 1)
    assert held(lake) == [(0, first), (5, second)]


def test_a_file_that_keeps_size_and_date_is_another_one_all_the_same(
    lake: Lake, file: LimitsFile
) -> None:
    first = file.write({(0, 1): 5})
    arrive(lake, 0)
    door, about = lake.door(), file.path.stat()
    supply(lake, 1)
    assert door.work() == 5
    second = file.write({(0, 1): 6})
    os.utime(file.path, ns=(about.st_atime_ns, about.st_mtime_ns))
    supply(lake, 2)
    assert door.work() == 5
    assert held(lake) == [(0, first), (10, second)]


def test_another_form_of_the_table_is_taken_anew(lake: Lake, file: LimitsFile) -> None:
    """The same file with a column more, or with its columns in another order."""
    first = file.write({(0, 1): 5})
    arrive(lake, 0)
    before = lake.step.fingerprint
    columns = dict(reversed([*LOAD["limits"]["columns"].items()]))
    same = make_lake(lake.home, (LIMITED, NOBODY), load=limits_of(columns=columns))
    assert (same.step.fingerprint, held(same)) == (before, [(0, first)])
    wider = limits_of(columns=columns | {"more": "string"})
    other = make_lake(lake.home, (LIMITED, NOBODY), load=wider)
    file.path.write_text("a,b,seconds,more\n0,1,5,x\n")
    arrive(other, 1)
    assert held(other) == [(0, first)], "the first of its form holds from the beginning"
    assert held(lake) == [(0, first)]


def test_rows_that_are_lost_are_never_taken_for_nothing(lake: Lake, file: LimitsFile) -> None:
    file.write({(0, 1): 5, (1, 0): 6})
    arrive(lake, 0)
    (join,) = lake.step.looked_up
    spec = lake.tables.side(join.table)
    some = read_table(Table(spec)).slice(0, 1)
    write_deltalake(Table(spec).refresh(), some, mode="overwrite")
    with pytest.raises(TerminalError, match="are not those that were stored"):
        held(lake)


def test_a_reader_crosses_to_another_process(lake: Lake, file: LimitsFile) -> None:
    first = file.write({(0, 1): 5})
    arrive(lake, 0)
    (join,) = lake.step.looked_up
    reader = pickle.loads(pickle.dumps(SideReader(lake.tables)))  # noqa: S301
    (version,) = reader(join.table, np.array([3]))
    assert [tuple(r.values()) for r in version.rows.to_pylist()] == [
        (*pair, seconds) for pair, seconds in first.items()
    ]


def test_no_step_no_look(tmp_path: Path) -> None:
    """A table that nobody looks anything up in need not be there."""
    step = LIMITED | {"load": {}, "alarm": "new.code <> old.code"}
    lake = make_lake(tmp_path, (step, NOBODY), load=LOAD)
    arrive(lake, 0)
    assert state(lake) == SideState("limits", None, 0, 0, "")


def test_decided_instants_rise(lake: Lake, file: LimitsFile) -> None:
    for number in range(3):
        file.write({(0, 1): number})
        arrive(lake, number)
    rows = read_table(Table(lake.tables.decisions())).to_pylist()
    when: list[datetime] = [r["decided_at"] for r in rows if r["what"] == "proposal"]
    assert len({*when}) == len(when) == 2
