"""Snapshots of tables that this process has read: an unchanged table is not opened again.

To open a table is to list its log and to read it, 4 to 15 ms; five looks by name say that nothing
has changed. A snapshot here never moves. Who writes a table, or follows it, opens it for himself.
"""

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from deltalake import DeltaTable

from penstock.core.place import is_remote, path_of
from penstock.lake.storage.durable import LOG, Summed, may_be_newer, summed_up

MOST = 64
Mark: TypeAlias = tuple[int, int, int]
CLEANED_AWAY: Mark = (-1, -1, -1)


@dataclass(frozen=True, slots=True)
class _Known:
    """A snapshot, the file of its newest commit, and how the log was before it was opened.

    Attributes:
        summed: where the log was summed up.
        named: when a name in its folder last came or went, ns; two within a tick look like one.
    """

    delta: DeltaTable
    version: int
    mark: Mark
    summed: Summed | None
    named: int

    def is_newest(self, uri: str) -> bool:
        return (
            mark_of(uri, self.version) == self.mark
            and not may_be_newer(uri, self.version)
            and summed_up(uri) == self.summed
            and _named(uri) == self.named
        )


class Snapshots:
    """The last ``MOST`` that this process has read.

    Args:
        opened: opens a table of the lake at its newest version.
    """

    def __init__(self, opened: Callable[[str], DeltaTable]) -> None:
        self._opened, self._lock = opened, Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._of_parent: list[object] = []
        os.register_at_fork(after_in_child=self._begin_anew)

    def newest(self, uri: str) -> DeltaTable:
        """The table as it is now; not to be changed.

        Raises:
            TableNotFoundError, DamagedTableError, TableAwayError: as of ``opened``.
        """
        if is_remote(uri):
            return self._opened(uri)
        with self._lock:
            known = self._known.get(uri)
        if known is None or not known.is_newest(uri):
            known = self._open(uri)
        with self._lock:
            self._known[uri] = known
            self._known.move_to_end(uri)
            while len(self._known) > MOST:
                self._known.popitem(last=False)
        return known.delta

    def is_newest(self, uri: str, delta: DeltaTable) -> bool:
        """Whether a snapshot is still the one that ``newest`` gives."""
        with self._lock:
            known = self._known.get(uri)
        return known is not None and known.delta is delta and known.is_newest(uri)

    def _open(self, uri: str) -> _Known:
        summed, named = summed_up(uri), _named(uri)
        delta = self._opened(uri)
        version = delta.version()
        return _Known(delta, version, mark_of(uri, version), summed, named)

    def _begin_anew(self) -> None:
        """A snapshot must not be used, nor taken down, in a fork."""
        self._of_parent.append(self._known)
        self._known, self._lock = OrderedDict(), Lock()


def mark_of(uri: str, version: int) -> Mark:
    """Which file an entry of a log is; one that was cleaned away is like no other."""
    try:
        return file_mark(path_of(uri) / LOG / f"{version:020d}.json")
    except FileNotFoundError:
        return CLEANED_AWAY


def _named(uri: str) -> int:
    try:
        return os.stat(path_of(uri) / LOG).st_mtime_ns  # noqa: PTH116  as of ``file_mark``
    except FileNotFoundError:
        return -1


def file_mark(path: Path | str) -> Mark:
    """Which file it is, its size, and when it was written."""
    found = os.stat(path)  # noqa: PTH116  text, too: to make a Path costs more than the look
    return found.st_ino, found.st_size, found.st_mtime_ns
