"""What the system fails at leaves the plan unfinished; the next try takes every record, once."""

import errno
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.lake.ingest import judging, reading
from penstock.lake.ingest import numbered as numbered_module
from penstock.lake.ingest.door import Door
from penstock.lake.ingest.reading import SourceError, regular
from penstock.spark import ingest
from penstock.spark.ingest import Ingest
from tests.doubles import RecordingPulse
from tests.gates import Gate
from tests.streams import disordered, write_jsonl, write_parquet

FORMATS = {"parquet": write_parquet, "jsonl": write_jsonl}


def filled(tmp_path: Path, kind: str) -> Gate:
    """A gate before two files of 20 records."""
    gate = Gate(tmp_path, kind)
    for name in "ab":
        rows = disordered(20, seed=ord(name), late_share=0)
        FORMATS[kind](tmp_path / "live" / f"{name}.{kind}", rows)
    return gate


@contextmanager
def no_descriptor_is_left() -> Iterator[None]:
    """EMFILE at the next open."""
    free = os.dup(0)
    os.close(free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def failing(*places: str) -> Any:
    """A file that opens, and whose reads fail like those of a disk that does not answer."""
    return FailingFile(regular(*places))


class FailingFile:
    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def fails(self, *_given: Any) -> Any:
        raise OSError(errno.EIO, "Input/output error")

    read = seek = tell = fileno = fails


def test_a_zone_needs_no_descriptor_once_its_pipeline_was_read(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl", zone="America/New_York")
    with no_descriptor_is_left():
        assert gate.pipeline.definition.zone == "America/New_York"


def test_a_zone_that_cannot_be_read_now_is_not_a_wrong_one(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Too many open files"), no_descriptor_is_left():
        Gate(tmp_path, "jsonl", zone="Antarctica/Troll")


@pytest.mark.parametrize("kind", FORMATS)
def test_without_a_free_descriptor_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    gate, receive = filled(tmp_path, kind), judging.receive

    def cramped(*given: Any) -> Any:
        with no_descriptor_is_left():
            return receive(*given)

    with monkeypatch.context() as patched:
        patched.setattr(judging, "receive", cramped)
        with pytest.raises(SourceError, match=rf"a\.{kind}: OSError.*Too many open files"):
            gate.take()
    assert gate.take() == 40
    assert gate.conserved() == (40, 0)


@pytest.mark.parametrize("when", ["planning", "reading"])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_disk_that_does_not_answer_refuses_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, when: str
) -> None:
    gate = filled(tmp_path, kind)
    door = gate.door()
    plan, seen = door._plan, list[Any]()
    with monkeypatch.context() as patched:

        def fails_then(*given: Any) -> Any:
            seen.append(plan(*given))
            patched.setattr(reading, "regular", failing)
            return seen[0]

        if when == "reading":
            patched.setattr(door, "_plan", fails_then)
        else:
            patched.setattr(reading, "regular", failing)
        with pytest.raises(SourceError, match=rf"[ab]\.{kind}: OSError.*Input/output error"):
            door.work()
    assert len(door.plans.refresh().file_uris()) == (when == "reading")
    assert gate.take() == 40
    assert gate.conserved() == (40, 0)


@pytest.mark.parametrize("failure", [
    MemoryError(), pa.ArrowMemoryError("malloc of size 64 failed"),
    duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate"),
    duckdb.IOException("IO Error: No space left on device"),
    RuntimeError("can't start new thread"),
], ids=lambda failure: type(failure).__name__)  # fmt: skip
@pytest.mark.parametrize("where", [
    (judging, "judge"), (judging, "receive"), (numbered_module, "accepted_rows"),
], ids=lambda where: where[1])  # fmt: skip
def test_without_memory_or_threads_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, where: tuple[Any, str]
) -> None:
    gate = filled(tmp_path, "jsonl")
    monkeypatch.setattr(judging, "TOGETHER", 0)  # each file is judged by itself
    original, calls = getattr(*where), []

    def second_fails(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:
            raise failure
        return original(*given)

    with monkeypatch.context() as patched:
        patched.setattr(*where, second_fails)
        with pytest.raises(SourceError, match=rf"b\.jsonl: {type(failure).__name__}"):
            gate.take()
    assert gate.take() == 40
    assert gate.conserved() == (40, 0)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_mount_that_goes_between_plan_and_reading_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    gate, live, away = filled(tmp_path, kind), tmp_path / "live", tmp_path / "away"
    receive = judging.receive

    def gone(*given: Any) -> Any:
        if live.exists():
            live.rename(away)
        return receive(*given)

    with monkeypatch.context() as patched:
        patched.setattr(judging, "receive", gone)
        for _ in range(3):
            with pytest.raises(SourceError, match=rf"live/a\.{kind}: FileNotFoundError"):
                gate.take()
    away.rename(live)
    assert gate.take() == 40
    assert gate.conserved() == (40, 0)


@pytest.mark.parametrize("source", [{"mode": "bounded"}, {"mode": "live", "idle_after": "PT1S"}])
def test_from_a_folder_that_is_away_nothing_is_concluded(
    tmp_path: Path, source: dict[str, Any]
) -> None:
    gate = Gate(tmp_path, "parquet", source=source)

    def looks_in_vain(door: Door) -> None:
        for _ in range(3):
            gate.clock.move(door.pipeline.source.idle_after * 2)
            with pytest.raises(SourceError, match="live"):
                door.work()

    looks_in_vain(gate.door())
    write_parquet(tmp_path / "live" / "a.parquet", disordered(20, seed=1, late_share=0))
    assert gate.door().work() == 20
    (tmp_path / "live").rename(tmp_path / "away")
    looks_in_vain(gate.door())
    assert [b["kind"] for b in gate.rows("blocks")] == ["data"]
    (tmp_path / "away").rename(tmp_path / "live")
    gate.take()
    assert [b["kind"] for b in gate.rows("blocks")] == [
        "data",
        "end" if len(source) == 1 else "idle",
    ]


def test_a_stream_says_what_it_waits_for_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ingest, "AWAY_SECONDS", 0.01)
    gate, pulse = Gate(tmp_path, "parquet"), RecordingPulse()
    taking = Ingest(gate.door(), "p", pulse)
    taking.start()
    eventually(lambda: "/live: FileNotFoundError" in (pulse.figures.get("waits_for") or ""))
    assert [r.message for r in caplog.records if "ingest waits" in r.message], "also in the log"
    write_parquet(tmp_path / "live" / "a.parquet", disordered(20, seed=1, late_share=0))
    eventually(lambda: pulse.figures.get("received") == 20)
    assert pulse.figures["waits_for"] is None
    taking.halt.set()
    taking.join()
    assert taking.failure is None, "no restart was needed"
    assert len([r for r in caplog.records if "ingest waits" in r.message]) == 1, "said once"


def test_a_stream_waits_for_room_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "AWAY_SECONDS", 0.01)
    gate, pulse = filled(tmp_path, "jsonl"), RecordingPulse()
    gate.door().work()
    write_jsonl(tmp_path / "live" / "c.jsonl", disordered(20, seed=3, late_share=0))
    statvfs = os.statvfs
    taking = Ingest(gate.door(), "p", pulse)
    with monkeypatch.context() as patched:
        full = os.statvfs_result((4096, 4096, 9, 0, 0, 9, 9, 9, 0, 255))
        patched.setattr(os, "statvfs", lambda _: full)
        taking.start()
        eventually(lambda: "No space left on device" in (pulse.figures.get("waits_for") or ""))
        patched.setattr(os, "statvfs", statvfs)
        eventually(lambda: pulse.figures.get("received") == 20)
    taking.halt.set()
    taking.join()
    assert taking.failure is None, "no restart was needed"
    assert gate.conserved() == (60, 0)


def eventually(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        threading.Event().wait(0.01)


def test_content_that_raises_an_error_of_reading_is_still_refused(tmp_path: Path) -> None:
    gate = filled(tmp_path, "parquet")
    path = tmp_path / "live" / "a.parquet"
    content = bytearray(path.read_bytes())
    content[8] ^= 0xFF
    content[30] ^= 0xFF
    path.write_bytes(content)
    gate.take()
    assert gate.conserved() == (20, 1)
    assert gate.refused()[0][2].startswith("unreadable: OSError"), (
        "pyarrow's word for a broken page"
    )
