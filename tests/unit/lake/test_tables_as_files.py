"""A Delta table is no folder of files: what is rewritten in it would come in again."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.core.errors import ConfigError
from penstock.lake.ingest.place import problems
from penstock.lake.ingest.reading import SourceError
from tests.doubles import NOON
from tests.gates import Gate


def table(folder: Path) -> Path:
    records = pa.table({"event_time": [NOON] * 3, "site": ["x"] * 3, "day": ["a"] * 3})
    write_deltalake(str(folder), records, partition_by=["day"])
    return folder


def below(live: Path) -> None:
    live.mkdir(exist_ok=True)
    table(live / "some" / "table")


def linked(live: Path) -> None:
    live.mkdir(exist_ok=True)
    (live / "link").symlink_to(table(live.parent / "elsewhere"))


def a_partition(live: Path) -> None:
    if live.exists():
        live.rmdir()
    live.symlink_to(table(live.parent / "elsewhere") / "day=a")


def a_linked_file(live: Path) -> None:
    live.mkdir(exist_ok=True)
    [file] = table(live.parent / "elsewhere").rglob("*day=a/*.parquet")
    (live / "one.parquet").symlink_to(file)


@pytest.mark.parametrize("lies", [below, linked, a_partition, a_linked_file])
def test_a_table_in_a_folder_of_files_is_refused(
    tmp_path: Path, lies: Callable[[Path], None]
) -> None:
    gate = Gate(tmp_path, "parquet", source={"mode": "live"})
    lies(tmp_path / "live")
    with pytest.raises(ConfigError, match="is a Delta table: what is rewritten"):
        gate.door().work()


def test_a_closed_folder_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, stat = Gate(tmp_path, "jsonl"), os.stat

    def closed(path: object, **given: Any) -> os.stat_result:
        if str(path).endswith("/live"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", closed)
    [found] = problems(gate.pipeline, tmp_path, gate.tables.lake)
    assert found.problem.endswith("/live cannot be looked at: Permission denied")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_a_folder_that_cannot_be_looked_at_when_the_door_is_made_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    gate = Gate(tmp_path, "jsonl")
    live, stat = str(tmp_path / "live"), Path.stat

    def away(path: Path, *, follow_symlinks: bool = True) -> object:
        if str(path).startswith(live):
            raise OSError(number, "away", str(path))
        return stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", away)
    door = gate.door()
    with pytest.raises(SourceError):
        door.work()
