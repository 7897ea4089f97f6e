"""What it costs to find the answers in force at each read, beside writing them anew.

    python benchmarks/folding.py [--days 100] [--touched 1000 100 10]

Answers of so many days, 14,400 a day, of which one of ``touched`` was corrected. ``merged`` is the
product's view: DuckDB finds what is in force while it reads. ``written`` reads a table that holds
just that, sorted, a day a file; ``writing`` is what it takes to make it. From so many reads of
everything a correction on, writing anew would be cheaper.
"""

import argparse
import tempfile
import time
from pathlib import Path

import duckdb
import measuring
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from age import DAY, FIRST, SECOND, aged, seconds

from penstock.lake.history.standing import answers_in_force
from penstock.lake.serve.query import answered
from penstock.lake.serve.views import views

WHOLE = "SELECT key, sum(n) FROM s GROUP BY ALL"


def hour(days: int) -> str:
    """A question about the last hour but those of the last day."""
    end = FIRST + (days - 1) * DAY * SECOND
    span = f"make_timestamptz({end - 3_600 * SECOND}) AND make_timestamptz({end})"
    return f"SELECT key, sum(n) FROM s WHERE window_start BETWEEN {span} GROUP BY ALL"


def measured(home: Path, days: int, touched: int) -> tuple[float, ...]:
    """Milliseconds: everything merged, written; an hour merged, written; writing; and the reads."""
    pipeline, tables, step = aged(home, days, 10, touched)

    def merged(sql: str) -> list[tuple[object, ...]]:
        with answered(views(tables, pipeline), sql) as found:
            return found.fetchall()

    began, folder = time.perf_counter(), home / "written"
    folder.mkdir()
    rows = answers_in_force(tables, step)
    of = pc.cast(pc.floor_temporal(rows["window_start"], unit="day"), "int64")
    for day in range(days):
        start = FIRST + day * DAY * SECOND
        pq.write_table(rows.filter(pc.equal(of, start)), folder / f"{day:05}.parquet")
    writing = time.perf_counter() - began

    def written(sql: str) -> list[tuple[object, ...]]:
        with duckdb.connect() as connection:
            connection.register("s", ds.dataset(folder, format="parquet"))
            return connection.sql(sql).fetchall()

    found = []
    for sql in (WHOLE, hour(days)):
        if sorted(merged(sql)) != sorted(written(sql)):
            raise SystemExit(f"the two differ: {sql}")
        found += [seconds(lambda sql=sql: merged(sql)), seconds(lambda sql=sql: written(sql))]
    reads = writing / (found[0] - found[1])
    return (*(1e3 * each for each in (*found, writing)), reads)


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=100)
    parser.add_argument("--touched", type=int, nargs="*", default=[1_000, 100, 10])
    args = parser.parse_args()
    state, body = measuring.machine(), []
    for touched in args.touched:
        with tempfile.TemporaryDirectory() as scratch:
            *times, reads = measured(Path(scratch), args.days, touched)
            body.append((f"1 of {touched:,}", *(f"{each:,.0f}" for each in times), f"{reads:.1f}"))
    heads = ("corrected", "everything: merged, ms", "written, ms", "an hour: merged, ms",
             "written, ms", "writing, ms", "reads a correction")  # fmt: skip
    print(f"\n{state}\n")
    print(measuring.markdown(heads, body))


if __name__ == "__main__":
    main()
