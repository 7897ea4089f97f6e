"""Reading a source's files: what the system fails at is not what a file holds.

A library raises OSError for a page it cannot unpack as for a disk that does not answer. So files
are read through an object that notes whether reading itself failed: that may pass and is tried
again. Only content is refused.
"""

import csv
import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from stat import S_ISREG
from types import TracebackType
from typing import BinaryIO, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import duckdb
import pyarrow as pa

from penstock.core.errors import TransientError

SYSTEM = (MemoryError, RuntimeError, duckdb.OutOfMemoryException, duckdb.IOException)
"""No memory, no thread, no room: raised while a file is read, it says nothing of the file."""
OF_CONTENT = (RecursionError, NotImplementedError)
"""RuntimeErrors as well, but of the content: too deep, or of a type that Arrow cannot compute."""
NO_ZONE = re.compile(r"[Cc]annot locate (?:or parse )?timezone '?([^':]+)")
MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
"""Bytes of memory that there are."""
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
BROKEN = (OSError, pa.ArrowException, csv.Error, UnicodeError, OverflowError, duckdb.Error)
"""What a file's content can make a library raise."""


class SourceError(TransientError):
    """A source could not be read now: nothing is concluded from it, and it is tried again.

    Attributes:
        path: the file or folder.
        why: what the system said.
    """

    def __init__(self, path: str, why: BaseException | str) -> None:
        self.path = path
        self.why = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
        super().__init__(f"{path}: {self.why}. Nothing of it is taken; it is tried again")


class SourceFile(io.RawIOBase):
    """A file of a source, for reading; ``failed`` is what the system failed at, if it did."""

    def __init__(self, path: str, real: str = "") -> None:
        """Open it.

        Args:
            path: what it is called, and where else it may lie.
            real: where it lies; empty: there.

        Raises:
            SourceError: it cannot be opened now, or is no file.
        """
        self.path = path
        self.failed: OSError | None = None
        try:
            self._file = regular(real or path, path)
        except OSError as away:
            raise SourceError(path, away) from away

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Bytes before the present place."""
        with self._noted():
            return int(self._file.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place."""
        with self._noted():
            return int(self._file.seek(offset, whence))

    def read(self, size: int | None = -1, /) -> bytes:
        """Bytes from the present place on, all that are asked for if there are so many."""
        with self._noted():
            return bytes(self._file.read(None if size is None or size < 0 else size))

    def about(self) -> os.stat_result:
        """What the file system says of the file that is open, whatever its name means by now."""
        with self._noted():
            return os.fstat(self._file.fileno())

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except OSError as failed:
            self.failed = failed
            raise

    def close(self) -> None:
        """Give it back."""
        self._file.close()
        super().close()

    def __enter__(self) -> Self:
        """The file; what fails within is the system's, if reading it failed."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it.

        Raises:
            SourceError: in place of an error that the system caused.
        """
        self.close()
        if self.failed is not None:
            raise SourceError(self.path, self.failed) from error
        if error is not None and is_of_system(error):
            raise SourceError(self.path, error) from error


def regular(place: str, otherwise: str) -> BinaryIO:
    """Open a file, in another place if it is not there; nothing that could wait for a writer.

    Raises:
        OSError: it cannot be opened, or is a pipe, socket, device or folder.
    """
    try:
        at = os.open(place, READ)
    except (FileNotFoundError, NotADirectoryError):
        at = os.open(otherwise, READ)
    try:
        if S_ISREG(os.fstat(at).st_mode):
            return os.fdopen(at, "rb")
    except BaseException:
        os.close(at)
        raise
    os.close(at)
    raise OSError(errno.EINVAL, "a pipe, socket, device or folder lies there, and no file")


@contextmanager
def told_apart(path: str) -> Iterator[None]:
    """Work on what was read of a file.

    Raises:
        SourceError: in place of an error that the system caused.
    """
    try:
        yield
    except (*SYSTEM, OSError, pa.ArrowInvalid) as failed:
        if not is_of_system(failed):
            raise
        raise SourceError(path, failed) from failed


def is_of_system(error: BaseException) -> bool:
    """Whether an error says nothing of the content that was being read."""
    if isinstance(error, pa.ArrowMemoryError):
        asked = re.search(r"of size (\d+) failed", str(error))
        if asked is not None and int(asked[1]) > MACHINE:
            return False  # no try will ever have so much: a damaged file names such a size
    if isinstance(error, OSError) and error.errno is not None:
        return True  # what a library raises of content has no number
    if isinstance(error, pa.ArrowInvalid) and (zone := NO_ZONE.search(str(error))) is not None:
        return _is_zone(zone[1])  # the system's list of zones cannot be read
    return isinstance(error, SYSTEM) and not isinstance(error, OF_CONTENT)


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return name == "UTC"
    return True
