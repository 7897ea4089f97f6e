"""What a plan is carried out by is written down with it: an edit in between changes no verdict."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.config.intake import Definition
from penstock.core.errors import ConfigError
from penstock.lake.ingest import door as door_module
from penstock.lake.log.blocks import HISTORY, LIVE
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from tests.doubles import Killed, deadly_commits, dies_at
from tests.gates import Gate, T
from tests.steps import SITES, make_pipeline
from tests.streams import write_jsonl

TABLES = ("plans", "quarantine", "events", "blocks")
ROWS: list[Any] = [
    {"event_time": T, "site": "a", "delay": 1.0, "code": 1},
    {"event_time": "2024-03-01T12:04:00Z", "site": "b", "code": 2},
    {"event_time": "2024-03-01 13:00:00", "site": "c", "code": 3},
    {"event_time": T, "site": None, "code": 4},
    {"event_time": "2024-02-01T00:00:00Z", "site": "e", "code": 5},
    {"event_time": T, "site": "f", "delay": "much", "code": 6},
    {"event_time": "2024-03-02T00:10:00Z", "site": "g", "code": 7},
    {"event_time": T, "site": "a", "delay": 1.0, "code": 1},
    {"when": T, "site": "h", "code": 8},
]
FORMER: dict[str, Any] = {"id": {"column": "code", "horizon": "PT1H"}, "zone": "Europe/Vienna"}
NARROW = {"site": "string", "code": "long", "delay": {"type": "double", "from": "v"}}
EDITS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "keys": lambda home: {"steps": {"s": SITES | {"keys": ["code"]}}},
    "skew": lambda home: {"skew": "PT1H"},
    "not_before": lambda home: {"not_before": "2024-03-01T00:00:00Z"},
    "zone": lambda home: {"zone": "UTC"},
    "type": lambda home: {"columns": NARROW | {"bags": "long"}},
    "event time": lambda home: {"event_time": "when"},
    "id": lambda home: {"id": None},
    "horizon": lambda home: {"id": {"column": "code", "horizon": "PT0.000001S"}},
    "place": lambda home: {"source": {"files": str(home / "elsewhere"), "format": "csv"}},
}


def written(gate: Gate) -> dict[str, list[dict[str, Any]]]:
    """Rows of the log, apart from when they were sealed."""
    rows = {name: gate.rows(name) for name in TABLES[1:]}
    return {n: [{k: v for k, v in r.items() if k != "sealed_at"} for r in found]
            for n, found in rows.items()}  # fmt: skip


def begun(home: Path, **overrides: Any) -> Gate:
    gate = Gate(home, "jsonl", **(FORMER | overrides))
    write_jsonl(home / "live" / "a.jsonl", ROWS)
    return gate


def edited(gate: Gate, changes: dict[str, Any]) -> None:
    """Another pipeline file from now on."""
    base = gate.pipeline.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    base |= {"steps": {"s": SITES}, "path": gate.home / "p.yaml"} | changes
    gate.pipeline = make_pipeline(gate.home, **base)


def dies_within(gate: Gate, moment: int) -> None:
    with deadly_commits(dies_at(moment)), pytest.raises(Killed):
        gate.take()


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("moment", [2, 4, 6], ids=["planned", "quarantined", "unsealed"])
def test_an_edited_file_changes_no_verdict_of_a_plan_that_was_begun(
    tmp_path: Path, edit: str, moment: int
) -> None:
    home = tmp_path / "home"
    gate = begun(home)
    shutil.copytree(home, tmp_path / "kept")
    gate.take()
    expected = written(gate)
    assert len(expected["quarantine"]) == 5
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "kept", home)
    dies_within(gate, moment)
    changes = EDITS[edit](home)
    edited(gate, changes)
    if edit == "keys":
        assert gate.pipeline.keys == ("code",)
    gate.door().work()
    assert gate.conserved() == (4, 5)
    found = written(gate)
    names = [n for n in found["events"][0] if n in expected["events"][0]]
    assert [[r[n] for n in names] for r in found["events"]] == [
        [r[n] for n in names] for r in expected["events"]
    ]
    assert found["quarantine"] == expected["quarantine"]
    assert found["blocks"] == expected["blocks"]


def test_the_next_plan_goes_by_the_edited_file(tmp_path: Path) -> None:
    gate = begun(tmp_path)
    dies_within(gate, 4)
    edited(gate, {"columns": NARROW | {"bags": "long", "more": "string"}, "id": None})
    write_jsonl(tmp_path / "live" / "b.jsonl", [ROWS[0] | {"more": "m", "delay": "much"}])
    gate.take()
    assert gate.conserved() == (5, 5)
    assert [r["more"] for r in gate.rows("events")] == [None, None, None, None, "m"]


def test_history_that_left_the_file_is_finished(tmp_path: Path) -> None:
    history = {"files": str(tmp_path / "history"), "format": "jsonl"}
    gate = Gate(tmp_path, "jsonl", history=history)
    write_jsonl(tmp_path / "history" / "a.jsonl", ROWS[:2])
    with deadly_commits(dies_at(2)), pytest.raises(Killed):
        gate.take(HISTORY)
    edited(gate, {"history": None})
    (tmp_path / "live").mkdir()
    gate.take()
    assert gate.conserved() == (2, 0)
    assert gate.take(HISTORY) == 0, "of a history that is not declared nothing waits"


def without_definition(gate: Gate) -> None:
    """As the version before wrote plans."""
    spec = gate.tables.plans()
    rows = read_table(Table(spec)).drop_columns(["definition", "block_size"])
    shutil.rmtree(spec.uri)
    old = Table(type(spec)(spec.uri, rows.schema, name="plans"))
    for number in range(rows.num_rows):
        old.append(rows.slice(number, 1), door_module.APPLICATION, number)


@pytest.mark.parametrize("moment", [2, 4, 6], ids=["planned", "quarantined", "unsealed"])
def test_a_plan_of_the_version_before_is_finished(tmp_path: Path, moment: int) -> None:
    gate = begun(tmp_path)
    dies_within(gate, moment)
    without_definition(gate)
    gate.take()
    assert gate.conserved() == (4, 5)
    write_jsonl(tmp_path / "live" / "b.jsonl", [ROWS[0] | {"code": 9}])
    gate.take()
    assert gate.conserved() == (5, 5)
    plans = read_table(Table(gate.tables.plans())).sort_by("number").to_pylist()
    assert [p["definition"] is None for p in plans] == [True, False]


def test_history_of_the_version_before_that_left_the_file_says_what_to_do(tmp_path: Path) -> None:
    history = {"files": str(tmp_path / "history"), "format": "jsonl"}
    gate = Gate(tmp_path, "jsonl", history=history)
    write_jsonl(tmp_path / "history" / "a.jsonl", ROWS[:2])
    with deadly_commits(dies_at(2)), pytest.raises(Killed):
        gate.take(HISTORY)
    without_definition(gate)
    edited(gate, {"history": None})
    with pytest.raises(ConfigError, match=r"plan 0 of the history.*put it back"):
        gate.take()


def test_a_definition_comes_back_from_its_text(tmp_path: Path) -> None:
    columns = {"site": {"type": "string", "from": "where"}, "code": "long", "delay": "double",
               "bags": "long"}  # fmt: skip
    pipeline = Gate(tmp_path, "csv", columns=columns, arrival_time="came", **FORMER).pipeline
    text = pipeline.definition.to_text()
    assert Definition.from_text(text) == pipeline.definition
    assert pipeline.definition.keys == pipeline.keys


def test_arrivals_of_plans_never_fall(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    door = gate.door()
    for number, minutes in enumerate([0, 5, -60, 1, 90]):
        gate.clock.move(timedelta(minutes=minutes))
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", [{"event_time": T, "site": "x"}])
        (door if number % 2 else gate.door()).work(LIVE)
    plans = read_table(Table(gate.tables.plans())).sort_by("number")["arrived_at"].to_pylist()
    since = [(p - plans[0]) / timedelta(minutes=1) for p in plans]
    assert since == [0, 5, 5, 5, 36]
    assert [r["ingest_time"] for r in gate.rows("events")] == plans
