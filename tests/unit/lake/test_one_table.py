"""A Delta source that is put back, copied, renamed, converted or exchanged: once, or said."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, convert_to_deltalake, write_deltalake
from deltalake.exceptions import DeltaError

from penstock.core.errors import ConfigError
from penstock.lake.ingest import delta_feed, source
from penstock.lake.ingest.ahead import ClockError
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.delta_log import DeltaSourceError
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import HISTORY, LIVE
from tests.doubles import RisingClock
from tests.gates import Gate, T

AT = datetime.fromisoformat(T)


def rows(first: int, end: int, **more: Any) -> pa.Table:
    count = end - first
    columns = {"event_time": [AT] * count, "site": ["x"] * count, "code": [*range(first, end)]}
    return pa.table(columns | {name: [value] * count for name, value in more.items()})


def append(place: Path, first: int, end: int, **options: Any) -> None:
    write_deltalake(str(place), rows(first, end), mode="append", **options)


def over(
    home: Path, *, history: str | None = None, live: str = "table", skip: tuple[int, ...] = ()
) -> Gate:
    past = {} if history is None else {"history": {"delta": str(home / history)}}
    source = {"delta": str(home / live), "files": None, "skip": skip}
    return Gate(home, "parquet", source=source, **past)


def codes(gate: Gate) -> Counter[int]:
    gate.conserved()
    return Counter(row["code"] for row in gate.rows("events"))


def once(*spans: tuple[int, int]) -> Counter[int]:
    return Counter(k for first, end in spans for k in range(first, end))


def person(gate: Gate) -> Amendment:
    return Amendment(gate.tables, gate.pipeline, gate.home, RisingClock())


def planned(gate: Gate) -> Door:
    door = gate.door()
    door._catch_up()
    assert door._plan(LIVE, None, None) is not None
    return door


@pytest.fixture
def table(tmp_path: Path) -> Path:
    append(tmp_path / "table", 0, 10)
    return tmp_path / "table"


def the_same(home: Path) -> Gate:
    return over(home, live="history")


def a_copy(home: Path) -> Gate:
    shutil.copytree(home / "history", home / "copy")
    return over(home, history="history", live="copy")


def exchanged(home: Path) -> Gate:
    append(home / "table", 50, 60)
    return over(home, history="table", live="history")


@pytest.mark.parametrize("change", [the_same, a_copy, exchanged])
def test_a_table_that_the_other_source_has_taken_is_refused(
    tmp_path: Path, change: Callable[[Path], Gate]
) -> None:
    append(tmp_path / "history", 0, 10)
    append(tmp_path / "table", 20, 25)
    gate = over(tmp_path, history="history")
    assert gate.take(HISTORY) == 10
    gate = change(tmp_path)
    with pytest.raises(DeltaSourceError, match=r"other source has taken|another table lies here"):
        gate.take()
    assert codes(gate) == once((0, 10))


def test_files_of_a_table_are_known_in_a_folder_of_files(tmp_path: Path, table: Path) -> None:
    gate = Gate(tmp_path, "parquet", history={"delta": str(table)})
    assert gate.take(HISTORY) == 10
    (tmp_path / "live").mkdir()
    for file in table.glob("*.parquet"):
        os.link(file, tmp_path / "live" / "linked.parquet")
    assert gate.take() == 0


@pytest.mark.parametrize("renamed", [False, True])
def test_a_folder_that_became_a_table_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renamed: bool
) -> None:
    monkeypatch.setattr(source, "RECORDS_PER_PLAN", 8)
    live = tmp_path / "live"
    live.mkdir()
    gate = Gate(tmp_path, "parquet")
    for number, name in enumerate("ab"):
        pq.write_table(rows(20 * number, 20 * number + 20), live / f"{name}.parquet")
    assert gate.door().work() == 8
    place = live.rename(tmp_path / "moved") if renamed else live
    pq.write_table(rows(100, 105), place / "c.parquet")
    convert_to_deltalake(str(place))
    gate = over(tmp_path, live=place.name)
    gate.take()
    assert codes(gate) == once((0, 40), (100, 105))


def test_a_new_table_is_not_taken_for_one_of_a_former_version(tmp_path: Path, table: Path) -> None:
    (tmp_path / "live").mkdir()
    gate = Gate(tmp_path, "parquet")
    pq.write_table(rows(900, 905), tmp_path / "live" / "a.parquet")
    assert gate.take() == 5
    DeltaTable(str(table)).delete("code = 3")
    gate = over(tmp_path)
    gate.take()
    assert codes(gate) == once((0, 3), (4, 10), (900, 905))


def test_a_table_put_back_and_written_otherwise_stops_a_running_door(
    tmp_path: Path, table: Path
) -> None:
    gate = over(tmp_path)
    door = gate.door()
    shutil.copytree(table, tmp_path / "backup")
    append(table, 10, 20)
    DeltaTable(str(table)).optimize.compact()
    run_through(door, LIVE, None, None)
    shutil.rmtree(table)
    (tmp_path / "backup").rename(table)
    append(table, 20, 30)
    DeltaTable(str(table)).optimize.compact()
    append(table, 30, 40)
    with pytest.raises(DeltaSourceError, match="not what it was when it was read"):
        run_through(door, LIVE, None, None)


def test_a_commit_that_is_completed_after_the_next_one_came_is_taken_whole(
    tmp_path: Path, table: Path
) -> None:
    gate = over(tmp_path)
    door = gate.door()
    run_through(door, LIVE, None, None)
    two = rows(10, 20).append_column("day", pa.array(["a"] * 5 + ["b"] * 5))
    write_deltalake(str(tmp_path / "other"), two, partition_by=["day"])
    other = tmp_path / "other"
    for folder in ("day=a", "day=b"):
        shutil.copytree(other / folder, table / folder)
    commit = (other / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    adds = [line for line in commit if '"add"' in line]
    assert len(adds) == 2
    log = table / "_delta_log"
    (log / f"{1:020d}.json").write_text(f"{adds[0]}\n")
    append(table, 30, 35)
    run_through(door, LIVE, None, None)
    (log / f"{1:020d}.json").write_text("\n".join([*adds, ""]))
    run_through(door, LIVE, None, None)
    assert codes(gate) == once((0, 20), (30, 35))


def test_a_data_file_that_is_still_copied_is_waited_for(tmp_path: Path, table: Path) -> None:
    gate = over(tmp_path)
    [file] = table.glob("*.parquet")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    for _ in range(2):
        with pytest.raises(SourceError, match="is it copied now"):
            gate.take()
    file.write_bytes(whole)
    gate.take()
    assert codes(gate) == once((0, 10))


def test_a_data_file_that_can_be_read_is_not_given_up(tmp_path: Path, table: Path) -> None:
    gate = over(tmp_path)
    planned(gate)
    [file] = table.glob("*.parquet")
    with pytest.raises(ConfigError, match="can be read"):
        person(gate).give_up(file.name, "")
    gate.take()
    assert codes(gate) == once((0, 10))


def test_a_date_of_any_year_keeps_no_table_from_its_start(tmp_path: Path) -> None:
    days = pa.array([3_000_000, -800_000], pa.int32()).cast(pa.date32())
    write_deltalake(str(tmp_path / "table"), rows(0, 2).append_column("born", days))
    gate = over(tmp_path)
    assert gate.take() == 2
    assert codes(gate) == once((0, 2))


def test_a_partition_s_value_is_one_text_in_a_snapshot_and_a_commit(tmp_path: Path) -> None:
    for number, value in enumerate((1e-07, 1e22, -0.0)):
        for more in (0, 1):
            table = rows(10 * number + more, 10 * number + more + 1, site=str(value))
            table = table.append_column("part", pa.array([value]))
            write_deltalake(str(tmp_path / "table"), table, mode="append", partition_by=["part"])
            if more == 0 and number == 0:
                gate = Gate(
                    tmp_path, "parquet", source={"delta": str(tmp_path / "table"), "files": None},
                    columns={"site": "string", "code": "long", "delay": "double", "bags": "long",
                             "live": "boolean", "part": "string"},
                )  # fmt: skip
                gate.take()
    gate.take()
    found: dict[int, set[str]] = {}
    for row in gate.rows("events"):
        found.setdefault(row["code"] // 10, set()).add(row["part"])
    assert {len(texts) for texts in found.values()} == {1}


def test_instants_in_a_partition_are_looked_at_before_they_count_as_ahead(tmp_path: Path) -> None:
    ahead = str(date.fromordinal((AT + timedelta(days=900)).toordinal()))
    table = rows(0, 5).drop_columns(["event_time"])
    table = table.append_column("day", pa.array([f"{ahead}T00:00:00Z"] * 5))
    write_deltalake(str(tmp_path / "table"), table, partition_by=["day"])
    gate = Gate(tmp_path, "parquet", source={"delta": str(tmp_path / "table"), "files": None},
                event_time="day")  # fmt: skip
    with pytest.raises(ClockError):
        gate.take()


def test_skip_holds_for_a_first_snapshot(tmp_path: Path, table: Path) -> None:
    append(table, 10, 15)
    append(table, 15, 20)
    gate = over(tmp_path, skip=(1,))
    assert gate.take() == 15
    assert codes(gate) == once((0, 10), (15, 20))


def test_the_rest_of_a_version_can_be_skipped(tmp_path: Path) -> None:
    place = tmp_path / "table"
    write_deltalake(str(place), rows(0, 5, day="a"), partition_by=["day"])
    gate = over(tmp_path)
    assert gate.take() == 5
    ahead = rows(9, 12, day="b").set_column(0, "event_time", [[AT + timedelta(days=9)] * 3])
    write_deltalake(str(place), pa.concat_tables([rows(5, 9, day="a"), ahead]), mode="append")
    commit = place / "_delta_log" / f"{1:020d}.json"
    lines = commit.read_text().splitlines()
    commit.write_text("\n".join(sorted(lines, key=lambda line: "day=b" in line)))
    with pytest.raises(ClockError, match=r"skip: \[1\]"):
        gate.take()
    gate = over(tmp_path, skip=(1,))
    assert gate.take() == 0
    write_deltalake(str(place), rows(20, 25, day="a"), mode="append")
    assert gate.take() == 5
    assert codes(gate) == once((0, 9), (20, 25))


def test_a_table_elsewhere_with_names_of_files_that_were_taken_is_new(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    pq.write_table(rows(0, 5), tmp_path / "live" / "2024-01.parquet")
    assert Gate(tmp_path, "parquet").take() == 5
    (tmp_path / "table").mkdir()
    for month in (1, 2, 3):
        path = tmp_path / "table" / f"2024-0{month}.parquet"
        pq.write_table(rows(100 * month, 100 * month + 5), path)
    convert_to_deltalake(str(tmp_path / "table"))
    gate = over(tmp_path)
    assert gate.take() == 15
    assert codes(gate) == once((0, 5), (100, 105), (200, 205), (300, 305))


def test_a_folder_elsewhere_with_names_of_a_tables_files_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    pq.write_table(rows(0, 5), tmp_path / "table" / "a.parquet")
    convert_to_deltalake(str(tmp_path / "table"))
    assert over(tmp_path).take() == 5
    (tmp_path / "live").mkdir()
    pq.write_table(rows(100, 107), tmp_path / "live" / "a.parquet")
    gate = Gate(tmp_path, "parquet")
    with pytest.raises(SourceError, match="the source was another folder"):
        gate.take()
    person(gate).retake(str(tmp_path / "live"), "they are others")
    assert gate.take() == 7


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_folder_that_the_other_source_took_is_refused_as_a_table(
    tmp_path: Path, is_compacted: bool
) -> None:
    (tmp_path / "past").mkdir()
    (tmp_path / "live").mkdir()
    for number in range(3):
        pq.write_table(rows(5 * number, 5 * number + 5), tmp_path / "past" / f"{number}.parquet")
    past = {"files": str(tmp_path / "past"), "format": "parquet"}
    gate = Gate(tmp_path, "parquet", history=past)
    assert gate.take(HISTORY) == 15
    convert_to_deltalake(str(tmp_path / "past"))
    if is_compacted:
        DeltaTable(str(tmp_path / "past")).optimize.compact()
    gate = over(tmp_path, live="past")
    with pytest.raises(DeltaSourceError, match="taken already by the pipeline's other source"):
        gate.take()
    assert codes(gate) == once((0, 15))


def test_numbers_on_the_disk_say_nothing_of_two_files_of_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "table"
    for number in range(4):
        append(place, 100 + 5 * number, 105 + 5 * number)
    files = sorted(place.glob("*.parquet"), key=lambda p: pq.read_table(p)["code"][0].as_py())
    for file in files:
        os.utime(file, (0, 0))
    monkeypatch.setattr(source, "FILES_PER_PLAN", 1)
    gate = over(tmp_path)
    assert gate.door().work() == 5
    assert len({file.stat().st_size for file in files}) == 1
    contents = [file.read_bytes() for file in files]
    away = [file.rename(place / f"_{at}") for at, file in enumerate(files)]
    for at, (file, content) in enumerate(zip(files, contents, strict=True)):
        away[(at + 1) % 4].write_bytes(content)
        os.utime(away[(at + 1) % 4].rename(file), (0, 0))
    monkeypatch.setattr(source, "FILES_PER_PLAN", 256)
    gate.take()
    assert codes(gate) == once((100, 120))


def test_an_old_version_that_cannot_be_opened_now_is_waited_for(
    tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(table, 10, 15)
    monkeypatch.setattr(source, "FILES_PER_PLAN", 1)
    gate = over(tmp_path)
    assert gate.door().work() in {5, 10}
    append(table, 15, 17)
    for error in (OSError(5, "Input/output error"), DeltaError("Generic error: timed out")):
        with monkeypatch.context() as failing:
            failing.setattr(delta_feed, "DeltaTable", raising(error))
            with pytest.raises(SourceError, match=r"Input/output error|timed out"):
                gate.take()
    gate.take()
    assert codes(gate) == once((0, 17))


def raising(error: Exception) -> Callable[..., DeltaTable]:
    def opened(*_: Any, **__: Any) -> DeltaTable:
        raise error

    return opened


def test_deletion_vectors_that_only_the_protocol_allows_are_none(
    tmp_path: Path, table: Path
) -> None:
    log = table / "_delta_log"
    first = (log / f"{0:020d}.json").read_text().splitlines()
    metadata = next(json.loads(line) for line in first if "metaData" in line)
    metadata["metaData"]["configuration"] = {"delta.enableDeletionVectors": "true"}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | features}
    (log / f"{1:020d}.json").write_text("\n".join(map(json.dumps, (protocol, metadata))))
    append(table, 10, 15)
    DeltaTable(str(table)).create_checkpoint()
    for version in (0, 1):
        (log / f"{version:020d}.json").unlink()
    gate = over(tmp_path)
    assert gate.take() == 15
    assert codes(gate) == once((0, 15))
