"""What a backup holds: written last, so a folder without it, or with half of it, is no backup.

::

    DIR/manifest.json       which tables at which versions, and every file's size and sum
    DIR/data/...            data files, as they lie in the lake; they never change
    DIR/at-N/logs/...       logs of the tables as of this backup
    DIR/at-N/pipelines/...  the pipeline files as of this backup
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.core.crash import reached
from penstock.core.errors import ConfigError, TerminalError
from penstock.lake.storage.durable import LOG, sync

FORMAT = 1
MANIFEST = "manifest.json"
DATA, AT, LOGS, PIPELINES = "data", "at-", "logs", "pipelines"
REMEDY = (
    "Nothing was restored. Put the file back from another copy (data files have the same name in a"
    " lake); or, while the lake is whole, remove the file and call penstock backup again, which"
    " copies it anew (docs/how-to/back-up-and-restore.md)"
)


class DamagedBackupError(TerminalError):
    """A file of a backup is not what it was.

    Attributes:
        file: which one.
    """

    def __init__(self, file: Path, what: str) -> None:
        self.file = file
        super().__init__(f"the backup is damaged: {file} {what}. {REMEDY}")


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One file.

    Attributes:
        path: below its table, or below the folder of pipeline files.
        size: bytes.
        sha256: of its content, in hexadecimal digits.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class KeptTable:
    """One table.

    Attributes:
        path: below the lake.
        version: of Delta's.
        files: of its log and its data.
    """

    path: str
    version: int
    files: tuple[KeptFile, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One backup.

    Attributes:
        number: rising.
        taken_at: the instant after which nothing of it was committed, ISO, UTC.
        tables: all of the lake.
        pipelines: the pipeline files.
    """

    number: int
    taken_at: str
    tables: tuple[KeptTable, ...]
    pipelines: tuple[KeptFile, ...]

    def files(self) -> Iterator[tuple[str, KeptFile]]:
        """Every file of a table with its path below the lake."""
        for table in self.tables:
            for file in table.files:
                yield f"{table.path}/{file.path}", file

    def place(self, folder: Path, path: str) -> Path:
        """Where a file lies in a backup's folder, by its path below the lake."""
        if f"/{LOG}/" in path:
            return folder / f"{AT}{self.number}" / LOGS / path
        return folder / DATA / path

    @property
    def size(self) -> int:
        """Bytes of all tables."""
        return sum(file.size for _, file in self.files())


def read_manifest(folder: Path) -> Manifest:
    """The backup that a folder holds.

    Raises:
        ConfigError: it holds none, or one of a later version.
        DamagedBackupError: its manifest is not what was written.
    """
    path = folder / MANIFEST
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        content = whole["content"]
        if whole["sha256"] != _digest(content):
            raise DamagedBackupError(path, "is not what was written")
        if content["format"] != FORMAT:
            raise ConfigError(f"{path} was written by another version of penstock: restore with it")
        return _parsed(content)
    except FileNotFoundError:
        raise ConfigError(f"{folder} holds no backup: there is no {MANIFEST}") from None
    except (ValueError, KeyError, TypeError) as wrong:
        raise DamagedBackupError(path, "is cut short, or something else") from wrong


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make a backup the one that the folder holds, in one step; what it names lasts already."""
    content = {"format": FORMAT, **asdict(manifest)}
    path = folder / MANIFEST
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump({"sha256": _digest(content), "content": content}, file)
        file.flush()
        os.fsync(file.fileno())
    reached("before manifest")
    new.replace(path)
    sync(folder)
    reached("after manifest")


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _parsed(content: dict[str, Any]) -> Manifest:
    tables = tuple(
        KeptTable(t["path"], t["version"], tuple(KeptFile(**f) for f in t["files"]))
        for t in content["tables"]
    )
    pipelines = tuple(KeptFile(**f) for f in content["pipelines"])
    return Manifest(content["number"], content["taken_at"], tables, pipelines)
