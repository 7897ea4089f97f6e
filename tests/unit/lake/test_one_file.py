"""One file under many names, many files under one: each record is taken once, or waited for."""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.lake.ingest import source
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.reading import SourceError
from penstock.lake.log import HISTORY, LIVE
from penstock.lake.recount import unreadable_files
from penstock.lake.unsettled import changed_files
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


def test_the_rest_of_a_file_that_was_renamed_and_touched_is_taken_once(parted: Place) -> None:
    parted.move("a", "b")
    assert parted.gate.door().work() > 0
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
    denied = source.ending_of

    def closed(real: str, size: int) -> str:
        if real.endswith("a.jsonl"):
            raise SourceError(real, "PermissionError")
        return denied(real, size)

    monkeypatch.setattr(source, "ending_of", closed)
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
