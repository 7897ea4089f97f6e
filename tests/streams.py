"""Streams of chosen disorder for the tests, plainly in Python and as files for the product."""

import json
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
Row = dict[str, Any]


def us(value: datetime | timedelta) -> int:
    """Whole microseconds, since the epoch for an instant."""
    span = value - EPOCH if isinstance(value, datetime) else value
    return span // timedelta(microseconds=1)


def at(text: str) -> datetime:
    """An instant of the streams' first day: ``at("12:30")``."""
    hours, minutes, *rest = (int(x) for x in text.split(":"))
    return BEGIN + timedelta(hours=hours, minutes=minutes, seconds=rest[0] if rest else 0)


def instant(micros: int) -> datetime:
    """The instant of microseconds since the epoch."""
    return EPOCH + timedelta(microseconds=micros)


def disordered(
    count: int,
    *,
    seed: int,
    apart: float = 2.0,
    late_share: float = 0.03,
    late_by: float = 5_400.0,
    begin: datetime = BEGIN,
) -> list[Row]:
    """Records in arrival order; most are seconds late, some hours.

    Columns: ``site`` (text, some not ASCII), ``code`` (whole, some negative and huge),
    ``delay`` (double of very different sizes, some null), ``bags`` (whole, some null),
    ``live`` (truth value, some null), ``event_time``.

    Args:
        count: how many.
        seed: the same seed gives the same records.
        apart: mean seconds between two arrivals.
        late_share: share of records that are late by up to ``late_by`` seconds.
        late_by: the most.
        begin: of the stream.
    """
    draw = random.Random(seed)  # noqa: S311
    now = 0.0
    rows = []
    for _ in range(count):
        now += draw.expovariate(1 / apart)
        lag = draw.expovariate(1 / 5.0)
        if draw.random() < late_share:
            lag += draw.uniform(0, late_by)
        rows.append(
            {
                "event_time": begin + timedelta(microseconds=int(max(0.0, now - lag) * 1e6)),
                "site": draw.choice(["LGA", "JFK", "EWR", "Zürich", "São Paulo", "a'b"]),
                "code": draw.choice([1, 2, 3, -7, 2**53 + 1, 2**53]),
                "delay": draw.choice(
                    [None, 0.0, -0.0, 0.1, draw.gauss(0, 30), draw.uniform(-1, 1) * 1e12, 1e-9]
                ),
                "bags": draw.choice([None, draw.randrange(-5, 50), 2**40]),
                "live": draw.choice([True, True, False, None]),
            }
        )
    return rows


ARROW = {
    "event_time": pa.timestamp("us", tz="UTC"),
    "site": pa.string(),
    "code": pa.int64(),
    "delay": pa.float64(),
    "bags": pa.int64(),
    "live": pa.bool_(),
}


def write_parquet(path: Path, rows: Sequence[Row], schema: dict[str, pa.DataType] = ARROW) -> Path:
    """One Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema=pa.schema(schema.items())), path)
    return path


def write_jsonl(path: Path, rows: Iterable[Row | str]) -> Path:
    """One file of JSON lines; text is written as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [r if isinstance(r, str) else json.dumps(r, default=str) for r in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_files(folder: Path, rows: Sequence[Row], each: int) -> None:
    """Parquet files of ``each`` records, in order of their names."""
    for i in range(0, len(rows), each):
        write_parquet(folder / f"{i // each:05d}.parquet", rows[i : i + each])


def micros_rows(rows: Iterable[Row]) -> list[Row]:
    """The same records with whole microseconds as event time, as the oracle takes them."""
    return [{**r, "event_time": us(r["event_time"])} for r in rows]


@st.composite
def small_streams(draw: st.DrawFn, *, most: int = 60, block: int = 8) -> list[Any]:
    """A few blocks in arrival order: ``(kind, live, records)``, records may be refused (None).

    Times are whole seconds; any order, with idle blocks in between and perhaps an end.
    """
    times = draw(st.lists(st.integers(-50, 400), max_size=most))
    record = st.fixed_dictionaries(
        {
            "site": st.sampled_from(["a", "b", "ü"]),
            "code": st.sampled_from([0, 1, -(2**62)]),
            "delay": st.none() | st.floats(-1e6, 1e6) | st.sampled_from([-0.0, 1e300, -1e300]),
            "bags": st.none() | st.integers(-(2**40), 2**40),
            "live": st.none() | st.booleans(),
        }
    )
    blocks: list[Any] = []
    while times:
        size = draw(st.integers(1, block))
        rows: list[Row | None] = []
        for t in times[:size]:
            refused = draw(st.integers(0, 9)) == 0
            rows.append(None if refused else {**draw(record), "event_time": t * SECOND})
        blocks.append(("data", draw(st.integers(0, 9)) > 0, tuple(rows)))
        times = times[size:]
        if draw(st.integers(0, 9)) == 0:
            blocks.append(("idle", True, ()))
    if draw(st.booleans()):
        blocks.append(("end", True, ()))
    return blocks
