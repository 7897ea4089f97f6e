"""Files that are not what was planned, and files nobody can read: waited for, said, decided."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.errors import ConfigError
from penstock.lake.ingest import judging
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.reading import MACHINE, SourceError
from penstock.lake.ingest.verdict import judge
from penstock.lake.log.blocks import LIVE
from penstock.lake.proof.recount import unreadable_files
from penstock.lake.storage.commit import ConflictError, Table
from penstock.quality.comparisons import Example
from tests.doubles import Killed, RisingClock, deadly_commits, dies_at
from tests.gates import Gate, T, finish
from tests.lakes import meanwhile
from tests.streams import BEGIN, disordered, write_parquet

LINE = f'{{"event_time": "{T}", "site": "x"}}\n'


def person(gate: Gate) -> Amendment:
    return Amendment(gate.tables, gate.pipeline, gate.home, RisingClock())


def planned(tmp_path: Path) -> Gate:
    """Two files of two records, planned, and nothing of them read."""
    gate = Gate(tmp_path, "jsonl")
    for name in "ab":
        gate.write(f"{name}.jsonl", LINE * 2)
    door = gate.door()
    door._catch_up()
    assert door._plan(LIVE, None, None) is not None
    return gate


def test_a_file_that_is_gone_is_waited_for_until_it_is_given_up(tmp_path: Path) -> None:
    gate = planned(tmp_path)
    with pytest.raises(ConfigError, match="can be read: nothing is given up"):
        person(gate).give_up("a.jsonl", "")
    (tmp_path / "live" / "a.jsonl").unlink()
    door = gate.door()
    for _ in range(2):
        with pytest.raises(SourceError, match=r"a\.jsonl: .*gone.*penstock giveup"):
            door.work()
    person(gate).give_up("live/a.jsonl", "the disk is lost")
    assert door.work() == 3
    assert gate.refused() == [(0, "unreadable", "unreadable: given up", "live/a.jsonl")]
    assert gate.conserved() == (2, 1)
    assert unreadable_files(gate.tables, 2) == [], "a person has decided about it"
    gate.write("a.jsonl", LINE * 3)
    assert gate.take() == 0
    person(gate).retake("a.jsonl", "it was found")
    assert gate.take() == 3
    assert gate.conserved() == (5, 1)


def exchanged(live: Path) -> None:
    """One of them under a new name, and another file under its old one."""
    (live / "a.jsonl").rename(live / "z.jsonl")
    (live / "a.jsonl").write_text(LINE * 5)


def renamed(live: Path) -> None:
    (live / "a.jsonl").rename(live / "z.jsonl")


def filed(live: Path) -> None:
    (live / "day").mkdir()
    for file in [*live.glob("*.jsonl")]:
        file.rename(live / "day" / f"was-{file.name}")


@pytest.mark.parametrize("change", [renamed, filed, exchanged])
def test_a_planned_file_that_was_renamed_in_its_folder_is_read_under_its_new_name(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    gate = planned(tmp_path)
    change(tmp_path / "live")
    for decide in (person(gate).give_up, person(gate).retake):
        with pytest.raises(ConfigError, match=r"is there as it was planned"):
            decide(str(tmp_path / "live" / "a.jsonl"), "")
    new = 5 if change is exchanged else 0
    assert gate.take() == 4 + new
    assert gate.conserved() == (4 + new, 0)
    assert gate.take() == 0


def test_a_file_that_was_given_up_and_comes_back_under_another_name_is_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = planned(tmp_path)
    (tmp_path / "live" / "a.jsonl").rename(tmp_path / "away")
    person(gate).give_up("a.jsonl", "")
    assert gate.take() == 3
    (tmp_path / "away").rename(tmp_path / "live" / "z.jsonl")
    assert gate.take() == 2
    assert gate.conserved() == (4, 1)
    assert "taken already" not in caplog.text
    (tmp_path / "live" / "z.jsonl").rename(tmp_path / "live" / "y.jsonl")
    assert gate.take() == 0, "but now it was taken"


@pytest.mark.parametrize("back", [True, False])
def test_what_is_committed_by_a_decision_does_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    gate = planned(tmp_path)
    gone = tmp_path / "live" / "a.jsonl"
    about = gone.stat()
    gone.unlink()
    person(gate).give_up("a.jsonl", "")
    swap = Table.swap

    def dies(self: Table, *given: Any) -> None:
        if self.spec.name == "events":
            raise Killed
        swap(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Table, "swap", dies)
        with pytest.raises(Killed):
            gate.door().work()
    if back:
        gate.write("a.jsonl", LINE * 2)
        os.utime(gone, ns=(about.st_atime_ns, about.st_mtime_ns))
    (tmp_path / "live" / "b.jsonl").rename(tmp_path / "b")
    with pytest.raises(ConfigError, match="committed already"):
        person(gate).give_up("b.jsonl", "")
    (tmp_path / "b").rename(tmp_path / "live" / "b.jsonl")
    assert gate.take() == 3
    assert gate.conserved() == (2, 1)


def test_a_decision_that_comes_while_a_plan_is_read_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, receive = planned(tmp_path), judging.receive
    kept = (tmp_path / "live" / "a.jsonl", tmp_path / "a")

    def meanwhile(item: Any, *given: Any) -> Any:
        received = receive(item, *given)
        if item.path.endswith("b.jsonl") and kept[0].exists():
            kept[0].rename(kept[1])
            person(gate).give_up("a.jsonl", "")
        return received

    monkeypatch.setattr(judging, "receive", meanwhile)
    assert gate.take() == 3
    assert gate.conserved() == (2, 1)


ALL = pytest.mark.all


@pytest.mark.parametrize(("moment", "commits"), [
    ("quarantine", 1), ("events", 1), ("decisions", 2),
    *(pytest.param(moment, commits, marks=ALL)
      for moment, commits in [("quarantine", 0), ("quarantine", 2), ("quarantine", 9),
                              ("events", 9), ("decisions", 1), ("decisions", 9)]),
])  # fmt: skip
def test_a_file_that_is_given_up_while_another_door_has_read_it_gives_its_numbers_once(
    tmp_path: Path, moment: str, commits: int
) -> None:
    """Just before a commit of a door, or a door's commits just before the decision's."""
    gate = planned(tmp_path)
    path, away = tmp_path / "live" / "a.jsonl", tmp_path / "a"
    slow = gate.door()

    def other() -> None:
        with suppress(Killed), deadly_commits(dies_at(1 + 2 * commits)):
            gate.take()

    def person_and_other() -> None:
        path.rename(away)
        with suppress(ConfigError):  # a part of it is committed already
            person(gate).give_up("a.jsonl", "")
            other()

    if moment == "decisions":
        path.rename(away)
        with meanwhile("decisions", lambda: (away.rename(path), other(), path.rename(away))):
            person(gate).give_up("a.jsonl", "")
    else:
        with meanwhile(moment, person_and_other), suppress(ConflictError):
            slow.work()
    with suppress(SourceError):  # where a part of it is committed, it is waited for
        finish(slow)
    away.rename(path)
    finish(slow)
    gate.write("c.jsonl", LINE * 3)
    gate.take()
    assert sum(gate.conserved()) in {6, 7}
    assert len(gate.rows("blocks")) == 2


def test_text_that_grew_is_read_up_to_its_plan_and_the_rest_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = planned(tmp_path)
    gate.write("a.jsonl", LINE * 7)
    assert gate.take() == 4
    assert "changed after they were taken" in caplog.text
    assert "a.jsonl" in caplog.text


def test_a_file_that_was_changed_is_taken_as_it_is_when_a_person_says_so(tmp_path: Path) -> None:
    gate = planned(tmp_path)
    gate.write("a.jsonl", LINE)
    with pytest.raises(SourceError, match=r"changed since it was planned: .*penstock retake"):
        gate.take()
    person(gate).retake("a.jsonl", "")
    assert gate.take() == 3
    assert gate.conserved() == (3, 0)


def test_every_unreadable_file_is_named_until_it_is_accepted_or_taken_again(
    tmp_path: Path,
) -> None:
    gate = Gate(tmp_path, "parquet")
    for name in "ab":
        gate.write(f"{name}.parquet", b"PAR1 no")
    assert gate.take() == 2
    named = unreadable_files(gate.tables, 1)
    assert [fault.place["file"] for fault in named] == [
        f"{tmp_path}/live/{name}.parquet" for name in "ab"
    ]
    example = Example("s", "", "", named[0].what, "", "")
    assert example.column == "files_unreadable"
    person(gate).accept("a.parquet", "known")
    (left,) = unreadable_files(gate.tables, 1)
    assert left.place["file"].endswith("b.parquet")
    with pytest.raises(ConfigError, match="accepted already"):
        person(gate).accept("a.parquet", "")
    write_parquet(tmp_path / "live" / "b.parquet", disordered(5, seed=1, late_share=0))
    assert gate.take() == 0
    person(gate).retake("b.parquet", "mended")
    assert unreadable_files(gate.tables, 1) == []
    assert gate.take() == 5
    assert gate.conserved() == (5, 2)
    with pytest.raises(ConfigError, match="would count twice"):
        person(gate).retake("b.parquet", "")


@pytest.mark.parametrize("name", ["a.parquet", "live/a.parquet"])
def test_of_files_in_folders_of_one_name_the_one_that_is_meant_is_taken_again(
    tmp_path: Path, name: str
) -> None:
    gate = Gate(tmp_path, "parquet")
    names = ["a.parquet", "live/a.parquet"]
    for each in names:
        gate.write(each, b"PAR1 no")
    assert gate.take() == 2
    write_parquet(tmp_path / "live" / name, disordered(5, seed=1, late_share=0))
    person(gate).retake(f"{tmp_path}/live/{name}", "mended")
    (left,) = unreadable_files(gate.tables, 1)
    names.remove(name)
    assert left.place["file"] == f"{tmp_path}/live/{names[0]}"
    assert gate.take() == 5


def test_a_file_that_becomes_unreadable_in_a_later_interval_is_one_record(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "parquet", source={"mode": "live"})
    write_parquet(tmp_path / "live" / "a.parquet", disordered(5, seed=1, late_share=0))
    begin = int(BEGIN.timestamp()) * 10**6
    first = gate.take(since=begin - 10**12, until=begin + 1)
    gate.write("a.parquet", b"PAR1 no")
    with pytest.raises(SourceError, match=r"changed since a part of it was taken.*penstock accept"):
        gate.take(since=begin + 1, until=begin + 10**12)
    person(gate).accept("a.parquet", "it is damaged for good")
    assert gate.take(since=begin + 1, until=begin + 10**12) == 1
    assert gate.conserved() == (first, 1)


@pytest.mark.parametrize(("size", "waits"), [(MACHINE * 2, False), (64, True)])
def test_memory_that_no_machine_has_is_asked_for_by_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, waits: bool
) -> None:
    gate = planned(tmp_path)

    tried = []

    def judged(received: Any, *given: Any) -> Any:
        if not received.malformed:
            tried.append(1)
            raise pa.ArrowMemoryError(f"malloc of size {size} failed")
        return judge(received, *given)

    monkeypatch.setattr(judging, "judge", judged)
    if waits:
        with pytest.raises(SourceError):
            gate.take()
    else:
        assert gate.take() == 2
        assert {reason for reason, _ in gate.reasons()} == {"unreadable"}
    assert tried
