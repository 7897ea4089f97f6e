"""Rows of Parquet files, by their footers."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from penstock.config.intake import FileFormat
from penstock.lake.ingest.item import Item, opened
from penstock.lake.ingest.parquet import rows_of
from penstock.lake.ingest.reading import BROKEN, SourceError, told_apart
from penstock.lake.ingest.received import refuse_gone
from penstock.lake.ingest.whereabouts import Whereabouts

READERS = 8
"""Footers read at once."""


class Footers:
    """What footers say, of the files that wait.

    Args:
        places: where the files lie.
        filesystem: on which.
    """

    def __init__(self, places: Whereabouts, filesystem: pyarrow.fs.FileSystem) -> None:
        self._places, self._filesystem = places, filesystem
        self._rows: dict[Item, int | None] = {}

    def forget(self) -> None:
        """Other files wait now."""
        self._rows = {}

    def count(self, items: Iterable[Item]) -> None:
        """Read the footers that will be asked for, several at once: a mount may be slow."""
        unread = [i for i in items if i.format == FileFormat.PARQUET.value and i not in self._rows]
        if len(unread) > 1:
            with told_apart(self._places.root), ThreadPoolExecutor(READERS) as readers:
                self._rows.update(zip(unread, readers.map(self._read, unread), strict=True))

    def rows(self, item: Item) -> int | None:
        """Rows of a file; none: its content says nothing."""
        return self._rows[item] if item in self._rows else self._read(item)

    def _read(self, item: Item) -> int | None:
        whole = self._places.full(item)
        try:
            with opened(whole) as file:
                return rows_of(pq.read_metadata(pa.PythonFile(file, mode="r")))
        except SourceError as away:
            refuse_gone(whole, self._filesystem, away)
            raise
        except BROKEN:
            return None
