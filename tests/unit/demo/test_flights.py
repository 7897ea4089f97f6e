import itertools
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.flights_truth import derive_sightings, raw_folder
from penstock.core.errors import TerminalError
from penstock.runtime.demo.flights import FlightsSummary, late_rows, write_flights


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> FlightsSummary:
    return write_flights(tmp_path_factory.mktemp("demo") / "flights")


def files(folder: Path) -> list[Path]:
    return sorted((folder / "history").iterdir()) + sorted((folder / "live").iterdir())


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {f"{p.parent.name}/{p.name}": (p.read_bytes(), p.stat().st_ino) for p in files(folder)}


def test_the_year_has_two_records_for_each_flight_with_an_air_time(year: FlightsSummary) -> None:
    assert (year.history_rows, year.live_rows, year.rows) == (488_906, 165_786, 2 * 327_346)
    assert (year.history_files, year.live_files, year.written) == (9, 93, True)


def test_half_of_the_records_arrive_late_by_up_to_twelve_hours(year: FlightsSummary) -> None:
    records = pa.concat_tables([pq.read_table(path) for path in files(year.folder)])
    event = records["event_time"].to_numpy().astype("datetime64[s]").astype(int)

    assert year.late_rows == late_rows(records) == 327_085
    assert round(100 * year.late_rows / year.rows, 2) == 49.96
    assert (np.maximum.accumulate(event) - event).max() == 44_220


def test_files_hold_one_month_of_history_or_one_day_of_the_live_part(year: FlightsSummary) -> None:
    names = [path.name for path in files(year.folder)]
    assert names[:9] == [f"2013-{month:02}.parquet" for month in range(1, 10)]
    assert names[9::92] == ["2013-10-01.parquet", "2014-01-01.parquet"]
    last = None
    for path in files(year.folder):
        arrival = pq.read_table(path)["arrival_time"].to_pylist()
        assert {instant.isoformat()[: len(path.stem)] for instant in arrival} == {path.stem}
        assert all(a <= b for a, b in itertools.pairwise(arrival))
        assert last is None or last <= arrival[0]
        last = arrival[-1]


def test_sql_derives_the_same_sightings_in_its_own_way(year: FlightsSummary) -> None:
    db = duckdb.connect()
    derive_sightings(db, raw_folder())
    columns = "event_time, arrival_time, plate, site, kind, delay"
    db.execute(
        f"create table ours as select {columns} from read_parquet(?)",
        [[str(path) for path in files(year.folder)]],
    )

    assert db.sql("from ours except all from sighting").fetchall() == []
    assert db.sql("from sighting except all from ours").fetchall() == []


def test_a_second_call_changes_nothing(year: FlightsSummary) -> None:
    before = content(year.folder)

    again = write_flights(year.folder)

    assert not again.written
    assert (again.rows, again.late_rows) == (year.rows, year.late_rows)
    assert content(year.folder) == before


def test_what_an_interrupted_call_left_is_repaired_and_the_rest_is_left_alone(
    year: FlightsSummary,
) -> None:
    before = content(year.folder)
    (year.folder / "summary.json").unlink()
    (year.folder / ".partial").mkdir()
    (year.folder / ".partial" / "2013-12-05.parquet").write_bytes(b"half a fi")
    (year.folder / "live" / "2013-12-05.parquet").unlink()
    (year.folder / "live" / "2013-12-06.parquet").write_bytes(b"damaged")
    (year.folder / "live" / "2014-02-01.parquet").write_bytes(b"a file of the user")

    assert write_flights(year.folder).written

    assert (year.folder / "live" / "2014-02-01.parquet").read_bytes() == b"a file of the user"
    (year.folder / "live" / "2014-02-01.parquet").unlink()
    after = content(year.folder)
    assert {name: data for name, (data, _) in after.items()} == {
        name: data for name, (data, _) in before.items()
    }
    touched = {name for name in after if after[name][1] != before[name][1]}
    assert touched <= {"live/2013-12-05.parquet", "live/2013-12-06.parquet"}
    assert not (year.folder / ".partial").exists()
    assert not write_flights(year.folder).written


def test_a_damaged_file_is_noticed_though_the_summary_is_there(year: FlightsSummary) -> None:
    path = year.folder / "history" / "2013-02.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"?")

    assert write_flights(year.folder).written
    assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "flights").write_text("a file where a folder should be", encoding="utf-8")

    with pytest.raises(TerminalError, match=r"flights.*cannot be written.*free some space"):
        write_flights(tmp_path / "flights")
