"""One file of a plan, or a part of it; whether what lies there is what the plan names."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from penstock.config.intake import FileFormat
from penstock.lake.ingest.ending import ending, sample
from penstock.lake.ingest.reading import SourceError, SourceFile

REMEDY = (
    "put back what was planned, or decide: penstock retake PIPELINE FILE takes it as it is now,"
    " penstock giveup PIPELINE FILE counts it as one unreadable record"
)
MOVED = (
    "it is not there: put its table back, or, if that was moved, name its present place as delta:"
    " in the pipeline file"
)
FIRST = "."
GONE = (FileNotFoundError, NotADirectoryError)
NO_FILE = {errno.EINVAL, errno.ENXIO}


@dataclass(frozen=True, slots=True)
class Item:
    """One file of a plan, or a part of it.

    Attributes:
        path: from the source's folder, in plans of former versions whole; of a Delta table also
            the URI of a file elsewhere.
        format: parquet, jsonl or csv.
        size: bytes when it was planned.
        modified: nanoseconds since the epoch when it was planned.
        first, end: rows (Parquet) or bytes (text) of this part; end -1: to the end.
        records: how many, where the format tells without reading; -1: not known.
        since, until: only records with an event time in [since, until), us; none: all.
        rest: also the records that have no event time at all.
        version: of the Delta table that the file came with; -1: not of one, or not known.
        files: how many files came with that version.
        snapshot: the version was taken as a whole, with what came before it.
        table: id of the Delta table.
        values: of its partition columns, a JSON object of texts; empty: what the path says.
        real: which file it is by name, where ``path`` leads there by a link; to be read: whole.
        root: of the source's folder, as ``folder_name`` names it; empty: a former version's.
        device, inode: which file it is on the disk; 0: not known.
        ending: digest of its last bytes when it was planned; empty: not known.
        head: of which file it is a part: the place (plan and path) of its first one; FIRST: that
            is this one; empty: a former version's.
        born: when it was made, nanoseconds since the epoch; 0: not known, or of no use.
    """

    path: str
    format: str
    size: int
    modified: int
    first: int = 0
    end: int = -1
    records: int = -1
    since: int | None = None
    until: int | None = None
    rest: bool = True
    version: int = -1
    files: int = 0
    snapshot: bool = False
    table: str = ""
    values: str = ""
    real: str = ""
    root: str = ""
    device: int = 0
    inode: int = 0
    ending: str = ""
    head: str = ""
    born: int = 0

    @property
    def extent(self) -> int:
        """Bytes of this part; of Parquet, where rows do not tell them, of the file."""
        if self.format == FileFormat.PARQUET.value:
            return self.size
        return (self.size if self.end < 0 else self.end) - self.first

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {name: getattr(self, name) for name in FIELDS}


FIELDS = tuple(field.name for field in fields(Item))
"""``asdict`` copies deeply: 40 us a file."""


@contextmanager
def opened(item: Item) -> Iterator[SourceFile]:
    """The file of an item: before and after it is read it must be what the plan names.

    Args:
        item: with its whole path; of a Delta table (no ``real``) its log speaks.

    Raises:
        SourceError: it is gone, changed, no file any more, or cannot be read now.
    """
    try:
        file = SourceFile(item.path, item.real)
    except SourceError as away:
        why = away.__cause__
        if item.real and isinstance(why, GONE):
            said = f"{type(why).__name__}: it is gone since it was planned"
        elif item.real and isinstance(why, OSError) and why.errno in NO_FILE:
            said = away.why
        elif item.version >= 0 and isinstance(why, GONE):
            raise SourceError(item.path, MOVED) from why
        else:
            raise
        raise SourceError(item.path, f"{said}; {REMEDY}") from why
    with file:
        _refuse_part(item, file)
        _refuse_changed(item, file)
        try:
            yield file
        finally:
            _refuse_changed(item, file)


def _refuse_part(item: Item, file: SourceFile) -> None:
    """A data file of a table is never written again; but the table may just be copied."""
    if item.version >= 0 and not item.real and (size := file.about().st_size) != item.size:
        said = (
            f"{size:,} bytes are there, and the table's log says {item.size:,}: is it copied now?"
        )
        raise SourceError(item.path, f"{said} Bring back the whole file")


def _refuse_changed(item: Item, file: SourceFile) -> None:
    said = _change(item, file) if item.real else None
    if said is not None:
        raise SourceError(item.path, f"{said}; {REMEDY}")


def _change(item: Item, file: SourceFile) -> str | None:
    """What is other than planned, in words; text may have grown at its end."""
    about = file.about()
    if (about.st_size, about.st_mtime_ns) == (item.size, item.modified):
        is_one = item.inode in {0, about.st_ino} or not item.ending
        if is_one or item.ending == digest(item.format, file, item.size):
            return None
        return "another file lies there, of the same size and time"
    if is_grown(item, about.st_size, about.st_ino, partial(ending, file)):
        return None
    if about.st_size == item.size:
        return f"it was written again since it was planned ({item.size:,} bytes, as before)"
    return f"it was changed since it was planned: {item.size:,} bytes then, {about.st_size:,} now"


def digest(kind: str, file: SourceFile, size: int) -> str:
    """Digest by which a file of a format is known again: of a text's end, of samples of Parquet."""
    return sample(file, size) if kind == FileFormat.PARQUET.value else ending(file, size)


def is_grown(item: Item, size: int, inode: int, ended: Callable[[int], str]) -> bool:
    """Whether a file is a text that only grew, in place, since it was planned.

    Args:
        item: as it was planned.
        size: bytes now.
        inode: now.
        ended: digest of the bytes before a size, now.
    """
    if item.format == FileFormat.PARQUET.value or size <= item.size:
        return False
    return item.inode in {0, inode} and item.ending == ended(item.size) != ""


def change(item: Item) -> str | None:
    """What is other than planned, in words; none: nothing that matters to its plan.

    Raises:
        SourceError: it cannot be looked at now.
    """
    try:
        with SourceFile(item.path, item.real) as file:
            return _change(item, file)
    except SourceError as away:
        if isinstance(away.__cause__, GONE):
            return f"{type(away.__cause__).__name__}: it is gone since it was planned"
        raise


def is_there(item: Item) -> bool:
    """Whether exactly what an item names lies there."""
    try:
        about = stat_of(item)
    except OSError:
        return False
    return (about.st_size, about.st_mtime_ns) == (item.size, item.modified)


def is_another(item: Item) -> bool:
    """Whether what lies where an item's file was is not that file any more, or nothing is."""
    try:
        about = stat_of(item)
    except GONE:
        return True
    except OSError:
        return False
    return item.inode not in {0, about.st_ino}


def stat_of(item: Item) -> os.stat_result:
    """What the file system says of an item's file: by its real name, else by the links."""
    try:
        return os.stat(item.real or item.path)  # noqa: PTH116
    except GONE:
        return os.stat(item.path)  # noqa: PTH116
