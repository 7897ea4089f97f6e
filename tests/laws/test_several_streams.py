"""Several sources, one log: laws 0 to 2, 3 and 6 for the steps over each of its streams.

Each step answers what the oracle answers from its stream's blocks alone, whatever comes of the
other streams, wherever the log is cut, and whoever dies.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.config.step import StepConfig
from penstock.core.window import FOREVER
from penstock.lake.history.generation import generations
from penstock.lake.history.position import position
from penstock.lake.history.standing import timely_answers
from penstock.lake.ingest import door as door_module
from penstock.lake.log.blocks import LIVE
from penstock.lake.proof.recount import recount
from penstock.lake.proof.retrace import Plans, read_plans, retrace
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests import reference as ref
from tests.answers import rows_by_pair
from tests.doubles import deadly_commits, lose_memory
from tests.lakes import Lake
from tests.rarely import rare
from tests.rivers import River, Rivers, some_far, some_near

pytestmark = pytest.mark.law
PATIENT = "PT1H"
BOUNDED = {"near": "bounded", "far": "bounded"}
LIVING = {"near": "live", "far": "live"}
FEW, MANY = range(3), range(3, 60)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)


def sealed(rivers: Rivers) -> list[dict[str, Any]]:
    return read_table(Table(rivers.tables.blocks())).sort_by("block").to_pylist()


def filled(home: Path, modes: dict[str, str], *names: str) -> Rivers:
    rivers = Rivers(home, modes, *names)
    rivers.query()
    for number in range(4):
        rivers.put("near", some_near(12, number))
        rivers.put("far", some_far(9, number))
    rivers.ingest()
    return rivers


def audited(lake: Lake) -> list[str]:
    """What the audit's count and fold of a step find wrong."""
    tables, step = lake.tables, lake.step
    at, types = position(tables, step), lake.pipeline.types
    assert at is not None
    again = recount(
        tables, tables.events(types), at.sealed.seq, at.sealed.block, streams=step.streams
    )
    planned = Plans([r for r in read_plans(tables, step) if r["epoch"] == at.epoch.number])
    trace = retrace(
        tables, tables.events(types, step.streams), step, again.blocks, at,
        generations(tables, step), planned,
    )  # fmt: skip
    assert (again.missing, again.doubled) == (0, 0)
    return [fault.what for some in (again.faults, trace.batches, trace.generations, trace.plans)
            for fault in some]  # fmt: skip


@pytest.mark.parametrize("seed", [*FEW, *map(rare, MANY)])
def test_a_life_of_two_streams(tmp_path: Path, seed: int) -> None:
    river = River(tmp_path, seed)
    with deadly_commits(river.death):
        for _ in range(60):
            river.step()
    river.check()
    river.finish()
    river.check()
    received = Counter[str]()
    for row in sealed(river):
        received[row["stream"]] += row["last_seq"] - row["first_seq"] + 1
    assert received == river.lines, "every record is numbered once"
    for lake in river.lakes.values():
        assert audited(lake) == []


def test_any_cut_gives_the_same_answers(tmp_path: Path) -> None:
    found = []
    for blocks in (1, 2, 3, 1_000):
        rivers = filled(tmp_path / str(blocks), BOUNDED, "sites", "codes")
        rivers.query(blocks=blocks).run()
        rivers.check()
        lakes = rivers.lakes.values()
        found.append([
            rows_by_pair(lake.step, timely_answers(lake.tables, lake.step), "through_seq")
            for lake in lakes
        ])  # fmt: skip
    names = [[*(v.name for v in lake.step.values), "n_records", "seq"] for lake in lakes]
    plain = [
        [{p: [row[n] for n in ns] for p, row in rows.items()}
         for ns, rows in zip(names, some, strict=True)]
        for some in found
    ]  # fmt: skip
    assert plain[0][0]
    assert plain[0][1]
    assert all(each == plain[0] for each in plain)


def test_what_one_stream_answers_does_not_hang_on_the_other(tmp_path: Path) -> None:
    """But for the numbers of its records."""
    answers = []
    for far in (0, 9):
        rivers = Rivers(tmp_path / str(far), BOUNDED, "sites", "codes")
        rivers.query()
        for number in range(4):
            rivers.put("near", some_near(12, number))
            rivers.put("far", some_far(far, number))
        rivers.ingest()
        rivers.query(blocks=2).run()
        lake = rivers.lakes["sites"]
        assert lake.correct() > 0
        answers.append(lake.in_force())
    assert answers[0] == answers[1]


def test_the_stream_whose_event_times_are_behind_is_taken_from_next(tmp_path: Path) -> None:
    rivers = Rivers(tmp_path, LIVING, "sites", "codes", idle_after=PATIENT)
    door, taken = rivers.door(), []
    for number, (near, far) in enumerate([(10, 5), (20, 15), (30, 40)]):
        rivers.put("near", [f'{{"site": "a", "event_time": "2024-03-01T00:00:{near}Z"}}'])
        rivers.put("far", [f"1,a,1.0,1,true,{1_709_251_200_000 + far * 1_000}"])
        for _ in range(2):
            door.work()
        taken.append([row["stream"] for row in sealed(rivers)[2 * number :]])
    assert taken == [["far", "near"], ["far", "near"], ["far", "near"]]
    rows = {row["stream"]: row for row in sealed(rivers)}
    assert {name: row["lateness_us"] for name, row in rows.items()} == {"near": 0, "far": 0}


def test_all_of_the_one_behind_comes_before_more_of_the_one_ahead(tmp_path: Path) -> None:
    rivers = Rivers(tmp_path, LIVING, "sites", "codes", idle_after=PATIENT)
    door = rivers.door()
    rivers.put("near", ['{"site": "a", "event_time": "2024-03-01T06:00:00Z"}'])
    assert door.work() == 1
    for minute in (1, 2, 3):
        rivers.put("near", [f'{{"site": "a", "event_time": "2024-03-01T06:0{minute}:00Z"}}'])
        rivers.put("far", [f"1,a,1.0,1,true,{1_709_251_200_000 + minute * 60_000}"])
        assert door.work() == 1
    assert [row["stream"] for row in sealed(rivers)] == ["near", "far", "far", "far"]


def test_a_stream_that_ends_closes_its_windows_and_no_others(tmp_path: Path) -> None:
    rivers = filled(tmp_path, {"near": "bounded", "far": "live"}, "sites", "codes")
    rivers.query().run()
    marks = {}
    for name, lake in rivers.lakes.items():
        at = position(lake.tables, lake.step)
        assert at is not None
        marks[name] = at.sealed.state.watermark
    assert marks["sites"] == FOREVER
    assert marks["codes"] < FOREVER
    assert [row["stream"] for row in sealed(rivers) if row["kind"] == ref.END] == ["near"]
    rivers.put("far", some_far(9, 99))
    assert rivers.ingest() == 9
    rivers.query().run()
    rivers.check()


def test_a_silent_stream_says_so_while_another_goes_on(tmp_path: Path) -> None:
    rivers = Rivers(tmp_path, LIVING, "sites", "codes")
    rivers.put("near", some_near(3, 1))
    rivers.put("far", some_far(3, 1))
    door = rivers.door()
    for number in range(2, 6):
        door.work()
        rivers.put("near", some_near(3, number))
    idle = [row["stream"] for row in sealed(rivers) if row["kind"] == ref.IDLE]
    assert "far" in idle
    rivers.query().run()
    rivers.check()


def test_an_id_names_a_record_of_its_stream(tmp_path: Path) -> None:
    rivers = Rivers(tmp_path, LIVING, "sites", "codes")
    for name in rivers.sources:
        rivers.sources[name] = rivers.sources[name] | {"id": {"column": "site"}}
    near = ['{"site": "a", "event_time": "2024-03-01T00:00:00Z"}']
    rivers.put("near", near * 2)
    rivers.put("far", ["1,a,1.0,1,true,1709251200000"] * 3)
    rivers.ingest(LIVE)
    rows = read_table(Table(rivers.tables.quarantine())).to_pylist()
    assert Counter((row["stream"], row["reason"]) for row in rows) == {
        ("near", "repeated id"): 1, ("far", "repeated id"): 2,
    }  # fmt: skip


def test_a_block_under_the_name_of_another_stream_is_found(tmp_path: Path) -> None:
    rivers = filled(tmp_path, BOUNDED, "sites", "codes")
    rivers.query().run()
    lake = rivers.lakes["sites"]
    assert audited(lake) == []
    table = Table(rivers.tables.blocks())
    rows = read_table(table).to_pylist()
    victim = next(row for row in rows if row["stream"] == "far" and row["accepted"] > 1)
    victim["stream"] = "near"
    content = pa.Table.from_pylist(rows, schema=pa.schema(table.refresh().schema()))
    write_deltalake(table.refresh(), content, mode="overwrite")
    found = audited(lake)
    assert "block unlike its records" in found
    assert "block of another stream than its plan" in found


def test_a_step_over_several_streams_waits_for_the_slowest_that_is_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the log is cut, with the watermarks that the audit folds itself."""
    monkeypatch.setattr(StepConfig, "streams", ("near", "far"))
    answers = []
    for blocks in (1, 2, 1_000):
        rivers = filled(tmp_path / str(blocks), LIVING, "sites")
        lake = rivers.lakes["sites"]
        assert lake.step.streams == ("near", "far")
        for _ in range(5 if blocks == 2 else 0):  # it begins anew, from what is written down
            rivers.query(blocks=blocks).work()
            lose_memory(lake.checkpoint, "all")
        rivers.query(blocks=blocks).run()
        assert audited(lake) == []
        rows = timely_answers(lake.tables, lake.step)
        found = rows_by_pair(lake.step, rows, "through_seq")
        answers.append({pair: (row["n"], row["seq"]) for pair, row in found.items()})
    assert answers[0]
    assert answers[1:] == answers[:-1]
