"""A door over files of one format, for tests of what passes it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from penstock.core.place import path_of
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import LIVE
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import data_files, read_table
from penstock.lake.storage.tables import Tables
from tests.answers import blocks_of
from tests.doubles import FixedClock
from tests.steps import SITES, make_pipeline
from tests.streams import BEGIN

T = "2024-03-01T12:00:00Z"


class Gate:
    """A door over files of one format."""

    def __init__(self, home: Path, kind: str, **overrides: Any) -> None:
        source = {"files": str(home / "live"), "format": kind} | overrides.pop("source", {})
        overrides = {"skew": "PT5M", "not_before": "2024-01-01T00:00:00Z"} | overrides
        self.home, self.pipeline = (
            home,
            make_pipeline(home, {"s": SITES}, source=source, **overrides),
        )
        self.tables = Tables(str(home / "lake"), "p")
        self.clock: Any = FixedClock(BEGIN + timedelta(days=1))

    def door(self) -> Door:
        return Door(self.tables, self.pipeline, self.home, self.clock)

    def take(self, origin: str = LIVE, since: int | None = None, until: int | None = None) -> int:
        return run_through(self.door(), origin, since, until)

    def rows(self, name: str) -> list[dict[str, Any]]:
        spec = {
            "events": self.tables.events(self.pipeline.types),
            "quarantine": self.tables.quarantine(),
            "blocks": self.tables.blocks(),
        }[name]
        by = "block" if name == "blocks" else "arrival_seq"
        return read_table(Table(spec)).sort_by(by).to_pylist()

    def kept(self) -> list[dict[str, Any]]:
        """Rows of ``events``, file by file as they lie there; ``typed``: undeclared fields."""
        table = Table(self.tables.events(self.pipeline.types))
        found: list[dict[str, Any]] = []
        for file in data_files(table.refresh(), "arrival_seq"):
            place = path_of(table.spec.uri) / file.path
            found += pq.read_table(place, partitioning=None).to_pylist()
        for row in found:
            typed = row.pop("undeclared", None) or {}
            row["typed"] = {name: value for name, value in typed.items() if value is not None}
        return sorted(found, key=lambda row: row["arrival_seq"])

    def refused(self) -> list[tuple[int, str, str, str]]:
        return [
            (r["arrival_seq"], r["reason"], r["detail"], r["place"].removeprefix(f"{self.home}/"))
            for r in self.rows("quarantine")
        ]

    def conserved(self) -> tuple[int, int]:
        """Accepted and refused records; every number stands exactly once, and blocks agree."""
        received = sum(len(block.records) for block in blocks_of(self.tables, self.pipeline))
        accepted, refused = len(self.rows("events")), len(self.rows("quarantine"))
        assert received == accepted + refused
        return accepted, refused

    def reasons(self) -> list[tuple[str, str]]:
        """Why, and where, in order."""
        return [(reason, place) for _, reason, _, place in self.refused()]

    def write(self, name: str, text: str | bytes) -> None:
        path = self.home / "live" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def finish(door: Door) -> None:
    """Let a door take everything that waits, whatever others do meanwhile."""
    run_through(door, LIVE, None, None)
