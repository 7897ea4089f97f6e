"""A source whose files are not there any more: a mount that is away, a rest that is lost."""

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.lake.ingest import source
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.sample import queue
from penstock.lake.log.blocks import LIVE
from tests.gates import Gate, T

LINE = f'{{"event_time": "{T}", "site": "x"}}\n'


def begun(home: Path, monkeypatch: pytest.MonkeyPatch, *, mode: str = "bounded") -> Gate:
    """A source of which the first file of a folder within was taken, and the second waits."""
    monkeypatch.setattr(source, "FILES_PER_PLAN", 1)
    gate = Gate(home, "jsonl", source={"mode": mode})
    gate.write("day/1.jsonl", LINE * 2)
    assert gate.door().work() == 2
    gate.write("day/2.jsonl", LINE * 3)
    return gate


def kinds(gate: Gate) -> list[str]:
    return [block["kind"] for block in gate.rows("blocks")]


def accept(gate: Gate, file: Path) -> str:
    return Amendment(gate.tables, gate.pipeline, gate.home, gate.clock).accept(str(file), "gone")


def empty_source(live: Path) -> Path:
    live.rename(live.parent / "stored")
    live.mkdir()
    return live


def empty_folder(live: Path) -> Path:
    (live / "day").rename(live.parent / "stored")
    (live / "day").mkdir()
    return live


def no_folder(live: Path) -> Path:
    (live / "day").rename(live.parent / "stored")
    return live


def no_folder_of_some(live: Path) -> Path:
    (live / "other.jsonl").write_text(LINE)
    (live / "day").rename(live.parent / "stored")
    return live / "day"


@pytest.mark.parametrize("goes", [empty_source, empty_folder, no_folder, no_folder_of_some])
def test_a_mount_that_is_away_at_the_start_is_no_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    goes: Callable[[Path], Path],
) -> None:
    gate = begun(tmp_path, monkeypatch)
    live = tmp_path / "live"
    named = goes(live)
    for _ in range(2):
        with pytest.raises(
            SourceError, match=r"every file .* is gone .1.,.*penstock accept"
        ) as away:
            gate.take()
        assert away.value.path == str(named)
    assert "end" not in kinds(gate)
    assert "folders hold nothing any more" in caplog.text
    there = live if goes is empty_source else live / "day"
    if there.exists():
        there.rmdir()
    (tmp_path / "stored").rename(there)
    assert gate.take() == 3
    assert kinds(gate)[-1] == "end"
    gate.conserved()


def test_a_person_says_that_the_files_were_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = begun(tmp_path, monkeypatch)
    gate.take()
    files = [tmp_path / "live" / "day" / f"{n}.jsonl" for n in (1, 2)]
    # the end is sealed: what is removed afterwards is nobody's concern
    for file in files:
        file.unlink()
    assert gate.take() == 0
    other = begun(tmp_path / "b", monkeypatch)
    for n in (1, 2):
        (tmp_path / "b" / "live" / "day" / f"{n}.jsonl").unlink()
    with pytest.raises(SourceError):
        other.take()
    accept(other, tmp_path / "b" / "live")
    assert other.take() == 0
    assert kinds(other) == ["data", "end"]


def test_a_live_source_that_is_emptied_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate = begun(tmp_path, monkeypatch, mode="live")
    empty_source(tmp_path / "live")
    assert gate.take() == 0
    assert "folders hold nothing any more" in caplog.text
    assert queue(gate.pipeline.source, gate.home, gate.tables, LIVE).gone == 1
    gate.write("new.jsonl", LINE)
    assert gate.take() == 1


@pytest.mark.parametrize("mode", ["bounded", "live"])
def test_the_rest_of_a_file_that_is_gone_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(source, "BYTES_PER_PLAN", 100)
    gate = Gate(tmp_path, "jsonl", source={"mode": mode})
    gate.write("a.jsonl", LINE * 10)
    taken = gate.door().work()
    assert 0 < taken < 10
    gate.write("b.jsonl", LINE)
    file = tmp_path / "live" / "a.jsonl"
    file.rename(tmp_path / "a")
    with pytest.raises(SourceError, match=r"a\.jsonl: it is gone, and only a part.*accept"):
        gate.take()
    assert kinds(gate) == ["data", "data"]
    (tmp_path / "a").rename(file)
    if mode == "live":
        assert gate.take() == 10 - taken
        assert gate.conserved() == (11, 0)
        return
    file.unlink()
    assert accept(gate, file) == str(file)
    assert gate.take() == 0
    assert kinds(gate) == ["data", "data", "end"]


def test_what_was_archived_one_by_one_or_renamed_keeps_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = begun(tmp_path, monkeypatch)
    (tmp_path / "live" / "day" / "1.jsonl").unlink()
    assert gate.take() == 3
    assert kinds(gate)[-1] == "end"
    other = begun(tmp_path / "b", monkeypatch)
    (tmp_path / "b" / "live" / "day" / "2.jsonl").unlink()
    (tmp_path / "b" / "live" / "day").rename(tmp_path / "b" / "live" / "old")
    assert other.take() == 0
    assert kinds(other)[-1] == "end"


def test_a_file_that_went_before_it_was_taken_is_said_and_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(source, "FILES_PER_PLAN", 1)
    gate = Gate(tmp_path, "jsonl", source={"mode": "bounded"})
    for name in "ab":
        gate.write(f"{name}.jsonl", LINE)
    door = gate.door()
    assert door.work() == 1
    file = tmp_path / "live" / "b.jsonl"
    file.rename(tmp_path / "b")
    for _ in range(2):
        with pytest.raises(SourceError, match=r"b\.jsonl: it went before"):
            door.work()
    assert "files went before anything of them was taken" in caplog.text
    (tmp_path / "b").rename(tmp_path / "live" / "c.jsonl")
    assert (door.work(), door.work()) == (1, 0)
    assert kinds(gate) == ["data", "data", "end"]
