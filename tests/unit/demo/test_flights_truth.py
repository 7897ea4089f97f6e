# Annotations stay text: evaluated ones keep DuckDB's types alive until it complains at exit.
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from benchmarks.flights_truth import (
    FAKE,
    STEPS,
    alarms,
    answer,
    compare,
    derive_sightings,
    raw_folder,
)
from penstock.config.catalog import read_pipeline
from penstock.runtime.demo.flights import write_flights
from penstock.runtime.demo.truth import Truth

FILE = Path(__file__).parents[3] / "include" / "pipelines" / "flights.yaml"


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    derive_sightings(connection, raw_folder())
    connection.execute(
        "delete from sighting where event_time not between '2013-10-01' and '2013-10-04'"
    )
    answer(connection, "sightings_per_site")
    yield connection
    connection.close()


def verdicts(db: duckdb.DuckDBPyConnection, folder: Path, answers: str) -> dict[str, int]:
    """Of a file of answers that is the truth but for what ``answers`` changes."""
    path = folder / "sightings_per_site.parquet"
    db.sql(answers).write_parquet(str(path))
    counts = compare(db, "sightings_per_site", path)
    counts.pop("equal")
    return counts


TRUTH = "select * exclude (mean_delay_scale) from truth"
ONE = "window_start = '2013-10-01 12:00:00Z' and site = 'JFK'"


def with_one(column: str, value: str) -> str:
    """The truth with one row changed."""
    return f"select * replace (if({ONE}, {value}, {column}) as {column}) from ({TRUTH})"


def with_another(site: str) -> str:
    """The truth with one more row."""
    return f"{TRUTH} union all select * replace ({site} as site) from ({TRUTH} where {ONE})"


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        (TRUTH, {}),
        # instants without a zone are UTC, and the order of rows does not matter
        (
            "select * exclude (mean_delay_scale) replace (window_start::timestamp as window_start,"
            " window_end::timestamp as window_end) from truth order by random()",
            {},
        ),
        (f"{TRUTH} where not ({ONE})", {"missing": 1}),
        (f"{TRUTH} union all {TRUTH} where {ONE}", {"doubled": 2}),
        (with_another("'ZZZ'"), {"extra": 1}),
        (with_another("null"), {"extra": 1}),
        (with_one("sightings", "sightings + 1"), {"different": 1}),
        (with_one("n_records", "n_records - 1"), {"different": 1}),
        (with_one("worst_delay", "worst_delay + 1e-9"), {"different": 1}),
        (with_one("worst_delay", "null"), {"different": 1}),
        (with_one("mean_delay", "mean_delay + 1e-11"), {}),
        (with_one("mean_delay", "mean_delay + 1e-6"), {"different": 1}),
        (with_one("mean_delay", "null"), {"different": 1}),
        (with_one("mean_delay", "'nan'::double"), {"different": 1}),
        (with_one("window_end", "window_end + to_minutes(1)"), {"extra": 1, "missing": 1}),
    ],
)
def test_whatever_is_not_the_truth_is_counted(
    db: duckdb.DuckDBPyConnection, tmp_path: Path, answers: str, found: dict[str, int]
) -> None:
    assert verdicts(db, tmp_path, answers) == found


@pytest.fixture(scope="module")
def year() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    derive_sightings(connection, raw_folder())
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """The alarms that the demo compares with: by other SQL, from the files it writes."""
    home = tmp_path_factory.mktemp("home")
    flights = write_flights(home / "demo" / "flights").folder
    files = sorted(file for part in ("history", "live") for file in (flights / part).iterdir())
    pipeline, problems = read_pipeline(FILE)
    assert pipeline is not None, problems
    truth = Truth(pipeline, files, home)
    found = truth.alarms(pipeline.spec(FAKE)).to_arrow_table()
    truth.close()
    return found


FIRST = "new_seq = (select min(new_seq) from given)"


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ("from given", {"equal": 268}),
        (f"from given where not {FIRST}", {"equal": 267, "missing": 1}),
        (f"from given union all from given where {FIRST}", {"equal": 267, "doubled": 1}),
        (f"select * replace (if({FIRST}, 'ZZZ', new_site) as new_site) from given",
         {"equal": 267, "missing": 1, "extra": 1}),
        (f"select * replace (if({FIRST}, new_time + to_minutes(1), new_time) as new_time)"
         " from given", {"equal": 267, "missing": 1, "extra": 1}),
    ],
)  # fmt: skip
def test_alarms_are_compared_with_the_raw_flights(
    year: duckdb.DuckDBPyConnection, told: pa.Table, tmp_path: Path, answers: str,
    found: dict[str, int],
) -> None:  # fmt: skip
    path = tmp_path / "fake_plates.parquet"
    year.register("given", told)
    year.sql(answers).write_parquet(str(path))
    assert alarms(year, raw_folder(), path) == found


def test_the_questions_are_those_of_the_pipeline_file() -> None:
    pipeline, problems = read_pipeline(FILE)

    assert pipeline is not None, problems
    asked = {
        name: ([q.key], q.size_minutes, q.slide_minutes, [*q.measures, *q.newest])
        for name, q in STEPS.items()
    }
    minute = 60_000_000
    assert asked == {
        name: (
            [*step.key_names],
            step.window.size // minute,
            step.window.slide // minute,
            [value.name for value in step.values if value.name != "arrival_seq"],
        )
        for name, step in ((step.name, step) for step in pipeline.specs)
        if name != FAKE
    }
