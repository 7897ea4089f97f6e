"""Files that changed, plans that do not end, steps that stand still: said by the audit."""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import ConfigError
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.reading import SourceError
from penstock.lake.log.blocks import LIVE
from penstock.lake.proof.unsettled import (
    OVERDUE,
    behind,
    changed_files,
    overdue_plans,
    untaken,
    with_unsettled,
)
from penstock.quality.checks import EXAMPLE_OF
from penstock.quality.comparisons import complete, examples_of
from penstock.spark import ingest
from penstock.spark.ingest import Ingest
from tests import chains
from tests.doubles import RecordingPulse, RisingClock
from tests.gates import Gate, T
from tests.lakes import ROWS, Lake, arrive, fed, make_lake
from tests.steps import CASES
from tests.streams import write_jsonl

LINE = f'{{"event_time": "{T}", "site": "x"}}\n'


@pytest.fixture
def taken(tmp_path: Path) -> Gate:
    """Three files that were taken."""
    gate = Gate(tmp_path, "jsonl", source={"mode": "live"})
    for name in ("a", "in/b", "in/c"):
        gate.write(f"{name}.jsonl", LINE * 2)
    gate.take()
    return gate


def changed(gate: Gate) -> list[str]:
    found = changed_files(gate.tables, gate.pipeline, gate.home)
    assert gate.door().work() < 0
    return [fault.place["file"].removeprefix(f"{gate.home}/live/") for fault in found]


def person(gate: Gate) -> Amendment:
    return Amendment(gate.tables, gate.pipeline, gate.home, RisingClock())


def test_a_changed_file_is_named_until_a_person_has_seen_it_and_after_the_next_change(
    taken: Gate, tmp_path: Path
) -> None:
    assert changed(taken) == []
    with pytest.raises(ConfigError, match="no such file is other than taken"):
        person(taken).accept("a.jsonl", "")
    taken.write("a.jsonl", LINE * 5)
    assert changed(taken) == ["a.jsonl"]
    assert person(taken).accept("live/a.jsonl", "grown") == f"{tmp_path}/live/a.jsonl"
    assert changed(taken) == []
    taken.write("a.jsonl", LINE * 6)
    assert changed(taken) == ["a.jsonl"]
    (tmp_path / "live" / "a.jsonl").unlink()
    assert changed(taken) == [], "what was taken may go"
    assert taken.conserved() == (6, 0)


def test_files_that_were_only_copied_are_accepted_by_their_folder(
    taken: Gate, tmp_path: Path
) -> None:
    for path in (tmp_path / "live").rglob("*.jsonl"):
        os.utime(path, ns=(10**18, 10**18))
    assert sorted(changed(taken)) == ["a.jsonl", "in/b.jsonl", "in/c.jsonl"]
    person(taken).accept("live/in", "")
    assert changed(taken) == ["a.jsonl"]
    with pytest.raises(ConfigError, match="would count twice"):
        person(taken).retake("a.jsonl", "")
    person(taken).accept("a.jsonl", "")
    assert changed(taken) == []
    door = taken.door()
    assert (door.work(), door.changed) == (-1, [])


def test_a_door_tells_what_was_changed_until_it_is_accepted(taken: Gate) -> None:
    door = taken.door()
    assert (door.work(), door.changed) == (-1, [])
    taken.write("a.jsonl", LINE)
    assert (door.work(), door.changed) == (-1, [f"{taken.home}/live/a.jsonl"])
    person(taken).accept("a.jsonl", "")
    assert (door.work(), door.changed) == (-1, [])


def test_a_source_that_cannot_be_listed_is_not_taken_for_unchanged(
    taken: Gate, tmp_path: Path
) -> None:
    (tmp_path / "live").rename(tmp_path / "away")
    (fault,) = changed_files(taken.tables, taken.pipeline, taken.home)
    assert fault.what == "changed file: not known"
    assert "FileNotFoundError" in fault.found["listed"]


def test_a_plan_that_waits_is_named_once_it_waits_long(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    gate.write("a.jsonl", LINE)
    made = gate.clock.now()
    door = gate.door()
    door._catch_up()
    assert door._plan(LIVE, None, None) is not None
    (tmp_path / "live" / "a.jsonl").rename(tmp_path / "a")
    with pytest.raises(SourceError):
        gate.take()
    assert overdue_plans(gate.tables, made + OVERDUE, None) == []
    late = made + OVERDUE + timedelta(seconds=1)
    (fault,) = overdue_plans(gate.tables, late, None)
    assert fault.place == {"plan": 0, "files": 1, "first": "a.jsonl"}
    (tmp_path / "a").rename(tmp_path / "live" / "a.jsonl")
    gate.take()
    assert overdue_plans(gate.tables, late, None) == []
    (said,) = overdue_plans(gate.tables, late, "live/b.jsonl: MemoryError")
    assert said.found == {"says": "live/b.jsonl: MemoryError"}


def test_a_step_that_stands_still_is_behind_the_log_with_its_reason(tmp_path: Path) -> None:
    lake = fed(tmp_path)
    arrive(lake, 2)
    lake.ingest()
    lake.query().run()
    now = lake.clock.now()
    assert behind(lake.tables, lake.step, now + OVERDUE * 9, "old") == []
    arrive(lake, 2)
    lake.ingest()
    assert behind(lake.tables, lake.step, lake.clock.now(), None) == [], "it may yet come"
    (fault,) = behind(lake.tables, lake.step, lake.clock.now(), "its sum overflows")
    assert (fault.place["records"], fault.found["stands still"]) == (30, "its sum overflows")
    (unsaid,) = behind(lake.tables, lake.step, now + OVERDUE * 2, None)
    assert (unsaid.expected, unsaid.found["answered through"]) == ({"answered through": 59}, 29)


def test_a_step_that_never_sealed_anything_is_said_to_stand_still(tmp_path: Path) -> None:
    lake = fed(tmp_path)
    arrive(lake, 1)
    lake.ingest()
    (row,) = audited(lake, {lake.name: "its sum overflows"})
    assert (row["through_seq"], row["blocks_overdue"]) == (-1, 1)
    (example,) = examples_of(lake.name, row["examples"])
    assert "its sum overflows" in example.found
    assert "records=15" in str(example)


def audited(lake: Lake, said: dict[str, str]) -> list[dict[str, Any]]:
    rows = complete([], [lake.name])
    return with_unsettled(rows, lake.tables, lake.pipeline, lake.home, lake.clock.now(), said)


def test_each_of_them_is_an_example_of_its_check(tmp_path: Path) -> None:
    lake = fed(tmp_path)
    arrive(lake, 1)
    lake.ingest()
    (tmp_path / "live" / "0.jsonl").write_text("")
    (row,) = audited(lake, {"": "a disk", lake.name: "a sum"})
    columns = ["files_changed", "plans_overdue", "blocks_overdue"]
    assert [row[column] for column in columns] == [1, 1, 1]
    assert [e.column for e in examples_of(lake.name, row["examples"])] == columns
    assert {*columns} <= EXAMPLE_OF.keys()
    assert json.loads(row["examples"])[0]["key"] == {"file": f"{tmp_path}/live/0.jsonl"}


@pytest.mark.parametrize(("mode", "said"), [("bounded", None), ("live", {}), ("live", None)])
def test_what_is_changed_below_and_not_taken_is_said_above(
    mode: str, said: dict[str, str] | None, tmp_path: Path
) -> None:
    """Of a live source that is not to run nothing is: as of its blocks."""
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": mode}
    lake = make_lake(tmp_path, (chains.BASE, CASES["sites"][1]), source=source)
    lake.query()
    one = chains.first(lake)
    one.query()
    write_jsonl(tmp_path / "live" / "0.jsonl", ROWS)
    lake.ingest()
    lake.query().run()
    one.feed().catch_up()
    one.query().run()
    soon = lake.clock.now() + timedelta(hours=1)
    assert untaken(one.tables, one.pipeline, soon) == []
    assert lake.correct()
    soon = lake.clock.now() + OVERDUE / 2
    assert untaken(one.tables, one.pipeline, soon) == []
    rows = complete([], [one.step.id])
    late = lake.clock.now() + OVERDUE * 1.1
    (row,) = with_unsettled(rows, one.tables, one.pipeline, tmp_path, late, said)
    told = mode == "bounded" or said is not None
    assert row["blocks_overdue"] == told
    if told:
        (example,) = examples_of("s", row["examples"])
        assert "start stream__first" in str(example)
    one.feed().catch_up()
    one.query().run()
    assert untaken(one.tables, one.pipeline, late) == []


def test_a_stream_that_waits_for_the_same_too_long_fails_visibly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, pulse = Gate(tmp_path, "jsonl"), RecordingPulse()
    taking = Ingest(gate.door(), "p", pulse)
    said = f"{tmp_path}/live/a.jsonl: MemoryError: . Nothing of it is taken"
    taking._waits(said)
    assert (pulse.figures["waits_for"], pulse.figures["fails"]) == (said, None)
    monkeypatch.setattr(ingest, "OVERDUE", timedelta())
    taking._waits(said)
    assert "nothing was taken for" in pulse.figures["fails"]
    assert "a.jsonl: MemoryError" in pulse.figures["fails"]
    assert "penstock giveup p FILE" in pulse.figures["fails"]
    taking._goes_on(1)
    assert pulse.figures["fails"] is None
