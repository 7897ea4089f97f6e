from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest

from penstock.core.errors import ConfigError
from penstock.runtime.demo import sightings as module
from penstock.runtime.demo.sightings import raw_file, sightings

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    "flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
AIRPORTS = """faa,name,lat,lon,alt,tz,dst,tzone
EWR,"Newark, Liberty",40.7,-74.2,18,-5,A,America/New_York
JFK,Kennedy,40.6,-73.8,13,-5,A,America/New_York
IAH,Houston,30,-95.3,97,-6,A,America/Chicago
RDU,Raleigh,35.9,-78.8,435,-5,A,America/New_York
MIA,Miami,25.8,-80.3,8,-5,A,America/New_York
PBI,Palm Beach,26.7,-80.1,19,-5,A,America/New_York
HNL,Honolulu,21.3,-157.9,13,-10,N,Pacific/Honolulu
"""


def flight(text: str) -> str:
    """A line of flights.csv: date, schedule, delay, destination, air time, reading, plate, delay.

    A dash stands for a missing value; the last delay may be left out.
    """
    fields = ["" if field == "-" else field for field in text.split()]
    day, sched, delay, to, air, reading, plate, late = [*fields, "0"][:8]
    date = ",".join(str(int(part)) for part in day.split("-"))
    return f"{date},0,{sched},{delay},{reading},0,{late},UA,7,{plate},JFK,{to},{air},1,0,0,x"


def derive(folder: Path, *lines: str) -> pa.Table:
    with ZipFile(folder / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "\n".join([HEADER, *lines]) + "\n")
    (folder / "airports.csv").write_text(AIRPORTS, encoding="utf-8")
    return sightings(folder / "flights.csv.zip", folder / "airports.csv")


def minutes(table: pa.Table, column: str) -> list[str]:
    return [value.strftime("%m-%dT%H:%M") for value in table[column].to_pylist()]


@pytest.mark.parametrize(
    ("line", "departed", "landed"),
    [
        # 05:15 + 2 min in winter (UTC-5); 08:30 in Houston (UTC-6)
        (flight("2013-01-01 515 2 IAH 227 830 A"), "01-01T10:17", "01-01T14:30"),
        # over midnight, which the file calls 2400
        (flight("2013-01-01 2155 14 RDU 86 2400 A"), "01-02T03:09", "01-02T05:00"),
        # almost a day late, to a clock ten hours behind
        (
            flight("2013-01-09 900 1301 HNL 640 1242 A"),
            "01-10T11:41",
            "01-10T22:42",
        ),
        # an airport that airports.csv does not know: Puerto Rico, UTC-4 all year
        (flight("2013-07-04 611 4 SJU 200 952 A"), "07-04T10:15", "07-04T13:52"),
        (flight("2013-01-04 611 4 SJU 200 1052 A"), "01-04T11:15", "01-04T14:52"),
        # left in summer time, landed in the hour that comes twice: first time, second time
        (flight("2013-11-02 2300 0 MIA 120 120 A"), "11-03T03:00", "11-03T05:20"),
        (flight("2013-11-02 2300 0 MIA 175 115 A"), "11-03T03:00", "11-03T06:15"),
        # landed by a clock that had not been set forward
        (flight("2013-03-09 2145 81 PBI 141 203 A"), "03-10T04:06", "03-10T07:03"),
        # early, over the end of the year
        (flight("2013-12-31 2359 -9 SJU 189 440 A"), "01-01T04:50", "01-01T08:40"),
    ],
)
def test_a_flight_is_two_sightings_that_become_known_when_it_has_landed(
    tmp_path: Path, line: str, departed: str, landed: str
) -> None:
    table = derive(tmp_path, line)

    assert table["kind"].to_pylist() == ["dep", "arr"]
    assert minutes(table, "event_time") == [departed, landed]
    assert minutes(table, "arrival_time") == [landed, landed]


def test_a_departure_has_the_origin_and_its_delay_an_arrival_the_destination(
    tmp_path: Path,
) -> None:
    table = derive(tmp_path, flight("2013-01-01 515 2 IAH 227 830 N1 -11"))

    assert table.drop_columns(["event_time", "arrival_time"]).to_pylist() == [
        {"plate": "N1", "site": "JFK", "kind": "dep", "delay": 2.0, "flight": "UA7"},
        {"plate": "N1", "site": "IAH", "kind": "arr", "delay": -11.0, "flight": "UA7"},
    ]
    assert table.schema.field("event_time").type == pa.timestamp("us", tz="UTC")
    assert table.schema.field("arrival_time").type == pa.timestamp("us", tz="UTC")


def test_an_unknown_delay_of_an_arrival_is_null(tmp_path: Path) -> None:
    table = derive(tmp_path, flight("2013-01-01 515 2 IAH 227 830 N1 -"))

    assert table["delay"].to_pylist() == [2.0, None]


def test_a_flight_without_air_time_is_left_out(tmp_path: Path) -> None:
    cancelled = flight("2013-01-01 500 - IAH - - N1 NA")
    flown = flight("2013-01-01 515 2 IAH 227 830 N2")

    assert derive(tmp_path, cancelled, flown)["plate"].to_pylist() == ["N2", "N2"]


def test_records_lie_in_order_of_landing_and_ties_in_order_of_the_file(tmp_path: Path) -> None:
    late = flight("2013-01-01 600 0 RDU 86 800 LATE")
    tie_z = flight("2013-01-01 605 0 RDU 70 730 Z")
    tie_a = flight("2013-01-01 600 0 RDU 75 730 A")
    tie_m = flight("2013-01-01 610 0 RDU 65 730 M")

    table = derive(tmp_path, late, tie_z, tie_a, tie_m)

    order = list(zip(table["plate"].to_pylist(), table["kind"].to_pylist(), strict=True))
    plates = ["Z", "A", "M", "LATE"]
    assert order == [(plate, kind) for plate in plates for kind in ("dep", "arr")]


def test_without_the_wheel_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGE", "no_such_wheel")

    with pytest.raises(ConfigError, match=r"no_such_wheel.*pip install"):
        raw_file("flights.csv.zip")
