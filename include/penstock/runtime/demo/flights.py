"""The demo's input files: history by month, the live part by day, and side data."""

import hashlib
import json
import logging
import shutil
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.core.errors import TerminalError
from penstock.runtime.demo.nonstop import nonstop
from penstock.runtime.demo.sightings import raw_file, sightings

log = logging.getLogger(__name__)

LIVE_FROM = datetime(2013, 10, 1, tzinfo=UTC)
"""A record that arrived before this instant is history."""
NONSTOP = "nonstop.parquet"
DERIVATION = 2
"""Goes up when the rules change, so that files written by older ones are replaced."""


@dataclass(frozen=True, slots=True)
class FlightsSummary:
    """What the demo's input consists of. Rows are records, two a flight."""

    folder: Path
    history_rows: int
    live_rows: int
    history_files: int
    live_files: int
    late_rows: int
    """Of all rows in arrival order: event time below the greatest one before it."""
    written: bool
    """False: all was there already."""

    @property
    def rows(self) -> int:
        """All records."""
        return self.history_rows + self.live_rows


def write_flights(folder: Path) -> FlightsSummary:
    """Write ``history/<month>.parquet`` and ``live/<day>.parquet``, by UTC day of arrival.

    Beside them ``nonstop.parquet``: how long a plane needs from one airport to another.

    A file appears only when it is complete, and in order of name. What is there and right is left
    alone, so calling again costs nothing and repairs what an interrupted call left.

    Raises:
        ConfigError: the wheel with the flights is not installed.
        TerminalError: the files cannot be written.
    """
    known = _complete(folder)
    if known is not None:
        return known
    try:
        return _write(folder, sightings(raw_file("flights.csv.zip"), raw_file("airports.csv")))
    except OSError as error:
        raise TerminalError(
            f"{folder}: the demo's flights cannot be written: {error}."
            " They need about 20 MB there; free some space or mend the permissions and try again."
        ) from error


def _write(folder: Path, records: pa.Table) -> FlightsSummary:
    arrival = records["arrival_time"]
    live = pc.greater_equal(arrival, pa.scalar(LIVE_FROM, arrival.type))
    parts = {
        "history": _files(records.filter(pc.invert(live)), "%Y-%m"),
        "live": _files(records.filter(live), "%Y-%m-%d"),
    }
    partial = folder / ".partial"
    partial.mkdir(parents=True, exist_ok=True)
    digests = {}
    for part, files in parts.items():
        (folder / part).mkdir(exist_ok=True)
        for name, rows in files.items():
            digests[f"{part}/{name}"] = _write_file(rows, partial / name, folder / part / name)
    between = nonstop(raw_file("airports.csv"), records["site"].unique().to_pylist())
    digests[NONSTOP] = _write_file(between, partial / NONSTOP, folder / NONSTOP)
    counts = FlightsSummary(
        folder=folder,
        history_rows=sum(map(len, parts["history"].values())),
        live_rows=sum(map(len, parts["live"].values())),
        history_files=len(parts["history"]),
        live_files=len(parts["live"]),
        late_rows=late_rows(records),
        written=True,
    )
    about = asdict(counts) | {"derivation": DERIVATION, "files": digests}
    del about["folder"], about["written"]
    draft = partial / "summary.json"
    draft.write_text(json.dumps(about, indent=1), encoding="utf-8")
    draft.replace(folder / "summary.json")
    shutil.rmtree(partial)
    log.info("wrote the demo's flights folder=%s rows=%s", folder, counts.rows)
    return counts


def _files(records: pa.Table, pattern: str) -> dict[str, pa.Table]:
    """Rows by file name. They lie in order of arrival, so each file is one slice."""
    days = records["arrival_time"].to_numpy().astype("datetime64[D]")
    firsts = np.flatnonzero(np.append(True, days[1:] != days[:-1]))
    starts: dict[str, int] = {}
    for first in firsts:
        starts.setdefault(days[first].item().strftime(pattern), int(first))
    ends = [*list(starts.values())[1:], len(records)]
    return {
        f"{name}.parquet": records.slice(start, end - start)
        for (name, start), end in zip(starts.items(), ends, strict=True)
    }


def _write_file(rows: pa.Table, draft: Path, path: Path) -> str:
    """Put one complete file in place, if it is not there already; returns its digest."""
    pq.write_table(rows, draft, compression="zstd")
    digest = _digest(draft)
    if path.is_file() and _digest(path) == digest:
        draft.unlink()
    else:
        draft.replace(path)
    return digest


def _complete(folder: Path) -> FlightsSummary | None:
    """The summary of an earlier call, if all it wrote is still there, unchanged."""
    try:
        about = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        files = about.pop("files")
        if about.pop("derivation") != DERIVATION:
            return None
        if any(_digest(folder / name) != digest for name, digest in files.items()):
            return None
        return FlightsSummary(folder=folder, written=False, **about)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # absent, interrupted or damaged: it is written anew


def late_rows(records: pa.Table) -> int:
    """Records, in the order given, whose event time is below the greatest one before them."""
    event = records["event_time"].to_numpy().astype(np.int64)
    return int(np.count_nonzero(event < np.maximum.accumulate(event)))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
