"""Edits of a pipeline file, intervals, clocks and systems that would cost records: said instead."""

import errno
import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import ConfigError
from penstock.lake.ingest import judging, listing, received, source, whereabouts
from penstock.lake.ingest.ahead import ClockError
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.listing import listed
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.received import as_json
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import HISTORY
from tests.doubles import FixedClock, RisingClock
from tests.gates import Gate, T
from tests.steps import COLUMNS
from tests.streams import BEGIN

HEAD = "event_time,site,code\n"
FALL = "2024-10-27T"
"""Of that night Vienna's clocks show 2:00 to 3:00 twice."""


def micros(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 10**6


def past(home: Path, **config: Any) -> Gate:
    history = {"files": str(home / "past"), "format": "csv"}
    gate = Gate(home, "csv", history=history, **config)
    gate.clock = FixedClock(BEGIN + timedelta(days=400))
    return gate


def night(home: Path) -> None:
    (home / "past").mkdir()
    for name, hours in (("a", (1, 2)), ("b", (2, 3))):
        lines = "".join(f"{FALL}0{hour}:{minute:02d}:00,x,1\n" for hour in hours
                        for minute in range(0, 60, 10))  # fmt: skip
        (home / "past" / f"{name}.csv").write_text(HEAD + lines)


@pytest.mark.parametrize("columns", [
    {k: v for k, v in COLUMNS.items() if k != "code"},
    {k: v for k, v in COLUMNS.items() if k not in {"code", "live"}} | {"more": "string"},
])  # fmt: skip
def test_a_column_that_is_not_declared_any_more_stops_nothing(
    tmp_path: Path, columns: dict[str, str]
) -> None:
    gate = Gate(tmp_path, "csv")
    gate.write("a.csv", f"{HEAD}{T},x,1\n")
    assert gate.take() == 1
    gate = Gate(tmp_path, "csv", columns=columns)
    gate.write("b.csv", f"{HEAD}{T},x,2\n")
    assert gate.take() == 1
    assert gate.conserved() == (2, 0)
    extra = [json.loads(row["extra"] or "{}") for row in gate.rows("events")]
    assert extra == [{}, {"code": "2"}]
    gate = Gate(tmp_path, "csv")
    gate.write("c.csv", f"{HEAD}{T},x,3\n")
    assert gate.take() == 1


def test_by_order_no_interval_is_taken_alone(tmp_path: Path) -> None:
    night(tmp_path)
    gate = past(tmp_path, zone="Europe/Vienna", ambiguous="by order")
    for span in ((0, micros(f"{FALL}01:00:00+00:00")), (None, 5), (5, None)):
        with pytest.raises(ConfigError, match="Preload without From and To"):
            gate.take(HISTORY, *span)
    assert gate.take(HISTORY) == 24


@pytest.mark.parametrize("edit", [
    {"zone": "UTC"}, {"ambiguous": "later"}, {"formats": {"event_time": "%Y-%m-%dT%H:%M:%S"}},
])  # fmt: skip
def test_an_interval_after_times_were_read_otherwise_is_refused(
    tmp_path: Path, edit: dict[str, Any]
) -> None:
    night(tmp_path)
    zone = {"zone": "Europe/Vienna"}
    middle = micros(f"{FALL}00:30:00+00:00")
    gate = past(tmp_path, **zone)
    first = gate.take(HISTORY, 0, middle)
    edited = past(tmp_path, **(zone | edit))
    with pytest.raises(ConfigError, match="read otherwise"):
        edited.take(HISTORY, middle, None)
    with pytest.raises(ConfigError, match="read otherwise"):
        edited.take(HISTORY)
    gate = past(tmp_path, **zone)
    assert first + gate.take(HISTORY, middle, None) == 24


def test_an_interval_after_an_interrupted_whole_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BYTES_PER_PLAN", 200)
    night(tmp_path)
    gate = past(tmp_path)
    taken = gate.door().work(HISTORY)
    assert 0 < taken < 12
    with pytest.raises(ConfigError, match="Finish it first: preload without From and To"):
        gate.take(HISTORY, 0, micros(f"{FALL}09:00:00+00:00"))
    assert taken + gate.take(HISTORY) == 24


def test_a_file_rewritten_between_intervals_waits_for_a_person(tmp_path: Path) -> None:
    night(tmp_path)
    gate, middle = past(tmp_path), micros(f"{FALL}02:00:00+00:00")
    first = gate.take(HISTORY, 0, middle)
    file = tmp_path / "past" / "a.csv"
    file.write_text(file.read_text().replace("00,x", "05,x"))
    with pytest.raises(SourceError, match="penstock accept"):
        gate.take(HISTORY, middle, None)
    Amendment(gate.tables, gate.pipeline, gate.home, RisingClock()).accept(str(file), "the same")
    assert first + gate.take(HISTORY, middle, None) == 24


@pytest.mark.parametrize("failed", [
    OSError(errno.EMFILE, "Too many open files"),
    pa.ArrowInvalid("Cannot locate or parse timezone 'UTC': no such directory"),
    pa.ArrowInvalid("Cannot locate timezone 'Europe/Vienna': no such directory"),
])  # fmt: skip
@pytest.mark.parametrize("place", [(received, "_csv"), (judging, "judge")])
def test_what_the_system_fails_at_in_a_library_never_becomes_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: Exception, place: Any
) -> None:
    gate = Gate(tmp_path, "csv")
    gate.write("a.csv", f"{HEAD}{T},x,1\n")

    def fails(*_given: Any) -> Any:
        raise failed

    with monkeypatch.context() as patched:
        patched.setattr(*place, fails)
        for _ in range(2):
            with pytest.raises(SourceError):
                gate.take()
    assert gate.take() == 1
    assert gate.conserved() == (1, 0)


def test_a_zone_that_only_the_file_names_is_its_own_fault(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "parquet")
    odd = pa.array([0], pa.timestamp("us", tz="Mars/Base"))
    (tmp_path / "live").mkdir()
    pq.write_table(pa.table({"event_time": odd, "site": ["x"]}), tmp_path / "live" / "a.parquet")
    assert gate.take() == 1
    assert gate.conserved()[0] + len(gate.refused()) == 1


@pytest.mark.parametrize("names", [
    ("rows", "temp"), ("ROWS", "temp"), ("Q", "q", "Q_1"), ("", "temp"), ("it's", "It's", "rows"),
])  # fmt: skip
def test_other_columns_are_kept_whatever_they_are_called(names: tuple[str, ...]) -> None:
    table = pa.table([pa.array([f"v{i}", None]) for i in range(len(names))], names=names)
    first, second = map(json.loads, as_json(table).to_pylist())
    assert first == {name: f"v{i}" for i, name in enumerate(names)}
    assert second == dict.fromkeys(names)


@pytest.mark.parametrize("last", ["", HEAD, f"{HEAD},x,1\n", "no header\n", "\0\0"])
def test_a_file_that_says_nothing_of_the_time_does_not_speak_for_the_clock(
    tmp_path: Path, last: str
) -> None:
    gate = Gate(tmp_path, "csv", not_before="2000-01-01T00:00:00Z")
    gate.write("a.csv", f"{HEAD}{T},x,1\n")
    gate.write("z.csv", last)
    right, gate.clock = gate.clock, FixedClock(BEGIN - timedelta(days=9))
    with pytest.raises(ClockError, match=r"a\.csv"):
        gate.take()
    gate.clock = right
    gate.take()
    assert gate.conserved()[0] == 1


def test_what_is_mounted_over_another_mount_is_missed_when_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "live" / "m").mkdir(parents=True)
    real = str((tmp_path / "live" / "m").resolve())
    mounted = [real, real]
    monkeypatch.setattr(listing, "_mounted", lambda: mounted)
    before = listed(str(tmp_path / "live"), (".csv",))
    assert listed(str(tmp_path / "live"), (".csv",)).away(before) is None
    mounted = [real]
    assert listed(str(tmp_path / "live"), (".csv",)).away(before) == real


def test_mounts_that_cannot_be_asked_for_now_are_not_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "mountinfo"
    closed.mkdir()
    monkeypatch.setattr(listing, "MOUNTS", closed)
    with pytest.raises(SourceError):
        listed(str(tmp_path), (".csv",))
    monkeypatch.setattr(listing, "MOUNTS", tmp_path / "no proc here")
    assert listed(str(tmp_path), (".csv",)).mounts == Counter()


def test_a_file_to_be_taken_again_that_is_gone_holds_the_end(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "csv", source={"mode": "bounded"})
    gate.write("a.csv", "no header\n")
    gate.write("b.csv", f"{HEAD}{T},x,1\n")
    door = gate.door()
    assert door.work() == 2
    person = Amendment(gate.tables, gate.pipeline, gate.home, RisingClock())
    gate.write("a.csv", f"{HEAD}{T},x,2\n")
    person.retake("a.csv", "mended")
    (tmp_path / "live" / "a.csv").rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(SourceError, match=r"to be taken again, and is gone|it went before"):
            door.work()
    person = Amendment(gate.tables, gate.pipeline, gate.home, RisingClock())
    person.accept(str(tmp_path / "live" / "a.csv"), "lost")
    assert door.work() == 0
    assert door.work() == -1
    assert door.ended


def test_a_file_that_moves_while_its_folder_is_listed_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(tmp_path, "csv", source={"mode": "bounded"})
    gate.write("a.csv", f"{HEAD}{T},x,1\n")
    door, every = gate.door(), listed
    assert door.work() == 1
    gate.write("b.csv", f"{HEAD}{T},x,2\n")
    missed = []

    def racing(*given: Any) -> Any:
        found = every(*given)
        if not missed:
            missed.append(found.files.pop(next(
                i for i, f in enumerate(found.files) if f.path == "b.csv")))  # fmt: skip
        return found

    monkeypatch.setattr(whereabouts, "listed", racing)
    assert run_through(door, "live", None, None) == 1
    assert missed
    assert gate.conserved() == (2, 0)


def test_a_file_that_was_exchanged_while_it_waited_is_listed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BYTES_PER_PLAN", 120)
    gate = Gate(tmp_path, "csv")
    lines = "".join(f"{T},x,{k}\n" for k in range(12))
    gate.write("a.csv", HEAD + lines)
    door = gate.door()
    assert 0 < door.work() < 12
    (tmp_path / "live" / "a.csv").rename(tmp_path / "live" / "c.csv")
    gate.write("a.csv", f"{HEAD}{T},x,99\n")
    for _ in range(20):
        try:
            if door.work() < 0:
                break
        except SourceError:
            continue
    found = Counter(row["code"] for row in gate.rows("events"))
    assert found == Counter([*range(12), 99])
