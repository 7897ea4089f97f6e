"""Sources: which items wait, in which order. Neither reads records."""

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from penstock.config.pipeline import FileFormat, FileOrder, History
from penstock.core.errors import ConfigError
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.ingest.received import Item

log = logging.getLogger(__name__)

RECORDS_PER_PLAN = 250_000
BYTES_PER_PLAN = 64 << 20
FILES_PER_PLAN = 64
SUFFIXES = {
    FileFormat.PARQUET: (".parquet", ".pq"),
    FileFormat.JSONL: (".jsonl", ".json", ".ndjson"),
    FileFormat.CSV: (".csv",),
}

Span = tuple[int, int]


class Waiting:
    """Items of a source that no plan has taken yet.

    Args:
        config: the source or history of a pipeline file.
        home: where relative places start.
    """

    def __init__(self, config: History, home: Path) -> None:
        place = config.delta or config.files or ""
        self.config = config
        uri = place if "://" in place else (home / place).absolute().as_uri()
        self.filesystem, self.root = pa.fs.FileSystem.from_uri(uri)
        self.uri = uri
        self._taken: dict[str, list[Item]] = {}
        self._warned = False

    def take(self, items: Iterable[Item]) -> None:
        """Note that a plan has taken these."""
        for item in items:
            self._taken.setdefault(item.path, []).append(item)

    def items(self, since: int | None = None, until: int | None = None) -> list[Item]:
        """What waits, in order, at most as much as one plan may hold.

        Args:
            since: only records with an event time at or after it, us.
            until: only records with an event time before it, us.
        """
        chosen: list[Item] = []
        records = size = 0
        for found in self._found():
            for item in self._parts(found, since, until):
                chosen.append(item)
                records += max(item.records, 0)
                size += item.size if item.records < 0 else 0
                full = records >= RECORDS_PER_PLAN or size >= BYTES_PER_PLAN
                if full or len(chosen) >= FILES_PER_PLAN:
                    return chosen
        return chosen

    def _found(self) -> list[Item]:
        if self.config.delta is not None:
            return self._delta_files()
        selector = pa.fs.FileSelector(self.root, allow_not_found=True, recursive=True)
        infos = [i for i in self._named(selector) if self._is_data(i)]
        by_name = self.config.order is FileOrder.NAME
        infos.sort(key=lambda i: (i.path,) if by_name else (i.mtime_ns, i.path))
        return [Item(i.path, self.config.format.value, i.size, i.mtime_ns) for i in infos]

    def _named(self, selector: pa.fs.FileSelector) -> Iterable[pa.fs.FileInfo]:
        """Files but those whose name is not UTF-8: nothing could say where a record came from."""
        for info in self.filesystem.get_file_info(selector):
            try:
                info.path  # noqa: B018  asked for what it raises
            except UnicodeDecodeError:
                if not self._warned:
                    log.warning("a file has a name that is not UTF-8: rename it in=%s", self.root)
                self._warned = True
            else:
                yield info

    def _is_data(self, info: pa.fs.FileInfo) -> bool:
        wanted = info.base_name.lower().endswith(SUFFIXES[self.config.format])
        below = info.path.removeprefix(self.root).split("/")
        hidden = any(part.startswith((".", "_")) for part in below)  # also a table's _delta_log
        return bool(info.is_file and wanted and not hidden)

    def _delta_files(self) -> list[Item]:
        """Files in the order of the commits that added them; compaction adds nothing."""
        try:
            delta = DeltaTable(self.uri)
        except TableNotFoundError:
            return []
        log = f"{self.root}/_delta_log"
        names = sorted(
            i.path
            for i in self.filesystem.get_file_info(pa.fs.FileSelector(log))
            if i.base_name.endswith(".json") and i.base_name[:20].isdigit()
        )
        first = int(names[0].rsplit("/", 1)[1][:20]) if names else 0
        added: list[Item] = []
        if first > 0:
            added = _snapshot(delta, first, self.root)
        for name in names if first == 0 else names[1:]:
            with self.filesystem.open_input_file(name) as stream:
                added.extend(_added(stream.read(), self.root))
        return list({item.path: item for item in added}.values())

    def _parts(self, item: Item, since: int | None, until: int | None) -> Iterable[Item]:
        taken = self._taken.get(item.path, [])
        if since is not None or until is not None or any(_is_span(t) for t in taken):
            wanted = (BEGINNING if since is None else since, FOREVER if until is None else until)
            spans = [_span(t) for t in taken]
            for low, high in _minus(wanted, spans):
                yield replace(item, since=low, until=high, rest=not taken)
                taken = [*taken, item]
            return
        if item.format == FileFormat.PARQUET.value:
            yield from self._row_parts(item, taken)
        else:
            yield from self._byte_parts(item, taken)

    def _row_parts(self, item: Item, taken: Sequence[Item]) -> Iterable[Item]:
        at = max((t.end if t.end >= 0 else FOREVER for t in taken), default=0)
        if at >= FOREVER:
            return
        try:
            with self.filesystem.open_input_file(item.path) as stream:
                total = pq.read_metadata(stream).num_rows
        except (OSError, pa.ArrowException):  # unreadable: the plan's reader will say so, once
            yield item
            return
        while at < total:
            end = min(at + RECORDS_PER_PLAN, total)
            yield replace(item, first=at, end=-1 if end == total else end, records=end - at)
            at = end
        if not total and not taken:
            yield replace(item, records=0)

    def _byte_parts(self, item: Item, taken: Sequence[Item]) -> Iterable[Item]:
        at = max((t.end if t.end >= 0 else FOREVER for t in taken), default=0)
        if at >= FOREVER:
            return
        while item.size - at > BYTES_PER_PLAN:
            try:
                end = self._line_end(item.path, at + BYTES_PER_PLAN)
            except OSError:  # unreadable: the plan's reader will say so, once
                break
            if end >= item.size:
                break
            yield replace(item, first=at, end=end)
            at = end
        yield replace(item, first=at, end=-1)

    def _line_end(self, path: str, at: int) -> int:
        with self.filesystem.open_input_file(path) as stream:
            stream.seek(at)
            while chunk := stream.read(1 << 20):
                found = chunk.find(b"\n")
                if found >= 0:
                    return at + int(found) + 1
                at += len(chunk)
        return at


def _is_span(item: Item) -> bool:
    return item.since is not None or item.until is not None


def _span(item: Item) -> Span:
    low = BEGINNING if item.since is None else item.since
    return low, FOREVER if item.until is None else item.until


def _minus(wanted: Span, taken: Sequence[Span]) -> list[Span]:
    """What of an interval no other covers, ascending."""
    left = [wanted]
    for low, high in taken:
        left = [
            part
            for a, b in left
            for part in ((a, min(b, low)), (max(a, high), b))
            if part[0] < part[1]
        ]
    return sorted(left)


def _added(commit: bytes, root: str) -> list[Item]:
    items = []
    for line in commit.splitlines():
        add = json.loads(line).get("add")
        if add is None or not add.get("dataChange", True):
            continue
        if add.get("deletionVector"):
            raise ConfigError(
                f"{root}: the source table has deletion vectors, which cannot be followed."
                " Switch them off (delta.enableDeletionVectors = false) and REORG TABLE ... APPLY."
            )
        path = unquote(add["path"])
        items.append(_item(root, path, add["size"], add["modificationTime"]))
    return items


def _snapshot(delta: DeltaTable, version: int, root: str) -> list[Item]:
    """The files as of the oldest commit that is left, oldest first."""
    delta.load_as_version(version)
    actions = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
    actions.sort(key=lambda a: (a["modification_time"], a["path"]))
    return [_item(root, a["path"], a["size_bytes"], a["modification_time"]) for a in actions]


def _item(root: str, path: str, size: int, modified: int) -> Item:
    return Item(f"{root}/{path}", FileFormat.PARQUET.value, size, modified)
