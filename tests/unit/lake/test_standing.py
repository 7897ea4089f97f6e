"""What readers are shown after a step was defined anew, and of steps that stand apart."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.columns.types import INSTANT
from penstock.core.errors import ConfigError
from penstock.lake.history.position import position, rows_of
from penstock.lake.history.standing import answers_in_force, standing, timely_answers, told
from penstock.lake.ingest import door as door_module
from penstock.lake.serve.export import export
from penstock.lake.serve.query import answered, as_of
from penstock.lake.serve.views import views
from tests import reference as ref
from tests.answers import assert_same, blocks_of, rows_by_pair
from tests.lakes import Lake, make_lake, some_rows
from tests.steps import CASES, CODES, CODES_REF, make_pipeline
from tests.streams import write_jsonl

Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    live = {"source": {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "live"}}
    lake = make_lake(tmp_path, CASES["sites"], **live)
    lake.query()
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(60, 11))
    lake.ingest()
    lake.query().run()
    return lake


def ask(lake: Lake, sql: str) -> list[tuple[Any, ...]]:
    with answered(views(lake.tables, lake.pipeline), sql) as found:
        return found.fetchall()


def waits(lake: Lake) -> str:
    found = standing(lake.tables, lake.step)
    assert found is not None
    return found.waits


def test_readers_keep_the_former_answers_until_the_new_definition_has_said_as_much(
    lake: Lake,
) -> None:
    former = lake.step
    before, timely = answers_in_force(lake.tables, former), timely_answers(lake.tables, former)
    assert before.num_rows
    assert waits(lake) == ""

    lake.edit(window={"size": "PT100S"}, measures={"cars": "count(*)"}, keys=["site", "code"])
    new = lake.step
    assert answers_in_force(lake.tables, new).equals(before)
    assert waits(lake) == "has not been started"

    query = lake.query()
    assert answers_in_force(lake.tables, new).equals(before)
    assert waits(lake) == "has sealed nothing yet"

    write_jsonl(lake.home / "live" / "1.jsonl", some_rows(20, 12))
    lake.ingest()
    query.run()
    assert position(lake.tables, new) is not None
    assert answers_in_force(lake.tables, new).equals(before)
    assert timely_answers(lake.tables, new).equals(timely)
    assert waits(lake) == "has not answered its history yet"

    lake.correct()
    assert waits(lake) == ""
    assert answers_in_force(lake.tables, new).column_names[:2] == ["site", "code"]
    assert ask(lake, "SELECT sum(cars) > 0 FROM s") == [(True,)]


def test_sql_and_files_show_the_former_columns_and_say_so(lake: Lake, tmp_path: Path) -> None:
    count = ask(lake, "SELECT count(*), sum(n) FROM s")
    lake.edit(window={"size": "PT100S"}, measures={"cars": "count(*)"})

    known = views(lake.tables, lake.pipeline)
    assert ask(lake, "SELECT count(*), sum(n) FROM s") == count
    assert "n" in known["s"].schema.names
    found = standing(lake.tables, lake.step)
    assert found is not None
    said = told(lake.step, found)
    assert known["s"].note == said
    assert f"That of the pipeline file, {lake.step.fingerprint}, has not been started" in said
    (written,) = export(lake.tables, lake.pipeline, tmp_path / "out")
    assert (written.answers, written.note) == (count[0][0], said)
    assert "n" in pq.read_schema(written.path).names


def test_the_new_definition_is_shown_once_it_closed_what_the_former_had(lake: Lake) -> None:
    lake.correct()
    before = answers_in_force(lake.tables, lake.step)
    lake.edit(window={"size": "PT100S"}, slack={"fixed": "PT20M"})
    query = lake.query()
    write_jsonl(lake.home / "live" / "1.jsonl", some_rows(5, 12)[:4])
    lake.ingest()
    query.run()
    lake.correct()
    at = position(lake.tables, lake.step)
    assert at is not None
    assert not at.owes
    assert waits(lake).startswith("has not closed its windows up to ")
    assert answers_in_force(lake.tables, lake.step).equals(before)
    last = some_rows(1, 12)[0] | {"event_time": before["window_end"][-1].as_py().replace(hour=23)}
    write_jsonl(lake.home / "live" / "2.jsonl", [last])
    lake.ingest()
    query.run()
    assert waits(lake) == ""


def test_a_definition_edited_back_goes_on_from_the_one_that_stands(lake: Lake) -> None:
    before = answers_in_force(lake.tables, lake.step)
    first = lake.step
    lake.edit(window={"size": "PT100S"})
    lake.query()
    lake.edit(window=CASES["sites"][0]["window"])
    assert lake.step == first
    assert answers_in_force(lake.tables, lake.step).equals(before)
    lake.query().run()
    lake.correct()
    assert waits(lake) == ""
    lake.check()


def test_a_former_definition_without_answers_holds_nobody_up(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, CASES["sites"])
    lake.query()
    assert standing(lake.tables, lake.step) is None
    lake.edit(window={"size": "PT100S"})
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(40, 3))
    lake.ingest()
    lake.query().run()
    assert waits(lake) == ""


def test_a_stream_that_had_ended_and_goes_on_begins_anew_and_says_so(tmp_path: Path) -> None:
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "bounded"}
    lake = make_lake(tmp_path, CASES["sites"], source=source)
    lake.query()
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(40, 3))
    lake.ingest()
    lake.query().run()
    ended = answers_in_force(lake.tables, lake.step)
    assert ended.num_rows
    lake.config = lake.config | {"source": source | {"mode": "live"}}
    lake.edit()
    lake.query()
    assert answers_in_force(lake.tables, lake.step).equals(ended)
    found = standing(lake.tables, lake.step)
    assert found is not None
    assert told(lake.step, found) == (
        f"s: answers from before it began anew, as of record {found.at.seq + 1:,}. Its new"
        " beginning has sealed nothing yet."
    )


# ---- several steps ---------------------------------------------------------------------------


@pytest.fixture
def two(lake: Lake) -> tuple[Lake, Lake]:
    """A second step that stands behind the first one, inside a micro-batch of that."""
    steps = {"s": CASES["sites"][0], "t": CODES | {"apart": True}}
    config = lake.config | {"steps": steps}
    pipeline = make_pipeline(lake.home, **config)
    one = Lake(lake.home, pipeline, lake.oracle, config, clock=lake.clock)
    other = Lake(lake.home, pipeline, CODES_REF, config, name="t", clock=lake.clock)
    other.query()
    write_jsonl(lake.home / "live" / "1.jsonl", [
        {**row, "event_time": row["event_time"] + timedelta(minutes=5)}
        for row in some_rows(60, 13) if isinstance(row, dict)
    ])  # fmt: skip
    one.ingest()
    one.query().run()
    behind = other.query(blocks=4)
    behind.work()
    behind.work()
    return one, other


def test_one_statement_over_several_steps_is_as_of_one_record(two: tuple[Lake, Lake]) -> None:
    one, other = two
    ahead, behind = position(one.tables, one.step), position(other.tables, other.step)
    assert ahead is not None
    assert behind is not None
    assert behind.sealed.seq < ahead.sealed.seq
    assert behind.sealed.seq not in {row.seq for row in rows_of(one.tables, one.step, ahead)}
    known = views(one.tables, one.pipeline)
    assert as_of(known, "FROM s") == ahead.sealed.seq
    assert as_of(known, "FROM s, t") == as_of(known, "FROM T, events") == behind.sealed.seq
    assert as_of(known, "SELECT 1") is None
    with answered(known, "SELECT * FROM s, (SELECT count(*) AS ts FROM t)") as found:
        rows = found.to_arrow_table()
    at = rows.schema.get_field_index("window_start")
    rows = rows.set_column(at, "window_start", rows["window_start"].cast(INSTANT))
    blocks = blocks_of(one.tables, one.pipeline)[: behind.sealed.block]
    expected = ref.run(one.oracle, blocks).timely
    assert_same(expected, rows_by_pair(one.step, rows, "through_seq"))
    both = "SELECT (SELECT max(arrival_seq) FROM events), (SELECT max(through_seq) FROM t)"
    newest, through = ask(one, both)[0]
    assert through <= newest <= behind.sealed.seq


def test_files_of_several_steps_are_as_of_one_record(
    two: tuple[Lake, Lake], tmp_path: Path
) -> None:
    one, other = two
    behind = position(other.tables, other.step)
    assert behind is not None
    written = export(one.tables, one.pipeline, tmp_path / "out")
    assert {each.seq for each in written} == {behind.sealed.seq}
    newest = [max(pq.read_table(each.path)["through_seq"].to_pylist(), default=-1)
              for each in written]  # fmt: skip
    assert max(newest) <= behind.sealed.seq


# ---- files ----------------------------------------------------------------------------------


def test_no_answers_replace_a_file_that_holds_some_only_when_told(
    lake: Lake, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (written,) = export(lake.tables, lake.pipeline, out)
    held = written.path.read_bytes()
    empty = make_lake(tmp_path / "other", CASES["sites"])
    with pytest.raises(ConfigError, match=r"holds \d+ answers, .* Nothing was written.*--empty"):
        export(empty.tables, empty.pipeline, out)
    assert [p.name for p in out.iterdir()] == ["s.parquet"]
    assert written.path.read_bytes() == held
    (written,) = export(empty.tables, empty.pipeline, out, empty=True)
    assert pq.read_metadata(written.path).num_rows == 0
    export(empty.tables, empty.pipeline, out)  # none in the place of none


def test_a_killed_export_leaves_the_former_file(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    (written,) = export(lake.tables, lake.pipeline, out)
    held = written.path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(ConfigError, match="No space left"):
        export(lake.tables, lake.pipeline, out)
    assert written.path.read_bytes() == held
    assert [p.name for p in out.iterdir()] == ["s.parquet"]
