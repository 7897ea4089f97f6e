"""Clocks that are changed, and how instants are written: what each reading means."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from penstock.core.window import micros
from penstock.lake.ingest.instants import LocalTime, read_instants
from penstock.lake.proof.recount import recount
from penstock.lake.storage.commit import Table
from tests.doubles import Killed, deadly_commits, dies_at
from tests.gates import Gate

VIENNA = ZoneInfo("Europe/Vienna")
NIGHT = datetime(2024, 10, 27, tzinfo=UTC)
"""Vienna's clocks went back at 01:00 UTC, from 03:00 to 02:00."""


def gate_of(home: Path, ambiguous: str | None, **more: Any) -> Gate:
    gate = Gate(home, "csv", zone="Europe/Vienna", ambiguous=ambiguous, **more)
    gate.clock.instant = NIGHT + timedelta(days=1)
    return gate


def shown(instants: list[datetime]) -> str:
    """A file of what Vienna's clocks showed."""
    rows = [f"{i.astimezone(VIENNA):%Y-%m-%d %H:%M:%S},x" for i in instants]
    return "\n".join(["event_time,site", *rows, ""])


def every(minutes: int, hours: float = 4) -> list[datetime]:
    return [NIGHT + timedelta(minutes=m) for m in range(0, int(60 * hours), minutes)]


def times(gate: Gate) -> list[datetime]:
    return [row["event_time"] for row in gate.rows("events")]


def unclear(gate: Gate) -> int:
    through = sum(b["accepted"] + b["quarantined"] for b in gate.rows("blocks")) - 1
    events = gate.tables.events(gate.pipeline.types)
    return recount(gate.tables, events, through, 10**9).unclear


@pytest.mark.parametrize(("ambiguous", "offset"), [(None, 0), ("earlier", 0), ("later", 60)])
def test_one_meaning_for_all_readings_of_the_repeated_hour(
    tmp_path: Path, ambiguous: str | None, offset: int
) -> None:
    gate = gate_of(tmp_path, ambiguous)
    instants = every(10)
    gate.write("a.csv", shown(instants))
    gate.take()
    begin, end = NIGHT, NIGHT + timedelta(hours=2)
    twice = [i for i in instants if begin <= i < end]
    assert [t for t in times(gate) if not begin <= t < end] == [i for i in instants if i >= end]
    half = [begin + timedelta(minutes=m + offset) for m in range(0, 60, 10)]
    assert [t for t in times(gate) if begin <= t < end] == 2 * half
    assert unclear(gate) == len(twice) == 12
    said = {"earlier" if offset == 0 else "later", None}
    assert {row["read_as"] for row in gate.rows("events")} == said


@pytest.mark.parametrize("files", [1, 3, 24])
@pytest.mark.parametrize("history", [False, True])
def test_by_order_finds_every_instant_of_records_in_order(
    tmp_path: Path, files: int, history: bool
) -> None:
    place = {"files": str(tmp_path / "live"), "format": "csv"}
    apart = {"history": place, "source": {"files": str(tmp_path / "later")}}
    gate = gate_of(tmp_path, "by order", **(apart if history else {}))
    instants = every(10)
    for number in range(files):
        part = instants[number * len(instants) // files : (number + 1) * len(instants) // files]
        gate.write(f"{number:02}.csv", shown(part))
    assert gate.take("history" if history else "live") == len(instants)
    assert times(gate) == instants
    assert unclear(gate) == 12


def test_by_order_goes_on_from_plan_to_plan_and_never_into_the_future(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, "by order")
    door, instants = gate.door(), every(5)
    for number, one in enumerate(instants):
        gate.clock.instant = one + timedelta(seconds=1)
        gate.write(f"{number:02}.csv", shown([one]))
        while door.work() >= 0:
            pass
    assert times(gate) == instants
    assert not gate.rows("quarantine")


@pytest.mark.parametrize("deaths", range(8))
def test_by_order_decides_again_the_same_after_a_kill(tmp_path: Path, deaths: int) -> None:
    gate = gate_of(tmp_path, "by order")
    instants = every(10)
    for number, part in enumerate((instants[:9], instants[9:])):
        gate.write(f"{number}.csv", shown(part))
        with deadly_commits(dies_at(deaths)):
            try:
                gate.take()
            except Killed:
                gate.take()
    assert times(gate) == instants


def test_a_little_disorder_is_no_second_pass(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, "by order")
    jitter = [i + timedelta(minutes=(7 * n) % 20) for n, i in enumerate(every(5, 0.7))]
    gate.write("a.csv", shown(jitter))
    gate.take()
    assert times(gate) == jitter


def test_quarantine_refuses_what_is_shown_twice_or_never(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, "quarantine", columns={"site": "string", "delay": "double",
                   "bags": "long", "due": "timestamp"})  # fmt: skip
    gate.write("a.csv", "event_time,site,due\n2024-10-27 01:59:59,x,\n2024-10-27 02:00:00,x,\n"
               "2024-10-27T02:30:00+01:00,x,\n2024-03-31 02:30:00,x,\n"
               "2024-10-27 03:00:00,x,2024-10-27 02:10\n")  # fmt: skip
    gate.take()
    assert [(s, r, d) for s, r, d, _ in gate.refused()] == [
        (1, "ambiguous clock reading", "event_time"),
        (3, "ambiguous clock reading", "event_time"),
        (4, "ambiguous clock reading", "due"),
    ]
    assert unclear(gate) == 0


def test_a_skipped_hour_keeps_its_distance_and_is_marked(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, None)
    readings = [f"2024-03-31 0{h}:30:00,x" for h in (1, 2, 3)]
    gate.write("a.csv", "\n".join(["event_time,site", *readings, ""]))
    gate.take()
    day = datetime(2024, 3, 31, tzinfo=UTC)
    assert times(gate) == [day + timedelta(minutes=m) for m in (30, 90, 90)]
    assert [r["read_as"] for r in gate.rows("events")] == [None, "shifted", None]
    assert unclear(gate) == 1


def test_events_made_before_they_were_marked_are_read_and_grow(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, None)
    gate.write("a.csv", shown(every(10, 2)))
    events = gate.tables.events(gate.pipeline.types)
    at = events.schema.get_field_index("read_as")
    Table(type(events)(events.uri, events.schema.remove(at), events.partitioned,
                       events.indexed, events.name)).refresh()  # fmt: skip
    gate.take()
    assert unclear(gate) == 12


NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(("form", "text", "wanted"), [
    ("s", "1709294400", NOON), ("ms", "1709294400000", NOON), ("us", "1709294400000000", NOON),
    ("s", "1709294400.25", NOON + timedelta(milliseconds=250)), ("s", "1.7092944E9", NOON),
    ("s", "1709294400.1234567", NOON + timedelta(microseconds=123456)),
    ("s", "-1", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)), ("s", "2024-03-01", None),
    ("s", "1709294400000000", None), ("ms", "nan", None), ("s", "1e300", None), ("us", "x", None),
    ("%Y-%m-%d %H:%M:%S UTC", "2024-03-01 12:00:00 UTC", NOON),
    ("%d/%b/%Y:%H:%M:%S %z", "01/Mar/2024:12:00:00 +0000", NOON),
    ("%d/%b/%Y:%H:%M:%S %z", "01/Mar/2024:14:00:00 +0200", NOON),
    ("%Y%m%dT%H%M%SZ", "20240301T120000Z", NOON),
    ("%Y-%m-%dT%H:%M:%S.%f%z", "2024-03-01T12:00:00.5Z", NOON + timedelta(seconds=0.5)),
    ("%a, %d %b %Y %H:%M:%S %z", "Fri, 1 Mar 2024 12:00:00 +0000", NOON),
    ("%d.%m.%Y", "01.03.2024", datetime(2024, 2, 29, 23, tzinfo=UTC)),
    ("%m/%d/%Y %I:%M %p", "03/01/2024 1:00 PM", NOON),
    ("%d.%m.%Y %H:%M", "01.03.2024 13:00", NOON),
    ("%d.%m.%Y", "30.02.2024", None), ("%d.%m.%Y", "2024-03-01", None),
    ("%Y%m%d", "20240301", datetime(2024, 2, 29, 23, tzinfo=UTC)),
])  # fmt: skip
def test_a_declared_form(form: str, text: str, wanted: datetime | None) -> None:
    found = read_instants(pa.array(["no", text, None]), LocalTime(VIENNA), form).values
    assert found.to_pylist() == [None, wanted, None]


@pytest.mark.parametrize("array", [
    pa.array([1_709_294_400_000]), pa.array([1_709_294_400_000], pa.uint64()),
    pa.array([1_709_294_400_000.0]),
    pa.array([1_709_294_400_000], pa.decimal128(20, 2)),
    pa.array([NOON], pa.timestamp("ms", "UTC")),
])  # fmt: skip
def test_counts_of_any_type_of_number(array: pa.Array) -> None:
    assert read_instants(array, LocalTime(VIENNA), "ms").values.to_pylist() == [NOON]


def test_counts_and_forms_through_the_door(tmp_path: Path) -> None:
    columns = {"site": "string", "delay": "double", "bags": "long",
               "due": {"type": "timestamp", "from": "until"}}  # fmt: skip
    formats = {"event_time": "ms", "came": "s", "until": "%d.%m.%Y"}
    gate = Gate(tmp_path, "jsonl", columns=columns, arrival_time="came", formats=formats)
    gate.write("a.jsonl", '{"event_time": 1709294400000, "came": 1709294460.5, "site": "x",'
               ' "until": "02.03.2024"}\n{"event_time": "2024-03-01T12:00:00Z", "site": "x"}\n'
               )  # fmt: skip
    assert gate.take() == 2
    (row,) = gate.rows("events")
    assert micros(row["event_time"]) == micros(NOON)
    assert row["ingest_time"] == NOON + timedelta(seconds=60.5)
    assert row["due"] == datetime(2024, 3, 2, tzinfo=UTC)
    assert [(r, d) for _, r, d, _ in gate.refused()] == [("not castable", "event_time")]
