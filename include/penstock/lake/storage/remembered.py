"""What this process has read of tables, and need not read again: neither file nor version changes.

A small data file costs half a millisecond to read, whatever it holds, and the list of a version's
files two; whoever looks where a step stands looks at the same ones again and again.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias, TypeVar

import pyarrow as pa
from cachetools import LRUCache

from penstock.core.place import is_remote, path_of
from penstock.lake.storage.snapshots import Mark, file_mark

SMALL = 65_536
"""Bytes of a file that is remembered; a larger one costs by its content."""
MOST = 32 * 1024**2
"""Bytes in memory of all such files."""
LISTS, FEW = 64, 512
"""Lists of files, and files of each."""
Read: TypeAlias = Callable[[Sequence[str], Sequence[str]], Sequence[pa.Table]]
"""Some columns of some files, unfiltered: a table a file."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _File:
    """Columns of a file that were asked for so far; the schema is the one they were read by."""

    mark: Mark
    schema: pa.Schema
    columns: dict[str, pa.ChunkedArray] = field(default_factory=dict)


class Remembered:
    """What was asked for last of small files, and lists of files."""

    def __init__(self) -> None:
        self._of_parent: list[object] = []
        self._begin()
        os.register_at_fork(after_in_child=self._begin_anew)

    def listed(self, snapshot: Hashable, look: Callable[[], Sequence[_T]]) -> list[_T]:
        """Files of a version of a table; ``look`` lists them."""
        with self._lock:
            known = self._lists.get(snapshot)
        if known is None:
            known = tuple(look())
            if len(known) <= FEW:
                with self._lock:
                    self._lists[snapshot] = known
        return [*known]

    def read(
        self,
        uri: str,
        marks: Mapping[str, Mark],
        schema: pa.Schema,
        names: Sequence[str],
        read: Read,
    ) -> pa.Table:
        """Columns of small files of a table, one after the other.

        Args:
            uri: the table's.
            marks: as ``small_files`` says, of one file at least.
            schema: of the table.
            names: of the columns, in their order.
            read: reads those that are not known.
        """
        root, missing = path_of(uri), defaultdict[tuple[str, ...], list[str]](list)
        found = {path: self._file(f"{root}/{path}", mark, schema) for path, mark in marks.items()}
        for path, file in found.items():
            if lacks := tuple(name for name in names if name not in file.columns):
                missing[lacks].append(path)
        for lacks, some in missing.items():
            for path, table in zip(some, read(some, lacks), strict=True):
                more = dict(zip(lacks, table.columns, strict=True))
                file = _File(found[path].mark, schema, found[path].columns | more)
                found[path] = file
                with self._lock:
                    self._files[f"{root}/{path}"] = file
        parts = [pa.table({name: file.columns[name] for name in names}) for file in found.values()]
        return pa.concat_tables(parts).combine_chunks()

    def _file(self, path: str, mark: Mark, schema: pa.Schema) -> _File:
        """What is known of a file, which may be nothing."""
        with self._lock:
            known = self._files.get(path)
        same = known is not None and known.mark == mark and known.schema.equals(schema)
        return known if known is not None and same else _File(mark, schema)

    def _begin(self) -> None:
        self._lock = Lock()
        self._lists: LRUCache[Hashable, tuple[object, ...]] = LRUCache(LISTS)
        self._files: LRUCache[str, _File] = LRUCache(MOST, _size)

    def _begin_anew(self) -> None:
        """What a parent has allocated is not taken down in a fork."""
        self._of_parent.append((self._lists, self._files))
        self._begin()


def small_files(uri: str, paths: Sequence[str]) -> dict[str, Mark]:
    """Of some files of a table those that are remembered, with which files they are.

    One that is not there is none of them, and none is of a store that is not this machine's.
    """
    found = dict[str, Mark]()
    if is_remote(uri):
        return found
    root = path_of(uri)
    for path in paths:
        with suppress(FileNotFoundError):
            mark = file_mark(f"{root}/{path}")
            if mark[1] <= SMALL:
                found[path] = mark
    return found


def _size(file: _File) -> int:
    return sum(column.nbytes for column in file.columns.values())
