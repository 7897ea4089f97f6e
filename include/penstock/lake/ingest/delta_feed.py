"""What a Delta table brings, by its versions: a first snapshot, then the files of each commit.

Each item says which version it came from, of which table, and how many files that version has.
How far the table was read follows from the plans alone, so every process goes on at the same
place; what was compacted, vacuumed or rewritten meanwhile is neither read twice nor passed over.
Source: Delta's streaming source for Spark (snapshot, then commits; a commit that removes stops).
"""

import json
import logging
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from penstock.config.intake import FileFormat
from penstock.lake.ingest.delta_log import (
    Added,
    Commits,
    DeltaSourceError,
    actions,
    added,
    brought,
    commits,
    in_utc,
    named,
    opened,
    place_in,
    refuse_mapping,
    tells_of,
)
from penstock.lake.ingest.ending import sample_of
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.reading import SourceError

log = logging.getLogger(__name__)

PART, LISTED = "partition.", ("path", "size_bytes", "modification_time")
"""Of a table's files as they are listed: not the statistics, which hold dates of any year."""
APART = (
    "What is rewritten in it would come twice. Name another table, or begin afresh: penstock remove"
    " PIPELINE, then start it"
)
NONE = -1
"""Of an item: no version. Plans of Penstock before versions were noted say so."""


class DeltaFeed:
    """The files of a table that no plan has taken as a whole.

    Args:
        uri: of the table.
        filesystem, root: the same place for pyarrow.
        skip: versions that a person has said bring nothing.
        folder: which one it is now, wherever a link leads.
    """

    def __init__(
        self,
        uri: str,
        filesystem: pa.fs.FileSystem,
        root: str,
        skip: Collection[int],
        folder: str,
    ) -> None:
        self.uri, self.filesystem, self.root, self.skip = uri, filesystem, root, skip
        self.folder = folder
        self._foreign: dict[str, list[Item]] = {}
        self._taken: dict[int, dict[str, Item]] = {}
        self._whole: set[str] = set()
        self._sets: dict[int, list[Item]] = {}
        self._upto = NONE
        self.again: set[str] = set()
        self._log: Commits = {}
        self._brought: dict[int, set[str]] = {}
        self._others: set[str] = set()
        self._table = ""
        self._kinds: dict[str, str] = {}

    def take(self, items: Iterable[Item], *, own: bool = True) -> None:
        """Note that a plan has taken these, named from the table's folder.

        Args:
            items: what was taken.
            own: of this source; else of the pipeline's other one.
        """
        if not own:
            self._others |= {item.table for item in items if item.table}
            return
        for item in items:
            if item.version == NONE and item.root not in {"", self.folder}:
                self._foreign.setdefault(item.root, []).append(item)
                continue
            self._note(item)
            mine = self._sets.get(item.version, [])
            if item.version != NONE and item.path not in {i.path for i in mine}:
                self._sets, self._upto = {}, NONE  # another process has read further, or otherwise
            if item.version != NONE:
                self._table = item.table

    def _note(self, item: Item) -> None:
        self._taken.setdefault(item.version, {})[item.path] = item
        if item.end < 0 and item.since is None and item.until is None:
            self._whole.add(item.path)

    def _settle_foreign(self) -> None:
        """Of files that were taken before it was a table those of its folder, under a former name.

        Other folders' files say nothing of it, whatever they are called.
        """
        for items in self._foreign.values():
            if any(self._lies_here(item) for item in items):
                for item in items:
                    self._note(item)
        self._foreign = {}

    def _lies_here(self, item: Item) -> bool:
        path = Path(self.root, item.path)
        try:
            size = path.stat().st_size
        except OSError:
            return False
        return size == item.size and item.ending in {"", sample_of(str(path), size)}

    def has(self, item: Item) -> bool:
        """Whether it is the table that an item came with, and the item's file lies in it."""
        try:
            size = Path(self.root, item.path).stat().st_size
            name = str(opened(self.uri, self.filesystem, self.root).metadata().id)
        except (OSError, SourceError, DeltaSourceError):
            return False
        return (size, name) == (item.size, item.table)

    def left(self) -> list[Item]:
        """Of those that were found the files that no plan has taken to their end."""
        return [item for item in self.found() if item.path not in self._whole]

    def found(self) -> list[Item]:
        """Files of the versions that are not taken as a whole, in the order they came.

        Raises:
            SourceError: there is no table now.
            DeltaSourceError: it cannot be followed.
        """
        now = commits(self.filesystem, self.root)
        if self._upto == NONE or not now or now != self._log:
            delta = opened(self.uri, self.filesystem, self.root)
            changed = [v for v, state in now.items() if self._log.get(v, state) != state]
            self._follow(delta, changed)
            self._log = now
        for version, files in [*self._sets.items()]:
            if all(i.path in self._whole for i in files) and version < self._upto:
                del self._sets[version]
        return [i for v in sorted(self._sets) for i in self._sets[v]]

    def _follow(self, delta: DeltaTable, changed: Collection[int]) -> None:
        metadata, newest = delta.metadata(), int(delta.version())
        name = str(metadata.id)
        refuse_mapping(self.root, metadata.configuration)
        fields = json.loads(delta.schema().to_json())["fields"]
        self._kinds = {f["name"]: f["type"] for f in fields if isinstance(f["type"], str)}
        if self._table and self._table != name:
            said = "another table lies here now (its id has changed)"
            raise DeltaSourceError(self.root, said)
        if name in self._others:
            said = "the pipeline's other source has taken this table (by its id) already"
            raise DeltaSourceError(self.root, said, APART)
        if self._upto == NONE:
            self._settle_foreign()
            self._begin(delta, name)
        if newest < self._upto:
            said = f"its newest version is {newest}, but {self._upto} was read already"
            raise DeltaSourceError(self.root, said)
        for version in {*changed, self._upto}:
            self._look_again(delta, name, version)
        for version in range(self._upto + 1, newest + 1):
            if version in self.skip:
                log.warning("version %d of %s is skipped, as skip: says", version, self.root)
            files = added(self.filesystem, self.root, version, skip=version in self.skip)
            self._sets[version] = self._items(files, version, name, snapshot=False)
            self._brought[version] = {f.path for f in files}
            self._upto = version
        self._table = name

    def _look_again(self, delta: DeltaTable, name: str, version: int) -> None:
        """Read a version again before what follows: the newest one, and each whose commit changed.

        It may have been there in part, as in a table that is being copied: what is missing is taken
        now. Or another one stands in its place, as in a table put back from a backup.
        """
        taken, listed = self._taken.get(version, {}), self._sets.get(version, [])
        read = self._brought.get(version)
        if version in self.skip or not (listed or taken or read is not None):
            return
        if version not in commits(self.filesystem, self.root):
            return  # cleaned: it was whole before
        now = brought(self.filesystem, self.root, version)
        had = {i.path for i in listed} | taken.keys() | (read or set())
        snapshot = any(i.snapshot for i in [*listed, *taken.values()])
        if now <= had if snapshot else now == had:
            return
        if not taken and version == self._upto:  # no plan speaks of it
            self._sets.pop(version, None)
            self._upto = version - 1
            if not self._taken:
                self._begin(delta, name)
            return
        self._complete(version, name, taken.keys() | (read or set()), snapshot=snapshot)

    def _complete(self, version: int, name: str, had: Collection[str], *, snapshot: bool) -> None:
        """Take what came to a version after it was read.

        Raises:
            DeltaSourceError: it is another one.
        """
        if snapshot:
            whole = self._snapshot(self._at(version), version, name)
        else:
            files = added(self.filesystem, self.root, version, skip=False)
            whole = self._items(files, version, name, snapshot=False)
        if not {*had} <= {i.path for i in whole}:
            said = f"version {version} is not what it was when it was read: other files came in it"
            raise DeltaSourceError(self.root, said)
        self._sets[version] = whole
        self._brought[version] = {i.path for i in whole}

    def _begin(self, delta: DeltaTable, name: str) -> None:
        """Find where the plans stopped; a table of which nothing was taken begins here."""
        former = self._taken.get(NONE, {})
        known = {v: items for v, items in self._taken.items() if v != NONE}
        if not former and not known:
            self._sets = {(v := int(delta.version())): self._snapshot(delta, v, name)}
            self._upto = v
        elif not known and self._is_new(delta, name, former):
            self._sets = {(v := int(delta.version())): self._snapshot(delta, v, name)}
            self._upto = v
            return
        elif not known:
            self._upto = self._former(delta, name, (self._whole & set(former)) - self.again) - 1
            return
        for version, items in known.items():
            one = max(items.values(), key=lambda i: i.files)
            if len(items) == one.files or (version in self.skip and not one.snapshot):
                self._sets[version] = [_whole(i) for i in items.values()]
            elif one.snapshot:
                self._sets[version] = self._snapshot(self._at(version), version, name)
            else:
                files = added(self.filesystem, self.root, version, skip=False)
                self._sets[version] = self._items(files, version, name, snapshot=False)
            self._upto = max(self._upto, version)

    def _is_new(self, delta: DeltaTable, name: str, former: Collection[str]) -> bool:
        """Whether no file that plans without versions took was ever in the table."""
        log = [*commits(self.filesystem, self.root)]
        if not log or log[0] > 0:
            return False
        ever = {i.path for i in self._snapshot(delta, int(delta.version()), name)}
        ever |= {path for v in log for path in brought(self.filesystem, self.root, v)}
        return ever.isdisjoint(former)

    def _former(self, delta: DeltaTable, name: str, taken: set[str]) -> int:
        """The version at which plans without versions stopped: the first not taken as a whole."""
        left = [*commits(self.filesystem, self.root)]
        if left and left[0] > 0:
            first = self._snapshot(self._at(left[0]), left[0], name)
            if not {i.path for i in first} <= taken:
                said = (
                    f"its log begins at version {left[0]}, and what was taken before versions were"
                    " noted cannot be told from what was not"
                )
                raise DeltaSourceError(self.root, said)
            left = left[1:]
        for version in left:
            if not brought(self.filesystem, self.root, version) <= taken:
                return version
        return int(delta.version()) + 1

    def _at(self, version: int) -> DeltaTable:
        try:
            return DeltaTable(self.uri, version=version)
        except OSError as away:
            raise SourceError(self.root, away) from away
        except DeltaError as broken:
            if tells_of(self.filesystem, self.root, version):
                raise SourceError(self.root, broken) from broken
            said = f"version {version} is read in part, and the log does not reach back to it"
            raise DeltaSourceError(self.root, said) from broken

    def _snapshot(self, delta: DeltaTable, version: int, name: str) -> list[Item]:
        """All files of a version, those first that came first."""
        listed = pa.table(delta.get_add_actions(flatten=True))
        names = [n for n in listed.column_names if n in LISTED or n.startswith(PART)]
        files = [_listed(row) for row in listed.select(names).to_pylist()]
        came, partial, said = dict[str, int](), set[str](), dict[str, Added]()
        for at in commits(self.filesystem, self.root):
            if at < version:
                self._brought[at] = set()
            for action in self._actions(at) if at <= version else ():
                if (add := action.get("add")) is not None:
                    if at < version and add.get("dataChange", True):
                        self._brought[at].add(named(add).path)
                    path = named(add).path
                    came[path], said[path] = at, named(add)
                    (partial.add if add.get("deletionVector") else partial.discard)(path)
        files = [said.get(file.path, file) for file in files]  # values as whoever wrote them put it
        unknown = any(f.path not in came for f in files)
        if any(f.path in partial for f in files) or (unknown and self._has_vectors(delta)):
            raise DeltaSourceError(
                self.root,
                "it has deletion vectors, which cannot be followed",
                "Switch them off (delta.enableDeletionVectors = false) and REORG TABLE ... APPLY"
                " (PURGE)",
            )
        taken = self._taken.get(version, {})
        left = {f.path for f in files if came.get(f.path) in self.skip and f.path not in taken}
        if left:
            log.warning("files of %s are skipped, as skip: says count=%d", self.root, len(left))
            files = [f for f in files if f.path not in left]
        files.sort(key=lambda f: (came.get(f.path, NONE), f.modified, f.path))
        return self._items(files, version, name, snapshot=True)

    def _has_vectors(self, delta: DeltaTable) -> bool:
        """Whether some file has a deletion vector, whose commit may be cleaned away."""
        if "deletionVectors" not in (delta.protocol().reader_features or []):
            return False
        try:
            vectors = pa.RecordBatchReader.from_stream(delta.deletion_vectors())
            return any(batch.num_rows for batch in vectors)
        except (DeltaError, OSError) as away:
            raise SourceError(self.root, away) from away

    def _actions(self, version: int) -> list[dict[str, Any]]:
        try:
            return [*actions(self.filesystem, self.root, version)]
        except DeltaSourceError as cleaned:
            raise SourceError(self.root, "its log was cleaned as it was read") from cleaned

    def _items(self, files: list[Added], version: int, name: str, *, snapshot: bool) -> list[Item]:
        return [
            Item(
                f.path, FileFormat.PARQUET.value, f.size, f.modified,
                version=version, files=len(files), snapshot=snapshot, table=name,
                values=json.dumps(in_utc(f.values, self._kinds)),
            )
            for f in files
        ]  # fmt: skip


def _whole(item: Item) -> Item:
    """The file that an item is a part of."""
    return replace(item, first=0, end=-1, records=-1, since=None, until=None, rest=True)


def _listed(row: dict[str, Any]) -> Added:
    """A file as deltalake lists it: its path as the log writes it, values by type."""
    parts = {n.removeprefix(PART): v for n, v in row.items() if n.startswith(PART)}
    values = {name: None if v is None or v == "" else str(v) for name, v in parts.items()}
    return Added(place_in(row["path"]), row["size_bytes"], row["modification_time"], values)
