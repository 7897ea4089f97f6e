"""The log of a Delta table that somebody else writes: its commits, and what stops following it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from penstock.core.errors import TerminalError
from penstock.lake.ingest.reading import SourceError
from penstock.lake.storage.durable import LOG

DIGITS = 20
OFFSET = re.compile(r"(Z|[+-]\d{2}:?\d{2})$")
URI = re.compile("[a-z][a-z0-9+.-]*:/")
NO_TABLE = "holds no Delta table: see that the place is the one that was meant, or make the table"
PLAIN = "Switch that feature of the table off, or copy it to a table without it and name that one"
AFRESH = (
    "Make the table whole again from a backup, or begin afresh with what it holds now:"
    " penstock remove PIPELINE, then start it"
)


class DeltaSourceError(TerminalError):
    """A source table cannot be followed any further: a person has to look at it."""

    def __init__(self, root: str, said: str, remedy: str = AFRESH) -> None:
        self.root = root
        super().__init__(f"{root}: {said}. Nothing more of it is taken. {remedy}.")


@dataclass(frozen=True, slots=True)
class Added:
    """A data file as a commit or a snapshot names it.

    Attributes:
        path: from the table's folder, as it is on disk; of a file elsewhere its URI.
        size: bytes.
        modified: milliseconds since the epoch.
        values: of the partition columns, as text.
    """

    path: str
    size: int
    modified: int
    values: dict[str, str | None]


Commits = dict[int, tuple[int, int]]
"""Bytes and modification (nanoseconds) of the commits that a log holds, by version, ascending."""


def commits(filesystem: pa.fs.FileSystem, root: str) -> Commits:
    """What the log holds; an absent one nothing."""
    return _commits_in(_listed(filesystem, root))


def _listed(filesystem: pa.fs.FileSystem, root: str) -> dict[str, tuple[int, int]]:
    """Bytes and modification of all that lies in a log, by name."""
    selector = pa.fs.FileSelector(f"{root}/{LOG}", allow_not_found=True)
    try:
        return {i.base_name: (i.size, i.mtime_ns) for i in filesystem.get_file_info(selector)}
    except OSError as away:
        raise SourceError(root, away) from away


def _commits_in(listed: dict[str, tuple[int, int]]) -> Commits:
    found = [(PurePosixPath(name), state) for name, state in listed.items()]
    return dict(sorted(
        (int(n.stem), state) for n, state in found if n.suffix == ".json" and len(n.stem) == DIGITS
        if n.stem.isdigit()
    ))  # fmt: skip


def tells_of(filesystem: pa.fs.FileSystem, root: str, version: int) -> bool:
    """Whether a log holds all that a version is told from: it cannot be read only for now.

    Raises:
        SourceError: it cannot be listed now.
    """
    listed = _listed(filesystem, root)
    sums = {int(n[:DIGITS]) for n in listed if ".checkpoint." in n and n[:DIGITS].isdigit()}
    last = max((v for v in sums if v <= version), default=-1)
    return {*range(last + 1, version + 1)} <= _commits_in(listed).keys()


def opened(uri: str, filesystem: pa.fs.FileSystem, root: str) -> DeltaTable:
    """The table as it is now.

    Raises:
        SourceError: there is none, or it cannot be read now.
        DeltaSourceError: nothing that may pass keeps it from being read.
    """
    try:
        return DeltaTable(uri)
    except TableNotFoundError as none:
        raise SourceError(root, NO_TABLE) from none
    except OSError as away:
        raise SourceError(root, away) from away
    except DeltaError as broken:
        said = str(broken).partition("\n")[0].removeprefix("Kernel error: ").rstrip(".")
        versions = [*commits(filesystem, root)]
        missing = next((a + 1 for a, b in pairwise(versions) if b > a + 1), None)
        if "found gap" in said and missing is not None:
            raise DeltaSourceError(root, f"version {missing} is missing in its log") from broken
        if said.startswith(("Unsupported", "Schema error")):
            raise DeltaSourceError(root, f"it cannot be followed: {said}", PLAIN) from broken
        raise SourceError(root, said) from broken


def actions(filesystem: pa.fs.FileSystem, root: str, version: int) -> Iterator[dict[str, Any]]:
    """What one commit says.

    Raises:
        DeltaSourceError: the commit is gone.
        SourceError: it cannot be read now.
    """
    try:
        with filesystem.open_input_file(f"{root}/{LOG}/{version:0{DIGITS}d}.json") as stream:
            content = stream.read()
    except FileNotFoundError as gone:
        if not commits(filesystem, root):
            raise SourceError(root, NO_TABLE) from gone
        said = f"its log was cleaned before version {version} was read: what came in it is unknown"
        raise DeltaSourceError(root, said) from gone
    except OSError as away:
        raise SourceError(root, away) from away
    if not content.strip():
        said = f"version {version} of its log is empty: it is being written, or damaged"
        raise SourceError(root, said)
    try:
        yield from [json.loads(line) for line in content.splitlines() if line.strip()]
    except ValueError as part:  # still being written, or damaged: it is looked at again
        raise SourceError(root, f"version {version} of its log is no JSON: {part}") from part


def added(filesystem: pa.fs.FileSystem, root: str, version: int, *, skip: bool) -> list[Added]:
    """The data files that a commit brings; one that only moves records brings none.

    Args:
        filesystem: where the table lies.
        root: its path there.
        version: of the commit.
        skip: a person has said that it is to bring nothing.

    Raises:
        DeltaSourceError: it takes records away or changes them, or its log is gone.
    """
    found: list[Added] = []
    operation, changes = "", False
    for action in [] if skip else actions(filesystem, root, version):
        operation = action.get("commitInfo", {}).get("operation", operation)
        refuse_mapping(root, action.get("metaData", {}).get("configuration") or {})
        add, remove = action.get("add"), action.get("remove")
        if add is not None and add.get("dataChange", True):
            changes |= bool(add.get("deletionVector"))
            found.append(named(add))
        changes |= remove is not None and remove.get("dataChange", True)
    if changes:
        raise DeltaSourceError(
            root,
            f"version {version} ({operation or 'an unnamed operation'}) changes or removes records"
            " that were taken already; answers count every record that came, once",
            f"If nothing of that version is to be taken, write skip: [{version}] beside delta: in"
            " the pipeline file. Else begin afresh with what the table holds now: penstock remove"
            " PIPELINE, then start it",
        )
    return found


def brought(filesystem: pa.fs.FileSystem, root: str, version: int) -> set[str]:
    """Paths of the data files that a commit brings, whatever else it does."""
    adds = (action.get("add") for action in actions(filesystem, root, version))
    return {named(add).path for add in adds if add is not None and add.get("dataChange", True)}


def refuse_mapping(root: str, configuration: dict[str, str]) -> None:
    """Raise where columns have other names in the files than in the table."""
    mode = configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise DeltaSourceError(
            root,
            f"its columns are mapped (delta.columnMapping.mode = {mode}), which cannot be followed",
            "Copy it to a table without column mapping and name that one",
        )


def vacuumed(filesystem: pa.fs.FileSystem, path: str) -> str | None:
    """The table a missing data file belonged to; none: the table is away as well."""
    for folder in PurePosixPath(path).parents:
        if filesystem.get_file_info(f"{folder}/{LOG}").type is pa.fs.FileType.Directory:
            return str(folder)
    return None


def gone(root: str, path: str, version: int) -> DeltaSourceError:
    """Of a data file that is not there any more."""
    name = path.removeprefix(f"{root}/")
    return DeltaSourceError(
        root, f"file {name} of version {version} was removed (VACUUM) before it was read"
    )


def named(add: dict[str, Any]) -> Added:
    """The file that an action adds."""
    values = {n: v or None for n, v in (add.get("partitionValues") or {}).items()}
    return Added(place_in(add["path"]), add["size"], add["modificationTime"], values)


def in_utc(values: dict[str, str | None], kinds: dict[str, str]) -> dict[str, str | None]:
    """Partition values as Delta means them, whoever wrote them: without an offset it is UTC.

    Args:
        values: by column, as a commit writes them or as they are listed.
        kinds: Delta's types of the columns.
    """

    def told(name: str, text: str) -> str:
        if kinds.get(name) == "boolean":
            return text.lower()
        is_reading = kinds.get(name) == "timestamp" and OFFSET.search(text) is None
        return f"{text}Z" if is_reading else text

    return {name: None if text is None else told(name, text) for name, text in values.items()}


def place_in(path: str) -> str:
    """Where the log says a file is: from the table's folder, or its URI (a shallow clone's)."""
    if not path.startswith("/") and URI.match(path) is None:
        return normpath(unquote(path))
    if not path.startswith(("/", "file:")):
        return path
    return f"file:///{normpath(path.removeprefix('file:')).lstrip('/')}"
