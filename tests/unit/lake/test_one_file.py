"""One file under many names, many files under one: each record is taken once, or waited for."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import ConfigError
from penstock.lake.ingest import source, whereabouts
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.reading import SourceError, SourceFile
from penstock.lake.log.blocks import HISTORY, LIVE
from penstock.lake.proof.recount import unreadable_files
from penstock.lake.proof.unsettled import changed_files
from tests.doubles import RisingClock
from tests.gates import Gate, T


def text(first: int, end: int) -> str:
    rows = ({"event_time": T, "site": "x", "code": k} for k in range(first, end))
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def person(gate: Gate) -> Amendment:
    return Amendment(gate.tables, gate.pipeline, gate.home, RisingClock())


def codes(gate: Gate) -> Counter[int]:
    gate.conserved()
    return Counter(row["code"] for row in gate.rows("events"))


def once(*spans: tuple[int, int]) -> Counter[int]:
    return Counter(k for first, end in spans for k in range(first, end))


class Place:
    """A source of JSON lines, and its files."""

    def __init__(self, home: Path, **config: Any) -> None:
        self.gate = Gate(home, "jsonl", source={"mode": "bounded"}, **config)
        self.live = home / "live"
        self.write("z", 900, 905)

    def __getitem__(self, name: str) -> Path:
        return self.live / f"{name}.jsonl"

    def write(self, name: str, first: int, end: int) -> None:
        self.gate.write(f"{name}.jsonl", text(first, end))

    def move(self, name: str, new: str) -> None:
        self[name].rename(self[new])

    def plan(self) -> Door:
        door = self.gate.door()
        door._catch_up()
        assert door._plan(LIVE, None, None) is not None
        return door

    def take(self) -> Counter[int]:
        self.gate.take()
        return codes(self.gate) - once((900, 905))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def as_it_is(place: Place) -> None:
    place.write("a", 50, 55)
    place.plan()
    place.write("a", 0, 10)
    person(place.gate).retake("a.jsonl", "")


def replaced_as_it_is(place: Place) -> None:
    place.plan()
    place.write("b", 0, 10)
    place.move("b", "a")
    person(place.gate).retake("a.jsonl", "")


def accepted(place: Place) -> None:
    place.write("a", 0, 10)
    place.gate.take()
    os.utime(place["a"], ns=(0, 10**18))
    person(place.gate).accept("a.jsonl", "")


def touched(place: Place) -> None:
    place.write("a", 0, 10)
    place.gate.take()
    os.utime(place["a"], ns=(0, 10**18))


def appended(place: Place) -> None:
    place.write("a", 0, 10)
    place.gate.take()
    place["a"].write_text(text(0, 12))


def grown_before_it_is_read(place: Place) -> None:
    place.write("a", 0, 10)
    place.plan()
    place["a"].write_text(text(0, 12))


@pytest.mark.parametrize("before", [
    as_it_is, replaced_as_it_is, accepted, touched, appended, grown_before_it_is_read,
])  # fmt: skip
def test_a_file_that_changed_before_it_was_renamed_is_not_taken_again(
    place: Place, caplog: pytest.LogCaptureFixture, before: Callable[[Place], None]
) -> None:
    place.write("a", 0, 5)
    before(place)
    place.gate.take()
    assert place.take() == once((0, 10))
    place.move("a", "b")
    assert place.take() == once((0, 10))
    grew = before in {appended, grown_before_it_is_read}
    said = "changed after they were taken" if grew else "taken already under another name"
    assert said in caplog.text


def test_a_file_that_grew_and_was_renamed_is_named_by_the_audit_until_a_person_has_seen_it(
    place: Place,
) -> None:
    place.write("a", 0, 10)
    place.take()
    place["a"].write_text(text(0, 12))
    place.move("a", "b")
    gate = place.gate

    def changed() -> list[str]:
        faults = changed_files(gate.tables, gate.pipeline, gate.home)
        return [Path(fault.place["file"]).name for fault in faults]

    assert changed() == ["b.jsonl"], "the lines behind are not read, and that is said"
    person(gate).accept("b.jsonl", "known")
    assert changed() == []
    assert place.take() == once((0, 10))


def test_a_header_alone_says_nothing_of_who_comes_next_under_its_number(tmp_path: Path) -> None:
    """A new file often gets the number of one that was removed."""
    gate = Gate(tmp_path, "csv")
    head = "event_time,site,code\n"
    gate.write("a.csv", head)
    assert gate.take() == 0
    (tmp_path / "live" / "a.csv").rename(tmp_path / "live" / "b.csv")
    gate.write("b.csv", head + f"{T},x,1\n")
    assert gate.take() == 1


@pytest.fixture
def parted(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Of 20 records in a the first were taken, in a plan of their own; z is taken."""
    place["z"].unlink()
    monkeypatch.setattr(source, "BYTES_PER_PLAN", 400)
    place.write("a", 0, 20)
    assert 0 < place.gate.door().work() < 10
    place.write("z", 900, 905)
    return place


def test_the_rest_is_that_file_s_under_whatever_names(parted: Place) -> None:
    parted.move("a", "b")
    assert parted.gate.door().work() > 0
    parted.move("b", "c")
    assert parted.take() == once((0, 20))
    parted["c"].unlink()
    door = parted.gate.door()
    door.work()
    assert door.ended, "all of it was taken"


def test_the_rest_of_a_file_that_was_renamed_and_grew_is_its_rest(parted: Place) -> None:
    parted.move("a", "b")
    assert parted.gate.door().work() > 0
    parted["b"].write_text(text(0, 25))
    taken = parted.take()
    assert taken == once((0, 25)) or taken == once((0, 20))


@pytest.mark.parametrize("goes_on", [True, False])
def test_the_rest_of_a_file_that_was_renamed_and_touched_is_taken_once(
    parted: Place, goes_on: bool
) -> None:
    parted.move("a", "b")
    assert not goes_on or parted.gate.door().work() > 0
    os.utime(parted["b"], ns=(0, 10**18))
    with pytest.raises(SourceError, match="penstock accept"):
        parted.take()
    person(parted.gate).accept("b.jsonl", "only touched")
    assert parted.take() == once((0, 20))


def test_a_file_of_which_a_part_was_taken_over_a_name_that_was_taken(parted: Place) -> None:
    parted.move("a", "z0")
    parted["z"].unlink()
    parted.write("z", 800, 802)
    while parted.gate.door().work() >= 0:
        pass
    assert codes(parted.gate) == once((0, 20), (800, 802))


def test_a_part_of_one_and_the_whole_of_another_do_not_make_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BYTES_PER_PLAN", 400)
    assert place.take() == once()
    place.write("a", 0, 20)
    assert 0 < place.gate.door().work() < 10
    place.move("a", "z")
    assert place.take() == once((0, 20)), "z was taken as a whole, but that was another file"


def test_two_files_that_change_names_between_their_parts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place["z"].unlink()
    monkeypatch.setattr(source, "BYTES_PER_PLAN", 400)
    monkeypatch.setattr(source, "FILES_PER_PLAN", 1)
    place.write("a", 0, 20)
    place.write("b", 100, 130)
    door = place.gate.door()
    first = door.work()
    assert 0 < first < 10
    place.move("a", "c")
    place.move("b", "a")
    place.move("c", "b")
    assert place.take() == once((0, 20), (100, 130))


def test_a_new_file_under_the_name_of_one_that_was_renamed_is_new_and_said(
    parted: Place, caplog: pytest.LogCaptureFixture
) -> None:
    parted.move("a", "b")
    assert parted.take() == once((0, 20))
    parted.write("a", 300, 340)
    assert parted.take() == once((0, 20), (300, 340)), "as where logs are rotated"
    assert "under names of others that were taken and renamed" in caplog.text


def test_what_may_be_a_copy_under_another_name_is_taken_and_said(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.write("a", 0, 20)
    assert place.take() == once((0, 20))
    assert "the size and the end of others that were taken" not in caplog.text
    shutil.copyfile(place["a"], place["b"])
    assert place.take() == once((0, 20), (0, 20)), "two equal files may both be meant"
    assert "the size and the end of others that were taken" in caplog.text
    assert "first=b.jsonl" in caplog.text


def test_planned_files_of_one_size_and_time_that_change_names(place: Place) -> None:
    place["z"].unlink()
    for number, name in enumerate("abc"):
        place.write(name, 100 + number, 101 + number)
        os.utime(place[name], ns=(0, 10**18))
    place.plan()
    for name, new in (("c", "d"), ("b", "c"), ("a", "b")):
        place.move(name, new)
    assert place.take() == once((100, 103))


def test_another_file_of_one_size_and_time_under_the_old_name_is_new(place: Place) -> None:
    place.write("a", 10, 11)
    os.utime(place["a"], ns=(0, 10**18))
    place.plan()
    place.move("a", "c")
    place.write("a", 20, 21)
    os.utime(place["a"], ns=(0, 10**18))
    assert place.take() == once((10, 11), (20, 21))


def test_an_outside_file_that_both_sources_lead_to_is_one_though_it_was_touched(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path, history={"files": "past", "format": "jsonl"})
    (tmp_path / "out.jsonl").write_text(text(0, 10))
    for folder in ("live", "past"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "o.jsonl").symlink_to("../out.jsonl")
    place.gate.take(HISTORY)
    os.utime(tmp_path / "out.jsonl", ns=(0, 10**18))
    assert place.take() == once((0, 10))


def test_a_file_is_taken_again_by_its_own_name_only(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "csv")
    gate.write("a.csv", f"event_time,site,code\n{T},x,1\n")
    gate.write("sub/a.csv", f"{T},x,2\n")
    assert gate.take() == 2
    for name in ("live/a.csv", str(tmp_path / "live" / "a.csv")):
        with pytest.raises(ConfigError, match="records of it were taken already"):
            person(gate).retake(name, "")
    assert len(unreadable_files(gate.tables, 9)) == 1
    assert codes(gate) == Counter([1])
    gate.write("sub/a.csv", f"event_time,site,code\n{T},x,2\n")
    person(gate).retake("sub/a.csv", "it has its header")
    gate.take()
    assert codes(gate) == Counter([1, 2])


def test_of_a_file_that_was_given_up_a_hard_link_is_new(place: Place) -> None:
    place.write("a", 0, 10)
    place.plan()
    place.move("a", "a.txt")
    away = place["a.txt"].rename(place.live.parent / "away")
    person(place.gate).give_up("a.jsonl", "")
    place.gate.take()
    os.link(away, place["a"])
    os.link(away, place["b"])
    assert place.take() == once((0, 10))


def test_a_planned_file_that_could_not_be_read_then_is_not_taken_for_grown(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("a", 0, 10)
    denied = whereabouts.digest

    def closed(kind: str, file: SourceFile, size: int) -> str:
        if file.path.endswith("a.jsonl"):
            raise SourceError(file.path, "PermissionError")
        return denied(kind, file, size)

    monkeypatch.setattr(whereabouts, "digest", closed)
    with pytest.raises(SourceError, match="PermissionError"):
        place.plan()


def test_what_is_taken_as_it_is_is_not_taken_for_grown(place: Place) -> None:
    place.write("a", 0, 5)
    place.plan()
    place.write("a", 10, 20)
    person(place.gate).retake("a.jsonl", "")
    place.write("b", 100, 140)
    place.move("b", "a")
    with pytest.raises(SourceError, match="changed since it was planned"):
        place.take()


def test_parquet_under_the_number_of_one_that_was_removed_is_new(tmp_path: Path) -> None:
    """Footers of one schema are alike, and longer than any end that is looked at."""
    gate = Gate(tmp_path, "parquet", source={"mode": "live"})
    live = tmp_path / "live"
    live.mkdir()
    draw = Random(1)  # noqa: S311
    for hour in range(4):
        values = {f"v{i}": [draw.random() for _ in range(50)] for i in range(30)}
        table = pa.table({"event_time": [T] * 50, "site": ["x"] * 50} | values)
        table = table.replace_schema_metadata({"pandas": "x" * 9_000})
        new = live / f"hour{hour}.parquet"
        if hour:  # as where a removed file's number is given again
            (live / f"hour{hour - 1}.parquet").rename(new)
        pq.write_table(table, tmp_path / "next", compression="none", use_dictionary=False)
        new.write_bytes((tmp_path / "next").read_bytes())
        assert gate.take() == 50


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_logs_that_are_rotated_are_read_once(place: Place, keep: int) -> None:
    for number in range(6):
        place.write("app", 10 * number, 10 * number + 3 + number)
        place.take()
        for old in range(keep, 0, -1):
            name = f"app.{old - 1}" if old > 1 else "app"
            if place[name].exists():
                place.move(name, f"app.{old}")
    assert place.take() == once(*((10 * n, 10 * n + 3 + n) for n in range(6)))


@pytest.mark.parametrize("seen", [True, False])
def test_a_restored_file_that_is_renamed_is_not_taken_again(
    place: Place, caplog: pytest.LogCaptureFixture, seen: bool
) -> None:
    place.write("a", 0, 10)
    place.take()
    shutil.copy2(place["a"], place.live / "copy")
    (place.live / "copy").rename(place["a"])
    if seen:
        assert place.take() == once((0, 10))
    place.move("a", "b")
    assert place.take() == once((0, 10))
    assert "taken already under another name" in caplog.text


def test_a_rotated_folder_on_another_disk_is_told_apart(place: Place) -> None:
    for number, name in enumerate(("app.2", "app.1", "app")):
        place.write(name, 10 * number, 10 * number + 4 + number)
    place.take()
    for file in [*place.live.glob("app*")]:
        shutil.copy2(file, place.live / "copy")
        (place.live / "copy").rename(file)
    for name, new in (("app.2", "app.3"), ("app.1", "app.2"), ("app", "app.1")):
        place.move(name, new)
    place.write("app", 300, 309)
    assert place.take() == once((0, 4), (10, 15), (20, 26), (300, 309))


def test_a_taken_file_that_is_archived_on_another_disk_is_not_preloaded(tmp_path: Path) -> None:
    place = Place(tmp_path, history={"files": "past", "format": "jsonl"})
    place.write("a", 0, 10)
    place.take()
    (tmp_path / "past").mkdir()
    shutil.copy2(place["a"], tmp_path / "past" / "2024-a.jsonl")
    place["a"].unlink()
    assert place.gate.take(HISTORY) == 0
    assert place.take() == once((0, 10))


def test_a_copy_beside_the_original_is_another_file(place: Place) -> None:
    place.write("a", 0, 10)
    place.take()
    shutil.copy2(place["a"], place["b"])
    assert place.take() == once((0, 10), (0, 10))


def test_a_history_that_grew_between_two_intervals_waits(tmp_path: Path) -> None:
    place = Place(tmp_path, history={"files": "past", "format": "jsonl"})
    file = tmp_path / "past" / "a.jsonl"
    file.parent.mkdir()
    file.write_text(text(0, 5))
    middle = int(datetime.fromisoformat(T).timestamp()) * 10**6
    assert place.gate.take(HISTORY, None, middle) == 0
    file.write_text(text(0, 8))
    with pytest.raises(SourceError, match="penstock accept"):
        place.gate.take(HISTORY, middle, None)
    person(place.gate).accept("a.jsonl", "what came is in the next interval")
    assert place.gate.take(HISTORY, middle, None) == 8


def test_what_was_planned_and_then_taken_as_another_file_is_still_to_be_read(place: Place) -> None:
    place.write("a", 0, 5)
    place.plan()
    away = place["a"].rename(place.live.parent / "away")
    place.write("a", 10, 17)
    person(place.gate).retake("a.jsonl", "")
    assert place.take() == once((10, 17))
    away.rename(place["old"])
    assert place.take() == once((0, 5), (10, 17))


@pytest.mark.parametrize("then", [touched, appended])
def test_a_file_taken_as_it_is_and_changed_and_renamed_is_not_taken_again(
    place: Place, then: Callable[[Place], None]
) -> None:
    place.write("a", 50, 55)
    place.plan()
    place.write("a", 0, 10)
    person(place.gate).retake("a.jsonl", "")
    place.gate.take()
    if then is touched:
        os.utime(place["a"], ns=(0, 10**18))
    else:
        place["a"].write_text(text(0, 12))
    place.move("a", "b")
    assert place.take() == once((0, 10))


def test_another_generation_of_a_name_is_mended_and_taken(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "csv")
    gate.write("app.csv", f"event_time,site,code\n{T},x,1\n")
    assert gate.take() == 1
    (tmp_path / "live" / "app.csv").rename(tmp_path / "live" / "app.1.csv")
    gate.write("app.csv", f"{T},x,2\n")
    assert gate.take() == 1
    gate.write("app.csv", f"event_time,site,code\n{T},x,2\n")
    person(gate).retake("app.csv", "it has its header")
    gate.take()
    assert codes(gate) == Counter([1, 2])


def test_files_of_another_folder_that_a_person_calls_others_are_others(tmp_path: Path) -> None:
    for folder, first in (("one", 0), ("two", 5)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.jsonl").write_text(text(first, first + 1))
        os.utime(tmp_path / folder / "a.jsonl", ns=(0, 10**18))
    (tmp_path / "two" / "b.jsonl").write_text(text(100, 120))
    gate = Gate(tmp_path, "jsonl", source={"files": "one"})
    assert gate.take() == 1
    gate = Gate(tmp_path, "jsonl", source={"files": "two"})
    with pytest.raises(SourceError, match="another folder"):
        gate.take()
    person(gate).retake("two", "the second year")
    gate.take()
    assert codes(gate) == once((0, 1), (5, 6), (100, 120))


def test_another_file_put_in_place_with_size_and_time_is_not_read(place: Place) -> None:
    """Who keeps the time says that it is the same."""
    place.write("a", 10, 20)
    place.take()
    about = place["a"].stat()
    place.write("copy", 30, 40)
    place.move("copy", "a")
    os.utime(place["a"], ns=(0, about.st_mtime_ns))
    assert place.take() == once((10, 20))


def test_a_planned_file_is_not_taken_for_another_of_its_size_and_time(place: Place) -> None:
    place["z"].unlink()
    for number, name in enumerate("ab"):
        place.write(name, 100 + number, 101 + number)
        os.utime(place[name], ns=(0, 10**18))
    door = place.plan()
    for name, new in (("a", "c"), ("b", "a"), ("c", "b")):
        place.move(name, new)
    os.utime(place["b"])  # what was planned as a: nothing there is exactly that any more
    with pytest.raises(SourceError, match="another file lies there"):
        door.work()
    os.utime(place["b"], ns=(0, 10**18))
    assert place.take() == once((100, 102))
