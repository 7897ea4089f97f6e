"""Spark's checkpoint of a query: a cache.

Where it is no plain continuation of what is sealed, the state is rebuilt from the log.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

import pyarrow.fs as pafs

from penstock.core.crash import reached
from penstock.core.place import path_of
from penstock.lake.history.offset import Offset, StepOffset
from penstock.lake.storage.durable import sync_file
from penstock.lake.storage.spec import opened
from penstock.lake.storage.tables import Tables

_STATE = re.compile(r"\.?(\d+)\.(?:changelog|zip)(\..+\.tmp)?")
"""Changes up to a version, or all of it; with what was not finished."""
FAILED = "penstock_failed"
FAILURES = 3


class Going(Enum):
    """How a generation relates to a checkpoint."""

    ON = auto()
    """What it sealed is where the checkpoint stands, or will stand once Spark has repeated."""
    BEGINS = auto()
    """It has sealed nothing, and the checkpoint knows nothing of it: it begins there."""
    ASTRAY = auto()
    """One knows what the other does not: only a new generation can go on."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What Spark's checkpoint of a query knows.

    Attributes:
        uri: its folder.
        logged: the newest offset that can be read and the one of ``committed``, by micro-batch.
        committed: the last micro-batch that Spark has done; none: none.
        holds: whether there is any offset or state in it, of use or not.
        failures: how often in a row the query failed at the micro-batch after ``committed``.
    """

    uri: str
    logged: Mapping[int, Offset]
    committed: int | None
    holds: bool
    failures: int

    @property
    def version(self) -> int:
        """The state that a query starts from: as many micro-batches as it has seen."""
        newest = max(self.logged, default=-1)
        return newest + 1 if newest == self.committed else max(newest, 0)

    @property
    def shards(self) -> int:
        """Into how many a state is cut here, unless its step says how many; 0: none has begun."""
        return max((offset.shards for offset in self.logged.values()), default=0)

    def shards_of(self, step: str, generation: int) -> int:
        """Into how many that of one is cut here, or will be; 0: it has not begun."""
        at = self._at(max(self.logged, default=-1), step, generation)
        return 0 if at is None else len(at.moves or at.shards)

    @property
    def usable(self) -> bool:
        """Whether a query may start on it: Spark repeats one micro-batch, never two."""
        if self.failures >= FAILURES:
            return False
        if not self.holds:
            return True
        newest = max(self.logged, default=-1)
        if self.committed is None:
            return newest == 0
        return self.committed in self.logged and newest <= self.committed + 1

    def going(self, step: str, generation: int, sealed: tuple[int, int], *, begun: bool) -> Going:
        """Whether a generation goes on from here.

        Args:
            step: its name.
            generation: its number.
            sealed: the generation's last micro-batch that is sealed and the block it ends before;
                micro-batch -1: none is.
            begun: the micro-batch after that has left rows.
        """
        before = self._at(-1 if self.committed is None else self.committed, step, generation)
        after = self._at(max(self.logged, default=-1), step, generation) or before
        if after is None:
            return Going.BEGINS if sealed[0] < 0 and not begun else Going.ASTRAY
        stands = (after.number, after.block) == sealed
        repeats = after != before and after.number == sealed[0] + 1
        if repeats and before is not None:
            repeats = (before.number, before.block) == sealed
        known = not begun or repeats  # else it would be cut anew, and lose answers
        return Going.ON if (stands or repeats) and known else Going.ASTRAY

    def _at(self, number: int, step: str, generation: int) -> StepOffset | None:
        offset = self.logged.get(number)
        return None if offset is None else offset.of(step, generation)


def newest_checkpoint(tables: Tables, query: str) -> Checkpoint:
    """The last checkpoint of a query; where there is none, the first that will be."""
    number = max(_numbered(tables.checkpoint(query)), default=0)
    return read_checkpoint(tables.checkpoint(query, number))


def next_checkpoint(tables: Tables, query: str) -> str:
    """Where no checkpoint of a query has ever been."""
    return tables.checkpoint(query, max(_numbered(tables.checkpoint(query)), default=-1) + 1)


def create(uri: str) -> None:
    """Make the folder of a checkpoint, if it is not there."""
    filesystem, root = opened(uri)
    filesystem.create_dir(root, recursive=True)


def read_checkpoint(uri: str) -> Checkpoint:
    """What stands in a checkpoint, which may not be there."""
    committed = max(_numbered(f"{uri}/commits"), default=None)
    logged: dict[int, Offset] = {}
    for number in sorted(_numbered(f"{uri}/offsets"), reverse=True):
        if not logged or number == committed:
            offset = _offset(f"{uri}/offsets/{number}")
            logged |= {} if offset is None else {number: offset}
    return Checkpoint(uri, logged, committed, _holds(uri), failures(uri, committed))


def note_failure(tables: Tables, query: str) -> None:
    """Count a failed run of a query at the micro-batch it stands at.

    After ``FAILURES`` at the same one its checkpoint is taken for damaged: the next start
    rebuilds the state from the log.
    """
    found = newest_checkpoint(tables, query)
    folder = path_of(found.uri)
    path = folder / FAILED
    folder.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    reached("before failure")
    new.write_text(f"{found.committed} {found.failures + 1}")
    new.replace(path)  # a file written in part would end every later start
    reached("after failure")


def failures(uri: str, committed: int | None) -> int:
    """How often in a row the query failed at the micro-batch after the committed one."""
    path = path_of(uri) / FAILED
    if not path.exists():
        return 0
    at, _, count = path.read_text().partition(" ")  # of an emptied file: nothing
    return int(count) if count.isdigit() and at == str(committed) else 0


def drop_later_state(found: Checkpoint) -> int:
    """Remove what micro-batches that will be repeated or planned anew left of their state.

    Where a file of changes is there already Spark keeps it, and says nothing: Hadoop's local file
    system does not replace a file by renaming another one. The query goes on with what it holds in
    memory; the next one would read the older file. That may be of a micro-batch that had taken
    other blocks, if the disk lost its offset.

    Returns:
        How many files there were.
    """
    root, gone = path_of(found.uri), list[Path]()
    for path in root.glob("state/*/**/*"):
        version = _STATE.fullmatch(path.name)
        if version and (version[2] or int(version[1]) > found.version):
            gone.append(path)
    for path in gone:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    for folder in {path.parent for path in gone}:
        sync_file(found.uri, str(folder.relative_to(root)))
    return len(gone)


def drop_former_checkpoints(tables: Tables) -> int:
    """Remove the checkpoints that were replaced; how many there were.

    The newest of a query stays, also of one that is no more: its stream may still run.
    """
    filesystem, root = opened(tables.checkpoint())
    removed = 0
    for query in _listed(filesystem, root):
        numbers = sorted(_numbered(tables.checkpoint(query.base_name)))
        for number in numbers[:-1]:
            filesystem.delete_dir(f"{query.path}/{number}")
            removed += 1
    return removed


def _holds(uri: str) -> bool:
    filesystem, root = opened(uri)
    return any(
        info.type is pafs.FileType.File
        for folder in (f"{root}/offsets", f"{root}/state")
        for info in filesystem.get_file_info(
            pafs.FileSelector(folder, allow_not_found=True, recursive=True)
        )
    )


def _offset(uri: str) -> Offset | None:
    filesystem, path = opened(uri)
    with filesystem.open_input_file(path) as stream:
        lines = stream.read().decode().splitlines()
    try:
        return Offset.from_json(lines[2])
    except (IndexError, KeyError, TypeError, ValueError):  # written in part: as if not there
        return None


def _numbered(uri: str) -> list[int]:
    filesystem, root = opened(uri)
    names = (info.base_name for info in _listed(filesystem, root))
    return [int(name) for name in names if name.isdigit()]


def _listed(filesystem: pafs.FileSystem, folder: str) -> list[pafs.FileInfo]:
    return list(filesystem.get_file_info(pafs.FileSelector(folder, allow_not_found=True)))
