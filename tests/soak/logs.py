"""Real records for a topology under fire, as they arrived: the demo's flights, a log of Zeek's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.runtime.demo.flights import raw_file, sightings

DAY = 86_400_000_000
INSTANT = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Log:
    """A log, and what may be asked of it.

    Attributes:
        name: of its pipeline.
        over: the pipeline that stands on that one's answers; empty: there is none.
        records: columns at, key and value; they come again and again, each round that much later.
        round: how much, us.
        key, value: names of the columns.
        windows, slacks, conditions: of steps; the first ones are those of the log's own step.
        wide: size of the windows over the answers.
    """

    name: str
    over: str
    records: pa.Table
    round: int
    key: str
    value: str
    windows: tuple[str, ...]
    slacks: tuple[str, ...]
    conditions: tuple[str | None, ...]
    wide: str = ""

    @property
    def step(self) -> dict[str, Any]:
        """What all steps have in common."""
        return {"keys": [self.key], "measures": {"n": "count(*)", "most": f"max({self.value})"}}

    @property
    def top(self) -> dict[str, Any]:
        """The step over the answers of such a one."""
        return {"keys": [self.key], "window": {"size": self.wide}, "measures": {"most": "max(n)"}}

    @property
    def columns(self) -> dict[str, str]:
        """Declared ones."""
        return {self.key: "string", self.value: "double"}

    def some(self, first: int, count: int) -> pa.Table:
        """Records from one on, counted through all rounds; no more than are left of its round."""
        nth, row = divmod(first, self.records.num_rows)
        rows = self.records.slice(row, count)
        later = pc.add(rows["at"], pa.scalar(nth * self.round, pa.int64())).cast(INSTANT)
        return rows.set_column(0, "at", later)


def _told(rows: pa.Table, key: str, value: str) -> pa.Table:
    at = rows["event_time"].cast(INSTANT).cast(pa.int64())
    return pa.table({"at": at, key: rows[key], value: rows[value].cast(pa.float64())})


def flights() -> Log:
    """Sightings of aircraft of a year."""
    rows = sightings(raw_file("flights.csv.zip"), raw_file("airports.csv"))
    return Log(
        "flights", "busy", _told(rows, "site", "delay"), 366 * DAY, "site", "delay",
        ("PT1H", "PT6H"), ("PT2H", "PT4H", "PT30M"), (None, "delay > 10"), "P1D",
    )  # fmt: skip


def zeek(file: Path) -> Log:
    """Questions to name servers; a file of columns event_time, sip and rtt, as they arrived."""
    rows = pq.read_table(file, columns=["event_time", "sip", "rtt"])
    return Log(
        "dns", "", _told(rows, "sip", "rtt"), DAY // 48, "sip", "rtt",
        ("PT1M", "PT5M"), ("PT10S", "PT30S", "PT2M"), (None, "rtt > 0.01"), "PT30M",
    )  # fmt: skip
