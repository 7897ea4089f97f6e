"""Files that look like ones that were taken, and are not: each record is taken, or waited for."""

import json
import logging
import os
import shutil
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from penstock.core.window import micros
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.reading import SourceError
from penstock.lake.log.blocks import HISTORY
from tests.doubles import RisingClock
from tests.gates import Gate, T, finish

SECOND = 1_700_000_000


def text(*codes: int, at: str = T) -> str:
    rows = ({"event_time": at, "site": "x", "code": code} for code in codes)
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def codes(gate: Gate) -> list[int]:
    gate.conserved()
    return sorted(Counter(row["code"] for row in gate.rows("events")).elements())


def over(home: Path, files: str = "live", history: str | None = None) -> Gate:
    past = {} if history is None else {"history": {"files": str(home / history), "format": "jsonl"}}
    return Gate(home, "jsonl", source={"files": str(home / files)}, **past)


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def exchange(path: Path, content: str) -> None:
    """Another file takes its name, as editors write one."""
    write(path.with_suffix(".new"), content).rename(path)


def dealt_anew(files: list[Path]) -> None:
    """Every file is put back with its content and time, and has the number of the one before."""
    contents = [file.read_bytes() for file in files]
    away = [file.rename(file.with_name(f"_{file.name}")) for file in files]
    for at, (file, content) in enumerate(zip(files, contents, strict=True)):
        taken = away[(at + 1) % len(files)]
        taken.write_bytes(content)
        os.utime(taken.rename(file), (SECOND, SECOND))


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_link_that_leads_to_another_file_of_one_size_and_time(
    tmp_path: Path, is_folder: bool
) -> None:
    for name, code in (("r1", 1), ("r2", 2)):
        os.utime(write(tmp_path / name / "a.jsonl", text(code)), (SECOND, SECOND))
    gate, inside = over(tmp_path), "" if is_folder else "a.jsonl"
    link = tmp_path / "live" / ("today" if is_folder else "a.jsonl")
    link.parent.mkdir()
    link.symlink_to(tmp_path / "r1" / inside)
    gate.take()
    link.unlink()
    link.symlink_to(tmp_path / "r2" / inside)
    gate.take()
    assert codes(gate) == [1, 2]


def test_the_newest_file_is_taken_that_is_linked_to_a_constant_name(tmp_path: Path) -> None:
    gate, live = over(tmp_path), tmp_path / "live"
    current = live / "current.jsonl"
    for day in range(1, 5):
        file = write(live / f"day{day}.jsonl", text(10 * day, 10 * day + 1))
        os.link(file, live / "new")
        (live / "new").replace(current)
        gate.take()
        file.unlink()  # retention
    assert codes(gate) == [10, 11, 20, 21, 30, 31, 40, 41]


def test_a_changed_file_is_read_under_a_new_name(tmp_path: Path) -> None:
    gate, live = over(tmp_path), tmp_path / "live"
    write(live / "a.jsonl", text(1))
    gate.take()
    exchange(live / "a.jsonl", text(2))
    assert gate.take() == 0
    os.link(live / "a.jsonl", live / "b.jsonl")
    gate.take()
    assert codes(gate) == [1, 2]
    (live / "a.jsonl").unlink()
    gate.take()
    assert codes(gate) == [1, 2]


@pytest.mark.parametrize(("before", "after"), [("data/live", "data"), ("data", "data/live")])
def test_a_changed_file_is_not_read_again_from_a_wider_or_narrower_folder(
    tmp_path: Path, before: str, after: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path / "data" / "live" / "a.jsonl", text(1, 2))
    assert over(tmp_path, before).take() == 2
    exchange(file, text(1, 2, 3))
    assert over(tmp_path, before).take() == 0
    caplog.clear()
    gate = over(tmp_path, after)
    assert gate.take() == 0
    assert "files were changed after they were taken" in caplog.text
    assert codes(gate) == [1, 2]


def test_a_changed_file_of_a_source_is_not_read_again_as_history(tmp_path: Path) -> None:
    file = write(tmp_path / "data" / "a.jsonl", text(1, 2))
    assert over(tmp_path, "data").take() == 2
    exchange(file, text(1, 2, 3))
    (tmp_path / "live").mkdir()
    gate = over(tmp_path, history="data")
    assert gate.take(HISTORY) == 0
    assert codes(gate) == [1, 2]


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_numbers_on_the_disk_that_are_dealt_anew_lose_no_file(tmp_path: Path, taken: int) -> None:
    gate = over(tmp_path)
    files = [tmp_path / "live" / f"{name}.jsonl" for name in "abcd"]
    for code, file in enumerate(files[:taken]):
        os.utime(write(file, text(10 + code)), (SECOND, SECOND))
    assert gate.take() == taken
    for code, file in [*enumerate(files)][taken:]:
        os.utime(write(file, text(10 + code)), (SECOND, SECOND))
    dealt_anew(files)
    assert gate.take() == 4 - taken
    assert codes(gate) == [10, 11, 12, 13]


def test_a_new_file_with_the_number_size_and_time_of_one_that_was_moved(tmp_path: Path) -> None:
    gate, live = over(tmp_path), tmp_path / "live"
    first = write(live / "a.jsonl", text(1))
    os.utime(first, (SECOND, SECOND))
    gate.take()
    number = first.rename(tmp_path / "number")
    os.utime(write(first, text(1)), (SECOND, SECOND))  # put back from a backup
    gate.take()
    first.rename(live / "b.jsonl")
    number.write_text(text(2))
    os.utime(number.rename(live / "c.jsonl"), (SECOND, SECOND))
    gate.take()
    assert codes(gate) == [1, 2]


def test_a_hard_link_to_a_file_of_a_volume_that_was_copied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "live" / "x.jsonl", text(1, 2))
    assert over(tmp_path).take() == 2
    shutil.copytree(tmp_path / "live", tmp_path / "moved")
    shutil.rmtree(tmp_path / "live")
    gate = over(tmp_path, "moved")
    assert gate.take() == 0
    os.link(tmp_path / "moved" / "x.jsonl", tmp_path / "moved" / "h.jsonl")
    caplog.clear()
    assert gate.take() == 0
    assert "the size and the end of others" not in caplog.text


def test_all_names_of_a_file_that_was_put_back_and_renamed(tmp_path: Path) -> None:
    gate, live = over(tmp_path), tmp_path / "live"
    first = write(live / "y.jsonl", text(1))
    gate.take()
    shutil.copy2(first, tmp_path / "copy")
    (tmp_path / "copy").rename(first)
    os.link(first, live / "h.jsonl")
    first.rename(live / "b.jsonl")
    assert gate.take() == 0


def test_a_mended_file_of_a_moved_folder_is_retaken_by_its_present_name(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "csv", source={"files": str(tmp_path / "live")})
    gate.write("a.csv", f"{T},x,1\n")
    gate.take()
    (tmp_path / "live").rename(tmp_path / "moved")
    gate = Gate(tmp_path, "csv", source={"files": str(tmp_path / "moved")})
    write(tmp_path / "moved" / "a.csv", f"event_time,site,code\n{T},x,1\n")
    person = Amendment(gate.tables, gate.pipeline, gate.home, RisingClock())
    person.retake(str(tmp_path / "moved" / "a.csv"), "mended")
    assert gate.take() == 1
    assert codes(gate) == [1]


def test_what_was_removed_and_came_back_is_missed_again(tmp_path: Path) -> None:
    write(tmp_path / "live" / "in" / "a.jsonl", text(1))
    gate = Gate(tmp_path, "jsonl", source={"mode": "bounded"})
    door = gate.door()
    assert door.work() == 1
    away = (tmp_path / "live" / "in").rename(tmp_path / "away")
    with pytest.raises(SourceError, match="every file that was taken from there is gone"):
        door.work()
    person = Amendment(gate.tables, gate.pipeline, gate.home, RisingClock())
    person.accept(str(tmp_path / "live" / "in"), "removed")
    write(tmp_path / "live" / "b.jsonl", text(2))
    away.rename(tmp_path / "live" / "in")
    assert door.work() == 1
    shutil.rmtree(tmp_path / "live" / "in")
    with pytest.raises(SourceError, match="every file that was taken from there is gone"):
        finish(door)


HOUR = 3_600_000_000


def hours(gate: Gate, first: int, end: int) -> int:
    start = micros(datetime.fromisoformat(T))
    return gate.take(HISTORY, start + first * HOUR, start + end * HOUR)


@pytest.fixture
def preloaded(tmp_path: Path) -> Gate:
    late = (datetime.fromisoformat(T) + timedelta(hours=8)).isoformat()
    write(tmp_path / "past" / "in" / "a.jsonl", text(1) + text(2, at=late))
    (tmp_path / "live").mkdir()
    gate = over(tmp_path, history="past")
    assert hours(gate, 0, 6) == 1
    return gate


def test_an_interval_of_a_history_that_is_away_is_no_success(preloaded: Gate) -> None:
    past = preloaded.home / "past"
    shutil.move(past / "in", preloaded.home / "kept")
    with pytest.raises(SourceError, match="every file that was taken from there is gone"):
        hours(preloaded, 6, 12)
    shutil.move(preloaded.home / "kept", past / "in")
    assert hours(preloaded, 6, 12) == 1
    assert codes(preloaded) == [1, 2]


def test_that_a_file_is_gone_before_its_other_intervals_is_said(
    preloaded: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    write(preloaded.home / "past" / "in" / "b.jsonl", text(3))
    (preloaded.home / "past" / "in" / "a.jsonl").unlink()
    with caplog.at_level(logging.WARNING):
        hours(preloaded, 6, 12)
    assert "of which only some intervals were preloaded" in caplog.text
