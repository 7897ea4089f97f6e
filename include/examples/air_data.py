"""Hourly measures of twelve stations as a stream: each arrives later than it was taken.

    python include/examples/air_data.py FOLDER_OF_CSV .penstock/demo/air/live

No one wrote down when the measures arrived. Here 70 of 100 come within minutes, 25 within hours,
and 5 within nine days. A file holds what arrived in a month.
"""

import sys
from pathlib import Path

import duckdb

ARRIVED = """
    WITH measure AS (
        SELECT make_timestamp(year, month, day, hour, 0, 0.0) AS measured, station,
            "PM2.5" AS pm25, (No * 7919 + No // 977 * 31 + length(station) * 57) % 1000 AS lot
        FROM read_csv($folder || '/PRSA_Data_*.csv', nullstr = 'NA', union_by_name = true)
    )
    SELECT measured, station, pm25, measured + CASE
        WHEN lot < 700 THEN (1 + lot % 5) * INTERVAL 1 MINUTE
        WHEN lot < 950 THEN lot * INTERVAL 20 SECOND
        ELSE lot * INTERVAL 13 MINUTE END AS arrived
    FROM measure ORDER BY arrived, station, measured
"""


def main(source: str, target: Path) -> None:
    """Write them."""
    target.mkdir(parents=True, exist_ok=True)
    duckdb.execute("CREATE TABLE arrived AS " + ARRIVED, {"folder": source})
    months = duckdb.sql("SELECT DISTINCT strftime(arrived, '%Y-%m') FROM arrived ORDER BY 1")
    for (month,) in months.fetchall():
        path = target / f"{month}.parquet"
        rows = duckdb.sql("FROM arrived").filter(f"strftime(arrived, '%Y-%m') = '{month}'")
        rows.write_parquet(str(path.with_suffix(".new")))
        path.with_suffix(".new").rename(path)
    ((count,),) = duckdb.sql("SELECT count(*) FROM arrived").fetchall()
    sys.stdout.write(f"{count:,} records in {target}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
