"""How long a plane needs at least from one airport to another: side data of the demo."""

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

KM_AN_HOUR = 900.0
"""Faster than any flight of 2013 from gate to gate: the fastest made 821."""
RADIUS_KM = 6_371.0
PLACES_BY_HAND = {
    "BQN": (18.4949, -67.1294),
    "PSE": (18.0083, -66.563),
    "SJU": (18.4394, -66.0018),
    "STT": (18.3373, -64.9734),
}
"""Airports that airports.csv does not know: latitude and longitude, degrees."""


def nonstop(airports_csv: Path, sites: Collection[str]) -> pa.Table:
    """Seconds between any two airports along the great circle: ``here``, ``there``, ``seconds``."""
    airports = csv.read_csv(airports_csv)
    columns = (airports[name].to_pylist() for name in ("faa", "lat", "lon"))
    known = {site: (lat, lon) for site, lat, lon in zip(*columns, strict=True)}
    names = sorted(sites)
    lat, lon = np.radians([(known | PLACES_BY_HAND)[site] for site in names]).T
    north, east = lat[:, None] - lat, lon[:, None] - lon
    half = np.sin(north / 2) ** 2 + np.cos(lat)[:, None] * np.cos(lat) * np.sin(east / 2) ** 2
    hours = 2 * RADIUS_KM * np.arcsin(np.sqrt(half)) / KM_AN_HOUR
    here, there = np.repeat(names, len(names)), np.tile(names, len(names))
    other = here != there
    seconds = (hours * 3_600).ravel()
    return pa.table({"here": here[other], "there": there[other], "seconds": seconds[other]})
