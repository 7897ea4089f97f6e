"""What begins or goes on beside a freeze; the freezes are made by hand."""

import random
from pathlib import Path

import pytest

from penstock.core.window import BEGINNING, micros
from penstock.lake.history.position import position
from penstock.lake.history.thinning import thin
from penstock.lake.ingest.verdict import IS_FROZEN
from penstock.lake.log.blocks import newest_live_before
from penstock.lake.log.freezes import APPLICATION, NOTHING, Freeze, asked, frozen
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests.joins import NOBODY, SLACK
from tests.lakes import Lake, make_lake
from tests.steps import CASES, make_several
from tests.streams import BEGIN, disordered, write_jsonl
from tests.two_streams import COLUMNS, EVER, rows_of

HOUR = 3_600_000_000
ID = {"column": "number", "horizon": "PT1H"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two files of a hundred records, of which a step has answered the first."""
    lake = make_lake(tmp_path, CASES["sites"])
    lake.query()
    rows = disordered(200, seed=3, apart=2.0)
    for number in range(2):
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", rows[100 * number : 100 * (number + 1)])
        lake.ingest()
        if not number:
            lake.query().run()
    return lake


def freeze(lake: Lake, *, done: bool) -> Freeze:
    """All that is there; records of the first hour are refused from now on."""
    newest = newest_live_before(lake.tables, 10_000)
    one = Freeze(0, 199, 2, newest, newest + 1, micros(BEGIN) + HOUR, {}, done)
    spec = lake.tables.freezes()
    Table(spec).append(one.rows(spec, lake.clock.now()), APPLICATION, int(done))
    return one


def test_there_is_none_at_first(lake: Lake) -> None:
    assert asked(lake.tables) == frozen(lake.tables) == NOTHING
    assert NOTHING.refused_before == BEGINNING
    assert (NOTHING.number, NOTHING.seq, NOTHING.block) == (-1, -1, 0), "the first is number 0"


def test_the_row_that_took_effect_counts(lake: Lake) -> None:
    first = freeze(lake, done=False)
    assert (asked(lake.tables), frozen(lake.tables)) == (first, NOTHING)
    second = freeze(lake, done=True)
    assert asked(lake.tables) == frozen(lake.tables) == second


def test_the_door_refuses_older_records_with_its_next_plan(lake: Lake) -> None:
    freeze(lake, done=False)
    late, *_ = disordered(1, seed=1)
    young = late | {"event_time": "2024-03-01T05:00:00Z"}
    write_jsonl(lake.home / "live" / "2.jsonl", [late, young])
    lake.ingest()
    rows = read_table(Table(lake.tables.quarantine())).to_pylist()
    assert [(row["arrival_seq"], row["reason"]) for row in rows] == [(200, IS_FROZEN)]
    plans = read_table(Table(lake.tables.plans())).sort_by("number")["refused_before_us"]
    assert plans.to_pylist() == [None, None, micros(BEGIN) + HOUR]


def test_a_step_that_stood_before_what_went_begins_behind_it(lake: Lake) -> None:
    going_on = lake.query().generation
    assert (going_on.epoch, going_on.frozen) == (0, -1)
    freeze(lake, done=True)
    again = lake.query().generation
    assert (again.epoch, again.number, again.frozen, again.seq) == (1, 1, 199, 199)


def test_a_changed_step_begins_behind_what_was_asked_for(lake: Lake) -> None:
    gone = freeze(lake, done=False)
    lake.edit(measures={"n": "count(*)"})
    found = lake.query().generation
    assert found.frozen == gone.seq
    lake.query().run()
    assert lake.correct() == 0, "no record of its history is left"
    at = position(lake.tables, lake.step)
    assert at is not None
    assert not at.owes


def test_records_whose_ids_may_be_repeated_stay_of_each_source_apart(tmp_path: Path) -> None:
    sources = {}
    for name, more in {"cars": {"id": ID}, "cameras": {}}.items():
        (tmp_path / name).mkdir()
        place = {"files": str(tmp_path / name), "format": "jsonl"}
        columns = COLUMNS[name] | {"number": "string"}
        sources[name] = {"source": place, "columns": columns, "event_time": "at"} | EVER | more
        rows = rows_of(random.Random(1), name, 20, 0)  # noqa: S311
        write_jsonl(
            tmp_path / name / "0.jsonl", [{**row, "number": str(n)} for n, row in enumerate(rows)]
        )
    step = {"stream": "cars", "window": {"size": "PT4S"}, "measures": {"n": "count(*)"}, **SLACK}
    lake = Lake(tmp_path, make_several(tmp_path, sources, {"s": step}), NOBODY, {})
    lake.query()
    lake.ingest()
    lake.query().run()
    blocks = read_table(Table(lake.tables.blocks())).sort_by("block").to_pylist()
    gone = Freeze(0, blocks[-1]["last_seq"], blocks[-1]["block"] + 1, 0, 1, 1, {}, frozen=True)
    spec = lake.tables.freezes()
    Table(spec).append(gone.rows(spec, lake.clock.now()), APPLICATION, 0)
    assert thin(lake.tables, lake.pipeline)["events, frozen"] == 20
    left = read_table(Table(lake.tables.events(lake.pipeline.types)))
    assert left["stream"].to_pylist() == ["cars"] * 20
