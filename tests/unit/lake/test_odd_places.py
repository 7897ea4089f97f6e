"""Links that lead nowhere, mounts that go, what is no file, names that nothing can say."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.lake.ingest import listing as listing_module
from penstock.lake.ingest import source
from penstock.lake.ingest.reading import SourceError
from penstock.lake.log.blocks import LIVE
from tests.gates import Gate, T

LINE = f'{{"event_time": "{T}", "site": "x"}}\n'
HEADER = "event_time,site,code\n"


def bounded(home: Path, kind: str = "jsonl") -> Gate:
    gate = Gate(home, kind, source={"mode": "bounded"})
    gate.write("a.jsonl", LINE * 2)
    return gate


def kinds(gate: Gate) -> list[str]:
    return [block["kind"] for block in gate.rows("blocks")]


@pytest.mark.parametrize("links", [
    {"one": "two", "two": "one"}, {"self.jsonl": "self.jsonl"}, {"README": "nowhere"},
    {"sub": "deeper/nowhere"},
])  # fmt: skip
def test_a_link_that_can_lead_to_no_file_is_said_and_keeps_nothing_back(
    tmp_path: Path, links: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    gate = bounded(tmp_path)
    for name, target in links.items():
        (tmp_path / "live" / name).symlink_to(target)
    assert gate.take() == 2
    assert kinds(gate) == ["data", "end"]
    assert "a link that leads nowhere" in caplog.text


@pytest.mark.parametrize(("name", "target"), [
    ("mounted", "/nowhere/else"), ("x.jsonl", "nowhere"), ("now", "_releases/3"),
])  # fmt: skip
def test_a_link_to_what_may_come_keeps_a_source_from_its_end(
    tmp_path: Path, name: str, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate = bounded(tmp_path)
    link = tmp_path / "live" / name
    link.symlink_to(target)
    door = gate.door()
    assert door.work() == 2
    assert f"first={name}" in caplog.text, "it is said before all else has been taken"
    with pytest.raises(SourceError) as away:
        door.work()
    assert f"{link}: this link leads nowhere" in str(away.value)
    assert f"bring back {os.path.realpath(link)}, or remove the link" in str(away.value)
    assert kinds(gate) == ["data"]
    link.unlink()
    assert door.work() == 0
    assert kinds(gate) == ["data", "end"]


def test_a_mount_within_that_goes_away_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "FILES_PER_PLAN", 1)
    monkeypatch.setattr(listing_module, "MOUNTS", tmp_path / "mounts")
    gate = bounded(tmp_path)
    point, stored = tmp_path / "live" / "m m", tmp_path / "stored"
    gate.write("m m/z.jsonl", LINE * 3)
    named = os.path.realpath(point).replace(" ", "\\040")
    mounted = f"1 2 0:3 / {named} rw - ext4 /dev/x rw\n"
    (tmp_path / "mounts").write_text(mounted)
    door = gate.door()
    assert door.work() == 2
    point.rename(stored)
    point.mkdir()
    (tmp_path / "mounts").write_text("")
    for _ in range(2):
        with pytest.raises(SourceError, match="m m: what was mounted there is away"):
            door.work()
    point.rmdir()
    stored.rename(point)
    (tmp_path / "mounts").write_text(mounted)
    assert (door.work(), door.work(), door.ended) == (3, 0, False)
    assert kinds(gate) == ["data", "data", "end"]


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's name has at most 108 bytes
        made.bind(path.name)
        os.chdir(here)


def a_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("put", [a_pipe, a_socket, a_folder])
def test_what_is_no_file_under_a_planned_name_is_not_waited_in(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    gate = Gate(tmp_path, "jsonl")
    gate.write("a.jsonl", LINE)
    door = gate.door()
    door._catch_up()
    assert door._plan(LIVE, None, None) is not None
    (tmp_path / "live" / "a.jsonl").unlink()
    put(tmp_path / "live" / "a.jsonl")
    said: list[BaseException] = []

    def works() -> None:
        try:
            door.work()
        except SourceError as refused:
            said.append(refused)

    worker = threading.Thread(target=works, daemon=True)
    worker.start()
    worker.join(20)
    assert not worker.is_alive(), "it hangs at what nobody writes to"
    assert "a.jsonl: OSError" in str(said[0])
    assert "penstock retake" in str(said[0])


def test_pipes_and_sockets_in_a_source_are_said_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = bounded(tmp_path)
    a_pipe(tmp_path / "live" / "p.jsonl")
    a_socket(tmp_path / "live" / "s.jsonl")
    (tmp_path / "live" / "l.jsonl").symlink_to("/dev/zero")
    assert gate.take() == 2
    assert kinds(gate) == ["data", "end"]
    assert "count=3" in caplog.text
    assert "a pipe, socket or device" in caplog.text


def test_a_folder_above_a_source_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    home = tmp_path / os.fsdecode(b"h\xff")
    with pytest.raises(ConfigError, match=r"h\\udcff.*not UTF-8.*Rename"):
        Gate(home, "jsonl", source={"files": "live"}).door()
    with pytest.raises(ValidationError, match=r"h\\udcff.*not UTF-8") as refused:
        Settings(home=home)
    str(refused.value).encode()


def test_a_link_to_a_folder_that_is_not_utf8_is_followed_or_said(tmp_path: Path) -> None:
    gate = bounded(tmp_path)
    far = tmp_path / os.fsdecode(b"f\xff")
    far.mkdir()
    (far / "b.jsonl").write_text(LINE + "no\n")
    (tmp_path / "live" / "far").symlink_to(far)
    assert gate.take() == 4
    assert gate.conserved() == (3, 1)
    assert gate.take() == 0


@pytest.mark.parametrize("first", ["\n" * 900, " \r\n" * 300, "\ufeff" + "\n" * 900, ""])
def test_a_header_stands_where_the_first_line_is_that_says_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr(source, "BYTES_PER_PLAN", 200)
    gate = Gate(tmp_path, "csv")
    gate.write("a.csv", first + HEADER + "".join(f"{T},x,{i}\n" for i in range(30)))
    gate.take()
    assert [row["code"] for row in gate.rows("events")] == [*range(30)]
    gate.write("b.csv", first + HEADER + "".join(f"{T},,{i}\n" for i in range(2)))
    gate.take()
    lines = (first + HEADER).count("\n")
    assert [place for _, place in gate.reasons()] == [
        f"live/b.csv: line {lines + 1}", f"live/b.csv: line {lines + 2}"
    ]  # fmt: skip
