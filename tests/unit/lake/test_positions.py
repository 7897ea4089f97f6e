"""What a position rests on, read row by row: finished plans, history, generations, controllers."""

from pathlib import Path

import pytest

from penstock.lake.history import position as positions
from penstock.lake.history.balance import balance
from penstock.lake.history.generation import controller_at, generations
from penstock.lake.history.position import position
from penstock.lake.history.registry import Registry
from penstock.lake.history.sealed import last_sealed
from penstock.lake.ingest import door as door_module
from penstock.lake.log.blocks import HISTORY
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from tests import reference as ref
from tests.answers import blocks_of
from tests.doubles import FixedClock, Killed, deadly_commits, dies_at
from tests.lakes import make_lake, some_rows
from tests.steps import CODES, SITES, make_pipeline
from tests.streams import write_jsonl

ORACLE = ref.Step(("site",), ref.Window(60_000_000, 20_000_000), (ref.Measure("n", "count"),), ())
COUNTED = SITES | {"measures": {"n": "count(*)"}}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)


def test_a_plan_is_done_once_it_is_finished_and_history_is_owed_until_then(
    tmp_path: Path,
) -> None:
    folders = {name: {"files": str(tmp_path / name), "format": "jsonl"} for name in
               ("live", "history")}  # fmt: skip
    lake = make_lake(
        tmp_path, (COUNTED, ORACLE), source=folders["live"], history=folders["history"]
    )
    rows = some_rows(60, 11)
    write_jsonl(tmp_path / "history" / "0.jsonl", rows[:30])
    write_jsonl(tmp_path / "live" / "0.jsonl", rows[30:])
    lake.ingest(HISTORY)
    lake.query()
    lake.ingest()
    lake.query().run()
    with deadly_commits(dies_at(2)), pytest.raises(Killed):
        lake.correct()
    at = position(lake.tables, lake.step)
    assert at is not None
    assert (at.done, at.owes) == (frozenset(), True)
    planned = read_table(Table(lake.tables.corrections())).to_pylist()
    assert planned, "it died after it had planned"
    lake.correct()
    plans = read_table(Table(lake.tables.corrections())).to_pylist()
    at, kept = position(lake.tables, lake.step), balance(lake.tables, lake.step)
    assert at is not None
    assert kept is not None
    assert (at.done, at.owes) == ({p["plan"] for p in plans if p["state"] == "done"}, False)
    truth = ref.run(lake.epoch_oracle(), blocks_of(lake.tables, lake.pipeline), at.epoch.block)
    assert kept.preloaded == sum(a.n_records for a in truth.preloaded.values()) > 0
    assert kept.pairs == truth.pairs


def test_a_stream_without_history_owes_none(tmp_path: Path) -> None:
    lake = make_lake(tmp_path, (COUNTED, ORACLE))
    lake.query()
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(20, 11))
    lake.ingest()
    lake.query().run()
    at, kept = position(lake.tables, lake.step), balance(lake.tables, lake.step)
    assert at is not None
    assert kept is not None
    assert (at.owes, at.done, kept.preloaded) == (False, frozenset(), 0)


def test_the_generations_of_a_step_are_its_own(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, {"a": SITES, "b": CODES, "c": SITES})
    tables = Tables(str(tmp_path / "lake"), "p")
    Registry(tables, FixedClock(), pipeline).start_all()
    for step in pipeline.specs:
        found = [(g.step, g.fingerprint, g.number) for g in generations(tables, step)]
        assert found == [(step.name, step.fingerprint, 0)]


def test_the_controller_at_a_block_is_what_control_holds_there(tmp_path: Path) -> None:
    quality = {"epsilon": 0.1, "delta": 0.1, "records": 50, "cv": 0.3}
    steered = COUNTED | {"slack": {"quantile": {}}, "quality": quality}
    lake = make_lake(tmp_path, (steered, ORACLE))
    lake.query()
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(60, 11))
    lake.ingest()
    lake.query(blocks=4).run()
    rows = read_table(Table(lake.tables.control(lake.step))).sort_by("block").to_pylist()
    told = {row["block"]: row["controller"] for row in rows}
    assert len({*told.values()}) > 1
    for block, controller in told.items():
        assert controller_at(lake.tables, lake.step, 0, block) == controller
        assert controller_at(lake.tables, lake.step, 1, block) == "", "of another epoch"
    assert controller_at(lake.tables, lake.step, 0, max(told) + 1) == ""


def test_a_correction_of_records_that_were_sealed_after_the_look_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answers are not looked at either: who took it for done would never have them."""
    lake = make_lake(tmp_path, (COUNTED, ORACLE))
    lake.query()
    rows = some_rows(90, 11)
    done = list[frozenset[int]]()
    for number in range(3):
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", rows[30 * number : 30 * (number + 1)])
        lake.ingest()
        lake.query().run()
        before = last_sealed(lake.tables, lake.step, 0)
        if number < 2:
            assert lake.correct()
        at = position(lake.tables, lake.step)
        assert at is not None
        done.append(at.done)
        if number == 1:
            early = before
    assert lake.correct()
    monkeypatch.setattr(positions, "last_sealed", lambda *_: early)
    at = position(lake.tables, lake.step)
    assert at is not None
    assert at.seq == 59
    assert at.done == done[1] > done[0]
