"""A clock that is slow refuses nothing: what is ahead of it waits, and is said."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.window import micros
from penstock.lake.ingest.ahead import ClockError
from penstock.lake.log.blocks import HISTORY
from tests.gates import Gate
from tests.streams import write_jsonl, write_parquet

HOUR = timedelta(hours=1)


def write(gate: Gate, name: str, *hours: float, came: bool = False) -> None:
    """A file of records so many hours after the gate's first clock."""
    times = [gate.noon + timedelta(hours=h) for h in hours]
    rows: list[dict[str, Any]] = [{"event_time": t, "site": "x", "delay": 1.0} for t in times]
    if came:
        rows = [row | {"event_time": gate.noon - HOUR, "came": row["event_time"]} for row in rows]
    path = gate.home / "live" / name
    if name.endswith("parquet"):
        write_parquet(path, rows)
    elif name.endswith("csv"):
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{r['event_time'].isoformat()},x" for r in rows]
        path.write_text("\n".join(["event_time,site", *lines, ""]))
    else:
        write_jsonl(path, rows)


class Slow(Gate):
    """A gate that remembers its first instant."""

    def __init__(self, home: Path, kind: str, **overrides: Any) -> None:
        super().__init__(home, kind, **overrides)
        self.noon = self.clock.now()


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("mode", ["live", "bounded"])
def test_with_a_slow_clock_records_wait_until_it_is_set(
    tmp_path: Path, kind: str, mode: str
) -> None:
    gate = Slow(tmp_path, kind, source={"mode": mode})
    write(gate, f"a.{kind}", *[-0.5] * 3000, *[0.9] * 3000)
    door = gate.door()
    for _ in range(2):
        with pytest.raises(ClockError, match=r"a\.\w+: most .* 54 min ahead .* skew") as said:
            door.work()
    assert said.value.ahead == timedelta(minutes=54)
    assert not gate.rows("blocks"), "nothing is planned, and a bounded source does not end"
    gate.clock.move(HOUR)
    assert gate.take() == 6_000
    assert gate.conserved() == (6_000, 0)


def test_arrivals_that_are_ahead_wait_too(tmp_path: Path) -> None:
    gate = Slow(tmp_path, "jsonl", arrival_time="came")
    write(gate, "a.jsonl", 1, 1, 1, came=True)
    with pytest.raises(ClockError):
        gate.take()
    gate.clock.move(HOUR - timedelta(minutes=5))
    assert gate.take() == 3
    assert gate.conserved() == (3, 0)


def test_what_is_not_ahead_is_taken_before_what_is(tmp_path: Path) -> None:
    gate = Slow(tmp_path, "jsonl")
    for number, hour in enumerate((-2, -1, 0, 1, 2)):
        write(gate, f"{number}.jsonl", hour)
    with pytest.raises(ClockError):
        gate.take()
    assert gate.conserved() == (3, 0)
    gate.clock.move(HOUR)
    with pytest.raises(ClockError):
        gate.take()
    assert gate.conserved() == (4, 0)


def test_a_bad_file_among_good_ones_is_refused_and_holds_up_nothing(tmp_path: Path) -> None:
    gate = Slow(tmp_path, "jsonl")
    write(gate, "0.jsonl", -1)
    write(gate, "1.jsonl", 24 * 365, 24 * 365)
    write(gate, "2.jsonl", -1)
    assert gate.take() == 4
    assert [reason for reason, _ in gate.reasons()] == ["event time ahead of arrival"] * 2


def test_a_bad_file_at_the_end_waits_until_another_follows(tmp_path: Path) -> None:
    gate = Slow(tmp_path, "jsonl", source={"idle_after": "PT1H"})
    write(gate, "0.jsonl", -1)
    write(gate, "1.jsonl", 24 * 365)
    with pytest.raises(ClockError):
        gate.take()
    assert gate.conserved() == (1, 0)
    gate.clock.move(HOUR)
    with pytest.raises(ClockError):
        gate.take()
    assert [b["kind"] for b in gate.rows("blocks")] == ["data", "idle"], "windows close meanwhile"
    write(gate, "2.jsonl", 0.5, 24 * 365, 0.5)
    assert gate.take() == 4
    assert gate.conserved() == (3, 2)


def test_a_bad_record_among_good_ones_is_refused(tmp_path: Path) -> None:
    gate = Slow(tmp_path, "jsonl")
    write(gate, "0.jsonl", -1, 24 * 365)
    assert gate.take() == 2
    assert gate.conserved() == (1, 1)


def test_a_person_lets_them_in_by_skew(tmp_path: Path) -> None:
    gate = Slow(tmp_path, "jsonl")
    write(gate, "0.jsonl", 48)
    with pytest.raises(ClockError):
        gate.take()
    braver = Slow(tmp_path, "jsonl", skew="P2D")
    assert braver.take() == 1
    assert braver.conserved() == (1, 0)


def test_history_that_is_ahead_fails_visibly_unless_its_interval_ended_before(
    tmp_path: Path,
) -> None:
    gate = Slow(tmp_path, "jsonl", history={"files": str(tmp_path / "past"), "format": "jsonl"})
    write(gate, "0.jsonl", -1, 1, 1)
    (tmp_path / "live").rename(tmp_path / "past")  # of their own: an overlap is refused
    noon = micros(gate.noon)
    assert gate.take(HISTORY, None, noon) == 1
    with pytest.raises(ClockError):
        gate.take(HISTORY)
    gate.clock.move(HOUR)
    assert gate.take(HISTORY) == 2


def test_a_file_without_rows_or_with_a_name_twice_stops_nothing(tmp_path: Path) -> None:
    gate = Slow(tmp_path, "parquet")
    schema = pa.schema([("event_time", pa.string()), ("site", pa.string())])
    (tmp_path / "live").mkdir()
    with pq.ParquetWriter(tmp_path / "live" / "0.parquet", schema):
        pass
    assert gate.take() == 0
    twice = pa.table([pa.array(["x"])] * 3, names=["event_time", "event_time", "site"])
    pq.write_table(twice, tmp_path / "live" / "1.parquet")
    assert gate.take() == 1
    assert [reason for reason, _ in gate.reasons()] == ["unreadable"]
