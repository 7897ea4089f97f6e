"""Whether a disk has room for a commit, and what the system says where one cannot be written.

The library that writes tables panics on a full or read-only disk, in a thread of its own: a trace
without a word of the cause. So room is looked for first, and what the library raises is said in the
system's own words.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from penstock.core.errors import TransientError
from penstock.core.place import is_remote, path_of

ENTRY_BYTES = 64 << 10
"""What an entry of a log and the ends of a file take beside the rows."""


class UnwrittenError(TransientError):
    """The system does not let a table of the lake be written now; nothing of it was committed."""

    def __init__(self, table: str, why: str) -> None:
        super().__init__(
            f"{table} cannot be written now: {why}. Nothing is lost: free room on its disk, or mend"
            " what the system says, and it is tried again"
        )


def require_room(table: str, rows: pa.Table) -> None:
    """Look whether a commit fits on the disk.

    Args:
        table: where it lies.
        rows: that are to be written.

    Raises:
        UnwrittenError: it does not.
    """
    if is_remote(table):
        return
    needed = rows.nbytes + ENTRY_BYTES
    try:
        disk = os.statvfs(path_of(table))
    except FileNotFoundError:
        return
    if disk.f_flag & os.ST_RDONLY:
        raise UnwrittenError(table, os.strerror(errno.EROFS))
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < needed:
        said = os.strerror(errno.ENOSPC)
        free = disk.f_bavail * disk.f_frsize
        raise UnwrittenError(table, f"{said} ({free:,} bytes free, {needed:,} wanted)")


@contextmanager
def written(table: str) -> Iterator[None]:
    """Write a table of the lake.

    Raises:
        UnwrittenError: in place of an error that the system caused.
    """
    try:
        yield
    except CommitFailedError:
        raise
    except MemoryError as failed:
        raise UnwrittenError(table, f"no memory: {failed}") from failed
    except (DeltaError, OSError) as failed:
        found = re.findall(r"([^:\n↳]*\(os error \d+\))", str(failed))
        if not found and getattr(failed, "errno", None) is None:
            raise
        raise UnwrittenError(table, found[-1].strip() if found else str(failed)) from failed
