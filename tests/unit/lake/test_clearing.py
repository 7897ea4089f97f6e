"""Files whose records are sealed are deleted or archived; whatever else lies there stays."""

import errno
import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.core.errors import ConfigError
from penstock.lake.ingest import removal, source
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.clearing import STILL
from penstock.lake.ingest.place import problems
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.restored import lacking
from penstock.lake.ingest.sample import queue
from penstock.lake.log.blocks import LIVE
from penstock.lake.proof.unsettled import changed_files
from tests.doubles import Killed, RisingClock, deadly_commits, dies_at
from tests.gates import Gate, T

OLD = 1_700_000_000


def text(*codes: int) -> str:
    rows = ({"event_time": T, "site": "x", "code": code} for code in codes)
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def put(path: Path, content: str | bytes, at: int = OLD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, (at, at))
    return path


def codes(gate: Gate) -> list[int]:
    gate.conserved()
    return sorted(row["code"] for row in gate.rows("events"))


def below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir())


class Place:
    """A source that deletes or archives, its files and its archive."""

    def __init__(
        self, home: Path, after: str = "archive", kind: str = "jsonl", **more: Any
    ) -> None:
        self.home, self.live, self.archive = home, home / "live", home / "archive"
        self.live.mkdir(exist_ok=True)
        self.archive.mkdir(exist_ok=True)
        where = {"archive": str(self.archive)} if after == "archive" else {}
        config = {"mode": "bounded", "after": after} | where | more
        self.gate = Gate(home, kind, source=config)

    def put(self, name: str, *numbers: int, at: int = OLD) -> Path:
        return put(self.live / name, text(*numbers), at)

    def take(self) -> list[int]:
        self.gate.take()
        return codes(self.gate)

    def person(self) -> Amendment:
        return Amendment(self.gate.tables, self.gate.pipeline, self.home, RisingClock())


@pytest.fixture(params=["archive", "delete"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


@pytest.fixture
def archiving(tmp_path: Path) -> Place:
    return Place(tmp_path)


def as_parquet(*numbers: int) -> bytes:
    rows = pa.table({"event_time": [T] * len(numbers), "site": ["x"] * len(numbers),
                     "code": list(numbers)})  # fmt: skip
    pq.write_table(rows, sink := pa.BufferOutputStream())
    return bytes(sink.getvalue())


def as_csv(*numbers: int) -> bytes:
    return "".join(["event_time,site,code\n", *(f"{T},x,{n}\n" for n in numbers)]).encode()


CONTENTS = {"jsonl": lambda *n: text(*n).encode(), "csv": as_csv, "parquet": as_parquet}


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("after", ["keep", "delete", "archive"])
def test_a_file_whose_records_are_sealed_stays_goes_or_is_archived(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, after: str
) -> None:
    caplog.set_level(logging.INFO)
    place = Place(tmp_path, after, kind)
    names = [f"a.{kind}", f"deep/er/b.{kind}"]
    content = {name: CONTENTS[kind](3 * at, 3 * at + 1) for at, name in enumerate(names)}
    for name in names:
        put(place.live / name, content[name])
    assert place.take() == [0, 1, 3, 4]
    assert below(place.live) == (names if after == "keep" else [])
    assert below(place.archive) == (names if after == "archive" else [])
    for name in below(place.archive):
        assert (place.archive / name).read_bytes() == content[name]
        assert (place.archive / name).stat().st_mtime == OLD
    told = {
        "keep": 0,
        "delete": "deleted files=2",
        "archive": f"archived to={place.archive} files=2",
    }
    assert after == "keep" or str(told[after]) in caplog.text
    assert place.gate.rows("blocks")[-1]["kind"] == "end"
    assert place.take() == [0, 1, 3, 4], "and nothing is missed by who starts anew"
    assert changed_files(place.gate.tables, place.gate.pipeline, tmp_path) == []
    assert "folders hold nothing any more" not in caplog.text


def test_what_was_removed_is_not_missed_when_files_are_kept_again(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.put("a.jsonl", 1)
    place.take()
    place.gate = Gate(place.home, "jsonl", source={"mode": "bounded"})
    assert place.take() == [1]
    found = queue(place.gate.pipeline.source, place.home, place.gate.tables, LIVE)
    assert (found.gone, found.away) == (0, "")
    assert "folders hold nothing any more" not in caplog.text


def test_files_that_were_taken_before_files_were_to_go_go_too(tmp_path: Path) -> None:
    place = Place(tmp_path, "keep")
    place.put("a.jsonl", 1)
    place.take()
    place = Place(tmp_path, "archive")
    assert place.take() == [1]
    assert below(place.archive) == ["a.jsonl"]


def test_until_its_blocks_are_sealed_a_file_stays(tmp_path: Path) -> None:
    moment, died = 0, True
    while died:
        moment += 1
        home = tmp_path / str(moment)
        home.mkdir()
        place, died = Place(home, "delete"), False
        place.put("a.jsonl", 1, 2)
        try:
            with deadly_commits(dies_at(moment)):
                place.gate.door().work()
        except Killed:
            died = True
        sealed = died and bool(place.gate.rows("blocks"))
        assert (below(place.live) == ["a.jsonl"]) == died, "the kill comes before the removal"
        assert sealed or died or codes(place.gate) == [1, 2]
        assert place.take() == [1, 2]
        assert below(place.live) == []
    assert moment > 7


def test_of_a_file_in_parts_all_must_be_sealed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "BYTES_PER_PLAN", 300)
    place.put("a.jsonl", *range(20))
    door, taken = place.gate.door(), 0
    while taken < 20:
        assert below(place.live) == ["a.jsonl"]
        taken += door.work()
    assert below(place.live) == []
    assert place.take() == [*range(20)]


def test_a_text_that_was_written_just_now_may_still_grow(place: Place) -> None:
    now = place.gate.clock.now().timestamp()
    path = place.put("a.jsonl", 1, at=int(now) - 1)
    assert place.take() == [1]
    assert below(place.live) == ["a.jsonl"]
    at = int(now) - STILL // 1_000_000 - 1
    os.utime(path, (at, at))
    place.take()
    assert below(place.live) == ["a.jsonl"], "another time: not what was taken"
    place.put("b.jsonl", 2, at=at)
    assert place.take() == [1, 2]
    assert below(place.live) == ["a.jsonl"]


def grown(path: Path) -> None:
    path.write_text(path.read_text() + text(9))


def touched(path: Path) -> None:
    os.utime(path, (OLD + 5, OLD + 5))


def replaced(path: Path) -> None:
    path.unlink()
    put(path, text(7, 8), OLD + 1)


def put_back(path: Path) -> None:
    shutil.copy2(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").rename(path)


@pytest.mark.parametrize("changes", [grown, touched, replaced, put_back])
@pytest.mark.parametrize("when", ["planned", "kept"])
def test_a_file_that_is_not_the_very_one_that_was_taken_stays(
    tmp_path: Path, changes: Callable[[Path], None], when: str
) -> None:
    place = Place(tmp_path, "keep" if when == "kept" else "delete")
    path = place.put("a.jsonl", 1, 2)
    if when == "kept":
        place.take()
    else:
        door = place.gate.door()
        door._catch_up()
        door._plan(LIVE, None, None)
    changes(path)
    place = Place(tmp_path, "delete")
    for _ in range(2):
        try:
            place.take()
        except SourceError:  # it waits for what was planned
            assert changes in {touched, replaced}
    assert below(place.live) == ["a.jsonl"]


def test_a_file_that_was_renamed_after_it_was_taken_goes_under_its_name(tmp_path: Path) -> None:
    place = Place(tmp_path, "keep")
    place.put("a.jsonl", 1)
    place.take()
    (place.live / "a.jsonl").rename(place.live / "b.jsonl")
    place = Place(tmp_path)
    assert place.take() == [1]
    assert below(place.archive) == ["b.jsonl"]


def test_a_file_of_which_nothing_could_be_read_stays_until_it_is_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path, kind="csv")
    put(place.live / "a.csv", f"{T},x,1\n")
    put(place.live / "b.csv", as_csv(2))
    place.take()
    place.take()
    assert below(place.live) == ["a.csv"]
    assert "nothing of them could be read" in caplog.text
    put(place.live / "a.csv", as_csv(1), OLD + 1)
    place.person().retake("a.csv", "mended")
    assert place.take() == [1, 2]
    assert below(place.live) == []
    assert below(place.archive) == ["a.csv", "b.csv"]


def test_a_file_that_was_given_up_stays(place: Place) -> None:
    path = place.put("a.jsonl", 1)
    door = place.gate.door()
    door._catch_up()
    door._plan(LIVE, None, None)
    path.rename(place.home / "aside")
    place.person().give_up("a.jsonl", "lost")
    place.gate.take()
    (place.home / "aside").rename(path)
    place.gate.take()
    assert below(place.live) == ["a.jsonl"]


def test_an_archive_is_never_written_over(
    archiving: Place, caplog: pytest.LogCaptureFixture
) -> None:
    for number, name in enumerate(["a.jsonl", "a-2.jsonl"]):
        put(archiving.archive / "in" / name, f"another {number}")
    archiving.put("in/a.jsonl", 1)
    archiving.take()
    assert below(archiving.archive) == ["in/a-2.jsonl", "in/a-3.jsonl", "in/a.jsonl"]
    assert (archiving.archive / "in/a-3.jsonl").read_text() == text(1)
    assert (archiving.archive / "in/a.jsonl").read_text() == "another 0"
    assert "the archive holds another" in caplog.text


def test_what_a_killed_process_archived_is_not_archived_twice(archiving: Place) -> None:
    one, two = archiving.put("a.jsonl", 1), archiving.put("b.jsonl", 2)
    os.link(one, archiving.archive / "a.jsonl")
    shutil.copy2(two, archiving.archive / "b.jsonl")
    assert archiving.take() == [1, 2]
    assert below(archiving.archive) == ["a.jsonl", "b.jsonl"]
    assert below(archiving.live) == []


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no other disk")  # noqa: S108
def test_an_archive_on_another_disk_gets_copies_with_their_time(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Path("/dev/shm") / f"penstock-{os.getpid()}"  # noqa: S108
    other.mkdir()
    try:
        place = Place(tmp_path, archive=str(other))
        put(other / "a.jsonl", "another")
        place.put("a.jsonl", 1)
        place.put("d/b.jsonl", 2)
        assert place.take() == [1, 2]
        assert below(other) == ["a-2.jsonl", "a.jsonl", "d/b.jsonl"]
        assert (other / "a-2.jsonl").read_text() == text(1)
        assert (other / "d/b.jsonl").stat().st_mtime == OLD
        assert below(place.live) == []
    finally:
        shutil.rmtree(other)


def test_what_is_reached_by_a_link_stays(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    (place.home / "outside").mkdir()
    put(place.home / "outside" / "b.jsonl", text(2))
    (place.live / "b.jsonl").symlink_to(place.home / "outside" / "b.jsonl")
    place.put("a.jsonl", 1)
    assert place.take() == [1, 2]
    place.take()
    assert below(place.live) == ["b.jsonl"]
    assert (place.home / "outside" / "b.jsonl").exists()
    assert "reached by a link" in caplog.text


@pytest.mark.parametrize("restarted", [False, True])
def test_a_new_file_with_the_number_of_one_that_was_deleted_is_taken(
    tmp_path: Path, restarted: bool
) -> None:
    place = Place(tmp_path, "delete", mode="live")
    door, seen, again = place.gate.door(), set[int](), 0
    for number in range(12):
        path = place.put(f"{number}.jsonl", 1, at=OLD + number)
        again += path.stat().st_ino in seen
        seen.add(path.stat().st_ino)
        door = place.gate.door() if restarted else door
        assert door.work() == 1, f"file {number}"
    assert codes(place.gate) == [1] * 12
    if not again:
        pytest.skip("this disk deals no number twice")


def test_while_the_archive_is_away_files_stay_and_that_is_said(
    archiving: Place, caplog: pytest.LogCaptureFixture
) -> None:
    archiving.archive.rmdir()
    archiving.put("a.jsonl", 1)
    door = archiving.gate.door()
    assert door.work() == 1
    archiving.put("b.jsonl", 2)
    assert door.work() == 1, "the stream goes on"
    for _ in range(3):
        door.work()
    assert below(archiving.live) == ["a.jsonl", "b.jsonl"]
    assert caplog.text.count("cannot be moved to the archive now") == 2, "once a file"
    assert "the archive is not there" in caplog.text
    archiving.archive.mkdir()
    archiving.take()
    assert below(archiving.archive) == ["a.jsonl", "b.jsonl"]


def test_a_place_in_the_archive_that_cannot_be_made_keeps_nobody_else_back(
    archiving: Place, caplog: pytest.LogCaptureFixture
) -> None:
    put(archiving.archive / "in", "no folder")
    archiving.put("in/a.jsonl", 1)
    archiving.put("b.jsonl", 2)
    assert archiving.take() == [1, 2]
    archiving.take()
    assert below(archiving.live) == ["in/a.jsonl"]
    assert "cannot be moved to the archive now" in caplog.text


@pytest.mark.parametrize("moment", ["before archived", "before cleared"])
def test_another_file_that_takes_the_name_at_the_last_moment_stays(
    archiving: Place, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    path = archiving.put("in/a.jsonl", 1)

    def exchanged(*point: str) -> None:
        if " ".join(point) == moment:
            put(archiving.live / "in" / ".new", text(77), OLD + 9).rename(path)

    monkeypatch.setattr(removal, "reached", exchanged)
    archiving.take()
    assert path.read_text() == text(77)
    assert below(archiving.live) == ["in/a.jsonl"]
    assert below(archiving.archive) == ([] if moment == "before archived" else ["in/a.jsonl"])


def test_a_name_that_was_given_again_meanwhile_is_not_taken_from_its_file(
    archiving: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = archiving.put("a.jsonl", 1)
    exchanges = {
        "before cleared": lambda: put(archiving.live / ".new", text(77), OLD + 9).rename(path),
        "within cleared": lambda: put(path, text(88)),
    }
    monkeypatch.setattr(
        removal, "reached", lambda *point: exchanges.pop(" ".join(point), lambda: None)()
    )
    assert archiving.gate.door().work() == 1
    found = {file.name: file.read_text() for file in archiving.live.iterdir()}
    assert found == {"a.jsonl": text(88), "a-2.jsonl": text(77)}
    assert "is put back" in caplog.text
    assert archiving.take() == [1, 77], "under its number it is new"
    assert below(archiving.live) == ["a.jsonl"], "what took a name that was taken is said"
    assert "changed after they were taken" in caplog.text


def test_files_that_a_killed_process_left_hidden_are_put_back(place: Place) -> None:
    place.put("d/a.jsonl", 1)
    cell = place.live / "d" / ".penstock-removed-0123"
    put(cell / "b.jsonl", text(2))
    put(cell / "a.jsonl", text(3), OLD + 1)
    assert place.take() == [1, 2, 3]
    assert not cell.exists()
    assert below(place.live) == []


def test_failing_to_remove_is_no_end(
    archiving: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    archiving.put("a.jsonl", 1)

    def fails(*point: str) -> None:
        if " ".join(point) == "before cleared":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(removal, "reached", fails)
        assert archiving.take() == [1]
        archiving.take()
    assert below(archiving.live) == ["a.jsonl"]
    assert "cannot be removed now" in caplog.text
    archiving.take()
    assert below(archiving.live) == []
    assert below(archiving.archive) == ["a.jsonl"]


@pytest.mark.parametrize("archive", ["live/done", "live", ".", "past", "past/done", "lake/a"])
def test_an_archive_lies_apart_from_source_history_and_lake(tmp_path: Path, archive: str) -> None:
    for name in ("live", "past", "lake"):
        (tmp_path / name).mkdir()
    more = {"history": {"files": str(tmp_path / "past"), "format": "jsonl"}}
    config = {"after": "archive", "archive": str(tmp_path / archive)}
    gate = Gate(tmp_path, "jsonl", source=config, **more)
    with pytest.raises(ConfigError, match=r"source.archive .* lie in each other"):
        gate.door()
    found = problems(gate.pipeline, tmp_path, gate.tables.lake)
    assert ("source", "archive") in {problem.keys for problem in found}


def test_an_archive_that_is_not_there_is_said_when_the_file_is_checked(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    gate = Gate(tmp_path, "jsonl", source={"after": "archive", "archive": "done"})
    (found,) = problems(gate.pipeline, tmp_path, gate.tables.lake)
    assert (found.keys, found.problem) == (
        ("source", "archive"), f"the folder {tmp_path / 'done'} is not there",
    )  # fmt: skip
    (tmp_path / "done").mkdir()
    assert problems(gate.pipeline, tmp_path, gate.tables.lake) == []


def test_the_history_of_a_pipeline_stays(tmp_path: Path) -> None:
    put(tmp_path / "past" / "h.jsonl", text(5))
    place = Place(tmp_path, "delete")
    past = {"history": {"files": str(tmp_path / "past"), "format": "jsonl"}}
    place.gate = Gate(tmp_path, "jsonl", source={"after": "delete"}, **past)
    place.gate.take("history")
    place.put("a.jsonl", 1)
    assert place.take() == [1, 5]
    assert below(tmp_path / "past") == ["h.jsonl"]
    assert below(place.live) == []


def test_a_restored_lake_says_what_of_an_archive_it_lacks(archiving: Place) -> None:
    lake, kept = archiving.home / "lake", archiving.home / "kept"
    archiving.put("d/a.jsonl", 1)
    archiving.take()
    shutil.copytree(lake, kept)
    gate = archiving.gate
    assert lacking(gate.pipeline, archiving.home, gate.tables) is None
    archiving.put("d/b.jsonl", 2)
    archiving.take()
    shutil.rmtree(lake)
    kept.rename(lake)
    said = lacking(gate.pipeline, archiving.home, gate.tables)
    assert said is not None
    assert "1 files in its archive" in said
    assert f"{archiving.archive} were" in said
    assert f"back to {archiving.live} (first: d/b.jsonl)" in said
    (archiving.archive / "d/b.jsonl").rename(archiving.live / "d/b.jsonl")
    assert archiving.take() == [1, 2]
    assert lacking(gate.pipeline, archiving.home, gate.tables) is None


def test_a_restored_lake_says_that_files_were_deleted(tmp_path: Path) -> None:
    gate = Place(tmp_path, "delete").gate
    assert "were deleted from" in str(lacking(gate.pipeline, tmp_path, gate.tables))
    kept = Place(tmp_path, "keep").gate
    assert lacking(kept.pipeline, tmp_path, kept.tables) is None


def test_a_plan_of_a_restored_lake_reads_its_file_in_the_archive(archiving: Place) -> None:
    lake, kept = archiving.home / "lake", archiving.home / "kept"
    put(archiving.archive / "a.jsonl", "another")
    archiving.put("a.jsonl", 1)
    door = archiving.gate.door()
    door._catch_up()
    door._plan(LIVE, None, None)
    shutil.copytree(lake, kept)
    assert archiving.take() == [1]
    assert below(archiving.archive) == ["a-2.jsonl", "a.jsonl"]
    shutil.rmtree(lake)
    kept.rename(lake)
    assert archiving.take() == [1]


def test_equal_files_both_count(place: Place) -> None:
    place.put("a.jsonl", 1)
    place.put("b.jsonl", 1, at=OLD + 1)
    place.take()
    place.put("c.jsonl", 1, at=OLD + 2)
    assert Counter(place.take()) == {1: 3}
