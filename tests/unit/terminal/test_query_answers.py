from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.lake.serve.query import answered
from penstock.lake.serve.views import View, views

World = Any
Run = Callable[..., tuple[int, str, str]]


def ask(world: World, sql: str) -> list[tuple[Any, ...]]:
    with answered(views(world.tables, world.pipeline), sql) as found:
        return found.fetchall()


def test_a_view_for_the_answers_in_force_and_one_for_the_timely_ones(corrected: World) -> None:
    sql = "SELECT door, minute(window_start), people FROM {} ORDER BY ALL"

    assert ask(corrected, sql.format("per_door")) == [("A", 0, 2), ("B", 1, 1), ("B", 2, 2)]
    assert ask(corrected, sql.format("per_door_timely")) == [("A", 0, 1), ("B", 2, 2)]


def test_the_log_can_be_asked(corrected: World) -> None:
    assert ask(corrected, "SELECT count(*), max(origin) FROM events") == [(5, "live")]
    assert ask(corrected, "SELECT arrival_seq, reason FROM quarantine") == [(2, "missing key")]
    joined = "SELECT count(*) FROM per_door JOIN events USING (door)"
    assert ask(corrected, joined) == [(8,)]


def test_before_anything_ran_the_views_are_empty(world: World) -> None:
    assert ask(world, "SELECT people FROM per_door UNION ALL SELECT block FROM events") == []


def test_only_views_that_are_mentioned_are_read(corrected: World) -> None:
    known = views(corrected.tables, corrected.pipeline)

    def unread() -> Any:
        raise AssertionError("read without need")

    known["events"] = View("", known["events"].schema, unread)
    with answered(known, "SELECT count(*) FROM per_door") as found:
        assert found.fetchall() == [(3,)]


def test_instants_are_utc(corrected: World, run: Run) -> None:
    _, said, _ = run("query", "doors", "SELECT max(window_start) AS latest FROM per_door")

    assert "2024-05-01 10:02" in said


def test_long_results_are_cut_unless_all_is_wanted(corrected: World, run: Run) -> None:
    _, some, _ = run("query", "doors", "SELECT unnest(range(60)) AS n")
    _, every, _ = run("query", "doors", "SELECT unnest(range(60)) AS n", "--all")

    assert "The first 50 rows" in some
    assert "60 rows" in every


@pytest.mark.parametrize(
    ("sql", "complaint"),
    [
        ("SELECT * FROM per_floor", "Views: per_door, passing"),
        ("SELECT nothing FROM per_door", "nothing"),
        ("SELEC", "syntax error"),
    ],
)
def test_wrong_sql_is_one_message(corrected: World, run: Run, sql: str, complaint: str) -> None:
    status, _, complained = run("query", "doors", sql)

    assert status == 1
    assert complaint in complained


@pytest.mark.parametrize(
    "sql",
    [
        "FROM '{folder}/secret.csv'",
        "SELECT * FROM read_csv('{folder}/secret.csv')",
        "SELECT * FROM read_text('{folder}/*')",
        "SELECT * FROM read_parquet('{folder}/*.parquet')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM sniff_csv('{folder}/secret.csv')",
        "SELECT * FROM settings",  # a variable of the process that asks
        "COPY (FROM per_door) TO '{folder}/made.csv'",
        "COPY (FROM per_door) TO ':memory:.wal' (FORMAT csv)",
        "EXPLAIN ANALYZE COPY (FROM per_door) TO '{folder}/made.csv'",
        "SELECT 1; COPY (FROM per_door) TO '{folder}/made.csv'",
        "ATTACH '{folder}/made.db'",
        "EXPORT DATABASE '{folder}/made'",
        "IMPORT DATABASE '{folder}'",
        "INSTALL httpfs",
        "FORCE INSTALL httpfs FROM '{folder}'",
        "LOAD '{folder}/secret.csv'",
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "RESET lock_configuration",
        "PRAGMA enable_profiling",
        "CREATE PERSISTENT SECRET s (TYPE http)",
        "CREATE TABLE made AS FROM per_door",
        "CALL enable_logging()",
    ],
)
def test_a_query_reaches_the_views_and_nothing_else(
    corrected: World, run: Run, tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch, sql: str,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret.csv").write_text("a,b\n1,hidden\n")
    monkeypatch.chdir(folder)

    for output in ([], ["--output", str(folder / "wanted.csv")]):
        status, said, complained = run("query", "doors", sql.format(folder=folder), *output)

        assert status == 1
        assert "hidden" not in said + complained
        assert complained.startswith("penstock: ")
        assert [path.name for path in folder.iterdir()] == ["secret.csv"]


def test_a_question_may_take_any_form(corrected: World) -> None:
    assert ask(corrected, "FROM per_door SELECT count(*);") == [(3,)]
    assert ask(corrected, "WITH a AS (FROM per_door) SELECT max(people) FROM a") == [(2,)]
    assert len(ask(corrected, "DESCRIBE per_door")) > 3
    assert ask(corrected, "EXPLAIN FROM per_door")
    pivot = "PIVOT (SELECT door, people FROM per_door) ON door USING sum(people)"
    assert ask(corrected, pivot) == [(2, 3)]


def test_more_than_fits_into_memory_goes_to_a_folder_of_the_query_alone(
    corrected: World,
) -> None:
    known = views(corrected.tables, corrected.pipeline)
    with answered(known, "SELECT current_setting('temp_directory')") as found:
        (folder,) = (Path(row[0]) for row in found.fetchall())
        assert folder.parent == Path(gettempdir())
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()


def test_without_sql_the_views_are_listed(world: World, run: Run) -> None:
    status, said, _ = run("query", "doors")

    assert status == 0
    assert all(name in said for name in ("per_door", "passing_timely", "events", "quarantine"))


def test_a_moment_of_nothing_is_refused(corrected: World, run: Run) -> None:
    status, _, wrong = run("query", "doors", "--as-of", "4")
    assert status == 1
    assert "a moment goes with SQL, which is answered as of it. Write some as well" in wrong


def test_a_result_can_be_written(corrected: World, run: Run, tmp_path: Path) -> None:
    sql = "SELECT door, people FROM per_door ORDER BY ALL"
    run("query", "doors", sql, "--output", str(tmp_path / "out.parquet"))
    run("query", "doors", sql, "--output", str(tmp_path / "out.csv"))
    status, _, complained = run("query", "doors", sql, "--output", str(tmp_path / "out.xls"))

    assert pq.read_table(tmp_path / "out.parquet")["people"].to_pylist() == [2, 1, 2]
    assert (tmp_path / "out.csv").read_text().splitlines() == ["door,people", "A,2", "B,1", "B,2"]
    assert status == 1
    assert ".parquet or .csv" in complained
    assert sorted(p.name for p in tmp_path.glob("out*")) == ["out.csv", "out.parquet"]


def test_export_writes_the_answers_in_force(corrected: World, run: Run, tmp_path: Path) -> None:
    status, _, _ = run("export", "doors", str(tmp_path / "out"))

    written = pq.read_table(tmp_path / "out" / "per_door.parquet")
    assert status == 0
    assert written.column_names == [
        "window_start", "window_end", "door", "people", "mean_seconds", "n_records", "revision",
        "reason", "through_seq",
    ]  # fmt: skip
    assert written.num_rows == 3
    assert written["window_start"][0].as_py() == datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert pq.read_table(tmp_path / "out" / "passing.parquet").num_rows == 0


def test_export_to_a_place_that_is_no_folder(corrected: World, run: Run, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")

    status, _, complained = run("export", "doors", str(tmp_path / "out"))

    assert status == 1
    assert "Name another folder" in complained


def test_a_moment_before_the_correction_shows_what_was_said_then(
    corrected: World, run: Run, tmp_path: Path
) -> None:
    sql = "SELECT door, people FROM per_door"
    status, said, _ = run("query", "doors", sql, "--as-of", "4")
    assert status == 0
    assert "1 row\n" in said
    assert "As of record 4 of the log." in said
    _, said, _ = run("query", "doors", sql, "--as-of", "6")
    assert "3 rows" in said
    _, said, _ = run("export", "doors", str(tmp_path / "out"), "--as-of", "4")
    assert "As of record 4 of the log." in said
    assert pq.read_table(tmp_path / "out" / "per_door.parquet")["people"].to_pylist() == [1]


def test_a_moment_that_is_none_is_said(corrected: World, run: Run) -> None:
    status, _, wrong = run("query", "doors", "FROM per_door", "--as-of", "noon")
    assert status == 1
    assert "as of noon: that is no moment. Name a record by its number" in wrong
