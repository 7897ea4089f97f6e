"""Made-up rides: history and live files with disorder and bad records, and what is true of them."""

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa

FIRST_DAY = datetime(2024, 3, 1, tzinfo=UTC)
HISTORY = 6_000
"""Good records of the history, all of the first day."""
RECORDS, HOURS = 2_000, 5
"""Good records of a live file, and how long they took to arrive (in their own time)."""
LOOP, ALL = 10, 20
"""Live files of the loop, and with those that arrive during outages."""
ZONES = ("harbour", "hill", "market", "mill", "north", "south", "station", "Žižkov, 3")
RIDE = {"zone": "hill", "fare": 9.5, "riders": 2, "picked_up": "2024-03-02T12:00:00Z"}
BAD = {
    "malformed": '{"zone": "hill", "fare": 9.5, "riders"',
    "missing key": json.dumps({**RIDE, "zone": None}),
    "not castable": json.dumps({**RIDE, "fare": "nine fifty"}),
    "missing event time": json.dumps({**RIDE, "picked_up": None}),
    "event time ahead of arrival": json.dumps({**RIDE, "picked_up": "2199-01-01T00:00:00Z"}),
    "event time before not_before": json.dumps({**RIDE, "picked_up": "1999-12-31T23:59:59Z"}),
    "NaN or infinity": json.dumps({**RIDE, "fare": "Infinity"}),
}
"""Reason of refusal -> a line of a live file."""


@dataclass
class RideFiles:
    """The source folders of the pipeline ``rides`` below a home.

    Attributes:
        home: of the instance.
        received: records put there so far, bad ones included.
        refused: of these, how many must be refused, by reason.
        places: of these, file name and line.
    """

    home: Path
    received: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    places: set[tuple[str, int]] = field(default_factory=set)
    arrived: int = 0

    @property
    def history(self) -> Path:
        return self.home / "rides" / "history" / "day.csv"

    @property
    def live(self) -> Path:
        return self.home / "rides" / "live"

    def write_history(self) -> None:
        """One CSV file of a whole day, in order; its last line has too few fields."""
        dice = random.Random(1)  # noqa: S311
        rows = _rides(dice, HISTORY, FIRST_DAY, timedelta(days=1))
        lines = ["zone,fare,riders,picked_up"]
        for at, ride in sorted(rows, key=lambda row: row[0]):
            fare = "" if ride["fare"] is None else ride["fare"]
            lines.append(f'"{ride["zone"]}",{fare},{ride["riders"]},{at.isoformat()}')
        lines.append("hill,9.5")
        self.history.parent.mkdir(parents=True)
        self.live.mkdir(parents=True)
        self.history.write_text("\n".join(lines) + "\n")
        self._note(self.history.name, len(lines), "malformed")
        self.received += HISTORY + 1

    def arrive(self, count: int) -> None:
        """Let the next files arrive, each as a whole."""
        records = self._live_records()
        assert self.arrived + count <= ALL
        for number in range(self.arrived, self.arrived + count):
            lines = records[number * RECORDS : (number + 1) * RECORDS]
            name = f"{number:03}.jsonl"
            for at, (reason, line) in enumerate(BAD.items()):
                place = 100 * at + 7 * number
                lines.insert(place, line)
                self._note(name, place + 1, reason)
            hidden = self.live / f".{name}"
            hidden.write_text("\n".join(lines) + "\n")
            hidden.rename(self.live / name)
            self.received += len(lines)
            self.arrived += 1

    def arrive_late(self) -> None:
        """One lone good record of the first day of the stream, far too late."""
        (self.live / "late.jsonl").write_text(json.dumps(RIDE | {"fare": 1_000.0}) + "\n")
        self.received += 1

    def _note(self, file: str, line: int, reason: str) -> None:
        self.refused[reason] += 1
        self.places.add((file, line))

    def _live_records(self) -> list[str]:
        """In order of arrival: most within minutes, a tenth much later than that."""
        dice = random.Random(2)  # noqa: S311
        rows = []
        span = timedelta(hours=ALL * HOURS)
        for at, ride in _rides(dice, ALL * RECORDS, FIRST_DAY + timedelta(days=1), span):
            minutes = dice.expovariate(1 / 90) if dice.random() < 0.1 else 10 * dice.random()
            rows.append((at + timedelta(minutes=minutes), at, ride))
        rows.sort(key=lambda row: row[0])
        return [json.dumps(ride | {"picked_up": at.isoformat()}) for _, at, ride in rows]


def _rides(
    dice: random.Random, count: int, since: datetime, span: timedelta
) -> list[tuple[datetime, dict[str, object]]]:
    return [
        (
            since + timedelta(milliseconds=int(dice.random() * span.total_seconds() * 1000)),
            {
                "zone": dice.choice(ZONES),
                "fare": None if dice.random() < 0.05 else round(dice.lognormvariate(2.5, 0.7), 2),
                "riders": dice.randint(1, 4),
            },
        )
        for _ in range(count)
    ]


class RideTruth:
    """DuckDB over the raw files; shares no code with the product."""

    def __init__(self, files: RideFiles) -> None:
        self.db = duckdb.connect()
        self.db.execute("set TimeZone = 'UTC'")
        text = "{zone: 'varchar', fare: 'varchar', riders: 'varchar', picked_up: 'varchar'}"
        self.db.execute(f"""
            create table ride as
            with raw as (
                from read_json('{files.live}/*.jsonl', columns = {text},
                    format = 'newline_delimited', ignore_errors = true)
                union all by name
                from read_csv('{files.history}', header = true, all_varchar = true,
                    delim = ',', quote = '"', auto_detect = false, ignore_errors = true,
                    columns = {text})
            )
            select zone, fare::double as fare, riders::bigint as riders,
                epoch_us(picked_up::timestamptz) as picked_up
            from raw
            where zone is not null and picked_up is not null
                and picked_up::timestamptz between '2020-01-01T00:00:00Z' and now()
                and (fare is null or isfinite(try_cast(fare as double)))
        """)

    def newest(self) -> int:
        """The greatest event time, us."""
        return self._one("select max(picked_up) from ride")

    def records(self) -> int:
        """Records that are no bad ones."""
        return self._one("select count(*) from ride")

    def pairs(self, step: str) -> int:
        """(record, window) pairs of a step, also of windows that are not closed."""
        return self._one(f"select sum(n) from ({TRUTH[step]})")

    def wrong(self, step: str, in_force: pa.Table, watermark: int) -> list[tuple[object, ...]]:
        """Answers of closed windows that differ, are missing, extra or doubled; at most 5."""
        self.db.register("answer", in_force)
        return self.db.execute(f"""
            with truth as (from ({TRUTH[step]}) where window_end <= {watermark}),
            given as (
                select * replace (
                    epoch_us(window_start) as window_start, epoch_us(window_end) as window_end)
                from answer
            )
            select t, g
            from truth as t full join given as g using ({KEYS[step]})
            where t.n is distinct from g.n_records or {UNEQUAL[step]}
            limit 5
        """).fetchall()

    def _one(self, sql: str) -> int:
        ((value,),) = self.db.execute(sql).fetchall()
        return int(value)


TRUTH = {
    "fares_per_zone": """
        select zone, (picked_up // 1_800_000_000 - back) * 1_800_000_000 as window_start,
            window_start + 3_600_000_000 as window_end, count(*) as n, count(fare) as fares,
            sum(fare) as total, avg(fare) as mean, min(fare) as least, max(fare) as greatest,
            coalesce(sum(abs(fare)), 0) as scale
        from ride, (select unnest([0, 1]) as back) group by all
    """,
    "riders_per_day": """
        select picked_up // 86_400_000_000 * 86_400_000_000 as window_start,
            window_start + 86_400_000_000 as window_end, count(*) as n, sum(riders) as riders,
            max(riders) as most
        from ride where riders > 1 group by all
    """,
    "last_rides": """
        select zone, picked_up // 7_200_000_000 * 7_200_000_000 as window_start,
            window_start + 7_200_000_000 as window_end, count(*) as n,
            max(picked_up) as event_time, arg_max_null(fare, picked_up) as fare,
            arg_max_null(riders, picked_up) as riders
        from ride group by all
    """,
}
KEYS = {
    "fares_per_zone": "zone, window_start, window_end",
    "riders_per_day": "window_start, window_end",
    "last_rides": "zone, window_start, window_end",
}
STEPS = tuple(TRUTH)
UNEQUAL = {
    "fares_per_zone": """
        t.n is distinct from g.rides or t.fares is distinct from g.fares
        or t.least is distinct from g.least or t.greatest is distinct from g.greatest
        or (t.total is null) <> (g.total is null) or abs(t.total - g.total) > 1e-9 * t.scale
        or (t.mean is null) <> (g.mean is null) or abs(t.mean - g.mean) > 1e-9 * t.scale
    """,
    "riders_per_day": """
        t.n is distinct from g.rides or t.riders is distinct from g.riders
        or t.most is distinct from g.most
    """,
    "last_rides": """
        t.event_time is distinct from epoch_us(g.event_time) or t.fare is distinct from g.fare
        or t.riders is distinct from g.riders
    """,
}
