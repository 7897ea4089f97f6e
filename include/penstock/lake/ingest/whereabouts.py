"""Where the files that plans name lie by now: folders are moved, and files renamed in them."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from penstock.config.intake import FileFormat, History, Source
from penstock.lake.ingest.archive import archived
from penstock.lake.ingest.born import born
from penstock.lake.ingest.delta_feed import DeltaFeed
from penstock.lake.ingest.ending import ending_of, has_record, sample_of
from penstock.lake.ingest.item import Item, digest, is_another, is_grown, is_there
from penstock.lake.ingest.listing import Apart, Found, Listing, identity, listed
from penstock.lake.ingest.place import archive_of, folder_name, folder_of
from penstock.lake.ingest.reading import SourceError, SourceFile
from penstock.lake.ingest.taken import Mark, mark, place_of

SUFFIXES = {
    FileFormat.PARQUET: (".parquet", ".pq"),
    FileFormat.JSONL: (".jsonl", ".json", ".ndjson"),
    FileFormat.CSV: (".csv",),
}


class Whereabouts:
    """The folder of a source.

    Args:
        config: the source or history of a pipeline file.
        home: where relative places start.
        apart: folders that nothing in the source may lead to.

    Attributes:
        root: the folder, as it is called.
        feed: of a Delta table; none: it is a folder of files.
    """

    def __init__(self, config: History, home: Path, apart: Sequence[Apart]) -> None:
        self.config, self.root = config, folder_of(config, home)
        self._home, self.home = home, os.path.realpath(home)
        self._apart = apart
        self._found: dict[Mark, Found] = {}
        self.feed: DeltaFeed | None = None

    def folder(self) -> str:
        """Which folder it is now, wherever a link leads."""
        return folder_name(self.config, self._home)

    def listed(self, before: Listing | None = None) -> Listing:
        """What lies there.

        Args:
            before: what lay there.

        Raises:
            SourceError: it cannot be listed now.
        """
        return listed(self.root, SUFFIXES[self.config.format], self.home, self._apart, before)

    def own(self, item: Item) -> Item:
        """An item named from this folder; plans of former versions named it from the root."""
        path, real = item.path, item.real
        if not (path.startswith("/") or real.startswith("/")):
            return item
        root = os.path.realpath(self.root)
        if path.startswith("/"):
            for folder in {self.root, root}:
                if path.startswith(f"{folder}/"):
                    path = path[len(folder) + 1 :]
                    break
            else:  # the folder was moved since: what it is called from home on tells
                place = self.config.files or self.config.delta or ""
                path = path.rpartition(f"/{place.strip('/')}/")[2]
            real = os.path.realpath(f"{root}/{path}")
        if self.feed is not None:
            return replace(item, path=path)
        real = identity(real, root, self.home)
        return replace(item, path=path, real="" if real == path else real)

    def full(self, item: Item, now: "Whereabouts | None" = None) -> Item:
        """An item with its whole path, to be read.

        Args:
            item: as its plan names it.
            now: the source as the pipeline file says it now: if its folder was moved, or the file
                renamed in it, and exactly what was planned lies there, it is read there.
        """
        own = self.own(item)
        if self.feed is not None:
            return self._of_table(own, now)
        whole = replace(own, path=f"{self.root}/{own.path}", real=self.real(own, own.root))
        if now is None or (is_there(whole) and not is_another(whole)):
            return whole
        if now.root != self.root and is_there(moved := now.full(item)):
            return moved
        if is_another(whole):
            with suppress(SourceError):  # who reads it says what is away
                return replace(whole, real=now.renamed(item) or now.archived(own) or whole.real)
        return whole

    def _of_table(self, own: Item, now: "Whereabouts | None") -> Item:
        elsewhere = own.path.startswith("file:///")
        path = unquote(own.path[7:]) if elsewhere else f"{self.root}/{own.path}"
        feed = None if now is None or elsewhere else now.feed
        if feed is not None and not os.path.lexists(path) and feed.has(own):
            path = f"{feed.root}/{own.path}"
        return replace(own, path=path)

    def renamed(self, item: Item) -> str | None:
        """Where exactly the file of an item lies by now, under whatever name.

        Raises:
            SourceError: the folder cannot be listed now.
        """
        file = self._found.get(mark(item))
        place = item if file is None else replace(item, path=self.real(file), real="")
        if file is None or is_another(place) or not is_there(place):
            files = self.listed().files
            self._found = {mark(each): each for each in files}
            file = self._found.get(mark(item)) or self._grown(item, files)
        return None if file is None else self.real(file)

    def archived(self, own: Item) -> str | None:
        """Where exactly the file of an item lies in the archive: its lake may be a restored one.

        Raises:
            SourceError: it cannot be read now.
        """
        if not isinstance(self.config, Source):
            return None
        archive = archive_of(self.config, Path(self.home))
        return None if archive is None else archived(archive, own, self.end_of)

    def _grown(self, item: Item, files: Sequence[Found]) -> Found | None:
        """The file of an item that was appended to and renamed."""
        for file in files:
            if file.inode and is_grown(
                item, file.size, file.inode, partial(ending_of, self.real(file))
            ):
                return file
        return None

    def real(self, file: Found | Item, folder: str = "") -> str:
        """Where it lies, by its names without links.

        Args:
            file: named from the folder.
            folder: which one that was, wherever a link leads by now; empty: the present one.
        """
        base = folder or self.folder()
        return place_of(os.path.join(self.home, base), file)  # noqa: PTH118

    def ending(self, file: Found | Item, size: int) -> str:
        """Digest of a file before a size, as it is now; of a text without a record there: empty.

        Raises:
            SourceError: it cannot be read now.
        """
        if isinstance(file, Item) and self.feed is not None:
            return sample_of(self.full(file).path, size)
        real = self.real(file, file.root if isinstance(file, Item) else "")
        first = {FileFormat.PARQUET: 0, FileFormat.JSONL: 1, FileFormat.CSV: 2}[self.config.format]
        return self.end_of(real, size) if not first or has_record(real, size, first) else ""

    def born(self, file: Found | Item) -> int:
        """When a file was made that lies there now; 0: nobody can tell."""
        return born(self.real(file, file.root if isinstance(file, Item) else ""))

    def end_of(self, real: str, size: int) -> str:
        """Digest of a file's end; of a Parquet file of bytes from all over it.

        Raises:
            SourceError: it cannot be read now.
        """
        with SourceFile(real) as file:
            return digest(self.config.format.value, file, size)
