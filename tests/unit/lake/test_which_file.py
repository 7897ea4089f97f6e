"""Which file was taken, where names are exchanged: nothing is lost or doubled, or it is said."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.core.errors import ConfigError
from penstock.lake.ingest import received, source, whereabouts
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.place import problems
from penstock.lake.ingest.reading import SourceError
from penstock.lake.log.blocks import HISTORY, LIVE
from tests.doubles import RisingClock
from tests.gates import Gate, T


def lines(first: int, end: int) -> str:
    rows = ({"event_time": T, "site": "x", "code": k} for k in range(first, end))
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def put(path: Path, first: int, end: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(lines(first, end))


def codes(gate: Gate) -> list[int]:
    gate.conserved()
    return sorted(row["code"] for row in gate.rows("events"))


def planned(gate: Gate) -> Door:
    door = gate.door()
    door._catch_up()
    assert door._plan(LIVE, None, None) is not None
    return door


def live(home: Path, files: str = "live", **more: Any) -> Gate:
    (home / "live").mkdir(parents=True, exist_ok=True)
    return Gate(home, "jsonl", source={"files": files}, **more)


def point(link: Path, target: str) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    (link.parent / ".new").symlink_to(target)
    (link.parent / ".new").rename(link)


@pytest.mark.parametrize("when", ["listed", "planned"])
def test_a_link_that_is_pointed_elsewhere_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    gate = live(tmp_path)
    put(tmp_path / "v1" / "a.jsonl", 0, 10)
    put(tmp_path / "v2" / "a.jsonl", 10, 20 if when == "listed" else 30)
    point(tmp_path / "live" / "current", "../v1")
    door = gate.door() if when == "listed" else planned(gate)
    if when == "listed":
        listed = whereabouts.listed

        def swapped(*given: Any) -> Any:
            found = listed(*given)
            point(tmp_path / "live" / "current", "../v2")
            return found

        monkeypatch.setattr(whereabouts, "listed", swapped)
    else:
        point(tmp_path / "live" / "current", "../v2")
    assert door.work() == 10
    assert codes(gate) == [*range(10)], "what was decided on is read, wherever the link leads"
    gate.take()
    assert codes(gate) == [*range(20 if when == "listed" else 30)]


@pytest.mark.parametrize("kept", [True, False])
def test_a_planned_file_behind_a_link_is_that_file_or_is_waited_for(
    tmp_path: Path, kept: bool
) -> None:
    gate = live(tmp_path)
    put(tmp_path / "v1" / "a.jsonl", 0, 10)
    put(tmp_path / "v2" / "a.jsonl", 10, 30)
    point(tmp_path / "live" / "current", "../v1")
    planned(gate)
    point(tmp_path / "live" / "current", "../v2")
    if kept:
        assert gate.take() == 10 + 20
        return
    (tmp_path / "v1").rename(tmp_path / "gone")
    with pytest.raises(SourceError, match=r"changed since it was planned: .*penstock retake"):
        gate.take()
    assert gate.rows("blocks") == []
    (tmp_path / "gone").rename(tmp_path / "v1")
    gate.take()
    assert codes(gate) == [*range(30)]


def test_text_that_another_replaced_has_not_grown(tmp_path: Path) -> None:
    gate = live(tmp_path)
    put(tmp_path / "live" / "a.jsonl", 0, 10)
    planned(gate)
    put(tmp_path / "live" / ".new", 100, 130)
    (tmp_path / "live" / ".new").rename(tmp_path / "live" / "a.jsonl")
    with pytest.raises(SourceError, match="changed since it was planned"):
        gate.take()


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize("parts", [False, True])
def test_text_that_was_written_again_in_place_and_is_longer_has_not_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, parts: bool
) -> None:
    monkeypatch.setattr(source, "BYTES_PER_PLAN", 300 if parts else 1 << 20)
    gate = Gate(tmp_path, kind)
    head = "event_time,site,code\n" if kind == "csv" else ""
    text = {n: lines(n, n + 30) if kind == "jsonl" else
            "".join(f"{T},x,{k}\n" for k in range(n, n + 30)) for n in (0, 30, 100)}  # fmt: skip
    gate.write(f"a.{kind}", head + text[0])
    if parts:
        assert 0 < gate.door().work() < 30
    else:
        planned(gate)
    gate.write(f"a.{kind}", head + text[100] + text[30])
    said = "changed since a part" if parts else "changed since it was planned"
    with pytest.raises(SourceError, match=said):
        gate.take()
    gate.write(f"a.{kind}", head + text[0] + text[30])
    gate.take()
    found = codes(gate)
    assert found == [*range(60 if parts else 30)], "what only grew goes on"


def test_text_that_is_written_again_while_it_is_read_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, texts = live(tmp_path), received.text_lines
    put(tmp_path / "live" / "a.jsonl", 0, 10)

    def overtaken(*given: Any) -> Any:
        found = texts(*given)
        put(tmp_path / "live" / "a.jsonl", 100, 130)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(received, "text_lines", overtaken)
        with pytest.raises(SourceError, match="changed since it was planned"):
            gate.take()
    assert gate.rows("events") == []


def test_another_folder_with_the_same_names_waits_for_a_person(tmp_path: Path) -> None:
    put(tmp_path / "live" / "1.jsonl", 0, 10)
    put(tmp_path / "live2" / "1.jsonl", 10, 30)
    put(tmp_path / "live2" / "2.jsonl", 30, 35)
    assert live(tmp_path).take() == 10
    gate = live(tmp_path, "live2")
    for _ in range(2):
        with pytest.raises(SourceError, match=r"another folder.*1\.jsonl.*retake.*accept"):
            gate.take()
    person(gate).retake("live2", "the second year")
    assert gate.take() == 25
    assert codes(gate) == [*range(35)]
    assert live(tmp_path).take() == 0, "back in the first folder nothing is new"
    with pytest.raises(ConfigError, match="no such file"):
        person(gate).accept("live2", "")


@pytest.mark.parametrize("linked", [True, False])
def test_a_copied_folder_that_is_accepted_brings_only_what_is_new(
    tmp_path: Path, linked: bool
) -> None:
    put(tmp_path / "old" / "1.jsonl", 0, 10)
    files = "in" if linked else "old"
    point(tmp_path / "in", "old")
    assert live(tmp_path, files).take() == 10
    put(tmp_path / "new" / "1.jsonl", 0, 10)
    os.utime(tmp_path / "new" / "1.jsonl", ns=(0, 10**18))
    put(tmp_path / "new" / "2.jsonl", 10, 20)
    point(tmp_path / "in", "new")
    gate = live(tmp_path, "in" if linked else "new")
    with pytest.raises(SourceError, match="another folder"):
        gate.take()
    person(gate).accept(str(tmp_path / ("in" if linked else "new")), "copied")
    assert gate.take() == 10
    assert codes(gate) == [*range(20)]


@pytest.mark.parametrize("when", ["planned", "sealed"])
def test_a_folder_that_is_exchanged_by_a_link_while_a_door_runs(tmp_path: Path, when: str) -> None:
    put(tmp_path / "old" / "1.jsonl", 0, 10)
    put(tmp_path / "new" / "1.jsonl", 10, 30)
    point(tmp_path / "in", "old")
    gate = live(tmp_path, "in")
    door = planned(gate) if when == "planned" else gate.door()
    if when == "sealed":
        assert door.work() == 10
    point(tmp_path / "in", "new")
    if when == "planned":
        assert door.work() == 10
    assert codes(gate) == [*range(10)]
    with pytest.raises(SourceError, match="another folder"):
        door.work()


def person(gate: Gate) -> Amendment:
    return Amendment(gate.tables, gate.pipeline, gate.home, RisingClock())


def test_a_moved_folder_is_said_and_not_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path / "live" / "1.jsonl", 0, 10)
    assert live(tmp_path).take() == 10
    shutil.copytree(tmp_path / "live", tmp_path / "elsewhere")
    gate = live(tmp_path, str(tmp_path / "elsewhere"))
    put(tmp_path / "elsewhere" / "2.jsonl", 10, 12)
    assert gate.take() == 2
    assert "taken already under another name, from another folder" in caplog.text


def test_a_large_file_of_a_moved_folder_is_taken_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BYTES_PER_PLAN", 300)
    put(tmp_path / "live" / "1.jsonl", 0, 30)
    assert live(tmp_path).door().work() < 30
    (tmp_path / "live").rename(tmp_path / "moved")
    gate = live(tmp_path, "moved")
    gate.take()
    assert codes(gate) == [*range(30)]


@pytest.mark.parametrize("back", [True, False])
def test_the_rest_of_a_file_that_changed_is_not_taken_for_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    monkeypatch.setattr(source, "BYTES_PER_PLAN", 300)
    gate = live(tmp_path)
    file = tmp_path / "live" / "1.jsonl"
    put(file, 0, 30)
    about = file.stat()
    door = gate.door()
    first = door.work()
    put(file, 0, 2)
    for _ in range(2):
        with pytest.raises(SourceError, match=r"1\.jsonl: it was changed since a part.*accept"):
            door.work()
    put(file, 0, 30)
    if back:
        os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    else:
        person(gate).accept("1.jsonl", "written again")
    door.work()
    gate.take()
    assert 0 < first < 30
    assert codes(gate) == [*range(30)]


def archived(home: Path) -> None:
    (home / "archive").mkdir()
    (home / "live" / "a.jsonl").rename(home / "archive" / "a.jsonl")
    (home / "live" / "a.jsonl").symlink_to("../archive/a.jsonl")


def renamed(home: Path) -> None:
    (home / "live" / "a.jsonl").rename(home / "live" / "z.jsonl")


def hard_linked(home: Path) -> None:
    os.link(home / "live" / "a.jsonl", home / "live" / "0.jsonl")


@pytest.mark.parametrize("change", [archived, renamed, hard_linked])
def test_a_taken_file_under_another_name_is_not_taken_again(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    gate = live(tmp_path)
    put(tmp_path / "live" / "a.jsonl", 0, 10)
    assert gate.take() == 10
    change(tmp_path)
    assert gate.take() == 0
    put(tmp_path / "live" / "b.jsonl", 10, 20)
    assert gate.take() == 10
    assert codes(gate) == [*range(20)]


def test_hard_links_that_wait_together_are_one_file(tmp_path: Path) -> None:
    gate = live(tmp_path)
    put(tmp_path / "live" / "a.jsonl", 0, 10)
    hard_linked(tmp_path)
    assert gate.take() == 10


def test_a_link_that_became_a_copy_is_not_taken_again(tmp_path: Path) -> None:
    gate = live(tmp_path)
    put(tmp_path / "archive" / "a.jsonl", 0, 10)
    (tmp_path / "live" / "a.jsonl").symlink_to("../archive/a.jsonl")
    assert gate.take() == 10
    (tmp_path / "live" / "a.jsonl").unlink()
    shutil.copy2(tmp_path / "archive" / "a.jsonl", tmp_path / "live" / "a.jsonl")
    assert gate.take() == 0


@pytest.mark.parametrize("grown", [True, False])
def test_a_moved_installation_knows_files_that_links_lead_out_to(
    tmp_path: Path, grown: bool
) -> None:
    gate = live(tmp_path / "old")
    put(tmp_path / "old" / "data" / "a.jsonl", 0, 10)
    (tmp_path / "old" / "live" / "a.jsonl").symlink_to("../data/a.jsonl")
    assert gate.take() == 10
    (tmp_path / "old").rename(tmp_path / "new")
    if grown:
        put(tmp_path / "new" / "data" / "a.jsonl", 0, 12)
    gate = live(tmp_path / "new")
    assert gate.take() == 0
    assert codes(gate) == [*range(10)]


@pytest.mark.parametrize("files", ["live", "{home}/live"])
def test_an_installation_moved_with_its_plan_unfinished_goes_on(tmp_path: Path, files: str) -> None:
    home = tmp_path / "old"
    gate = live(home, files.format(home=home))
    put(home / "live" / "a.jsonl", 0, 10)
    planned(gate)
    home.rename(tmp_path / "new")
    gate = live(tmp_path / "new", files.format(home=tmp_path / "new"))
    assert gate.take() == 10
    assert codes(gate) == [*range(10)]


@pytest.mark.parametrize("files", [".", "lake", "lake/p/events", "up"])
def test_a_source_that_holds_the_lake_is_refused(tmp_path: Path, files: str) -> None:
    (tmp_path / "lake" / "p" / "events").mkdir(parents=True)
    (tmp_path / "up").symlink_to("lake")
    gate = live(tmp_path, files)
    found = problems(gate.pipeline, tmp_path, gate.tables.lake)
    assert [".".join(p.keys) for p in found] == ["source.files"]
    assert "the lake" in found[0].problem
    with pytest.raises(ConfigError, match=r"source\.files .*lake.*Name a folder of the source"):
        gate.door()


def test_a_link_into_the_lake_is_refused(tmp_path: Path) -> None:
    gate = live(tmp_path)
    put(tmp_path / "live" / "a.jsonl", 0, 5)
    (tmp_path / "live" / "up").symlink_to("..")
    (tmp_path / "lake").mkdir()
    found = problems(gate.pipeline, tmp_path, gate.tables.lake)
    assert "live/up/lake/: leads to" in found[0].problem
    with pytest.raises(ConfigError, match=r"live/up/lake/: leads to .*It is the lake"):
        gate.take()


def test_a_delta_table_of_another_pipeline_is_a_source(tmp_path: Path) -> None:
    for pipeline, fine in (("other", True), ("p", False)):
        table = f"lake/{pipeline}/events"
        write_deltalake(str(tmp_path / table), pa.table({"event_time": [T]}))
        gate = Gate(tmp_path, "parquet", source={"delta": table, "files": None})
        assert (problems(gate.pipeline, tmp_path, gate.tables.lake) == []) is fine


def test_history_and_source_that_meet_in_a_third_folder_are_taken_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = live(tmp_path, history={"files": "past", "format": "jsonl"})
    put(tmp_path / "out" / "o.jsonl", 0, 10)
    put(tmp_path / "live" / "a.jsonl", 10, 20)
    for name in ("live", "past"):
        point(tmp_path / name / "linked", "../out")
    assert gate.take(HISTORY) == 10
    assert gate.take() == 10
    (tmp_path / "live" / "a.jsonl").rename(tmp_path / "past" / "b.jsonl")
    assert gate.take(HISTORY) == 0
    assert codes(gate) == [*range(20)]
    assert "by the pipeline's other source" in caplog.text


def test_parts_of_a_file_that_source_and_history_take_in_turns_are_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BYTES_PER_PLAN", 300)
    gate = live(tmp_path, history={"files": "past", "format": "jsonl"})
    put(tmp_path / "out" / "o.jsonl", 0, 40)
    for name in ("live", "past"):
        point(tmp_path / name / "linked", "../out")
    for origin in (HISTORY, LIVE) * 20:
        gate.door().work(origin)
    assert codes(gate) == [*range(40)]
