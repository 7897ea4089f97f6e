"""Data files of a commit to be, written in a thread while the rows of the next are made.

The library that commits writes rows on one core, after they are all there. So the rows of a large
table are written by Arrow, file by file, and the library commits the files. Until then nobody knows
them: what a kill leaves of them is no row. Where rows bring columns that the table does not have,
the library writes them after all: the columns are part of that very commit.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from penstock.columns.arrays import decoded
from penstock.core.place import is_remote
from penstock.lake.storage.durable import sync_file
from penstock.lake.storage.room import require_room, written
from penstock.lake.storage.spec import UNDECLARED, TableSpec, opened

ROW_GROUP = 16_384
RISING = ("arrival_seq", "block", "event_time", "ingest_time")
FILE_ROWS = 100_000
"""From so many rows on a file is written: of many small ones a reader opens each."""
WRITERS = 2
"""Threads; each holds no more than what its plan holds anyway."""
PREFIX = f"{UNDECLARED}."
"""Begins the name of a field of the struct while it is a column of its own."""
STEPS = "DELTA_BINARY_PACKED"


class Files:
    """Data files of a table that no commit names yet.

    Args:
        spec: of the table.
        parts: values of the columns that its files are divided by, the same for all rows.

    Attributes:
        exposed: somebody else may name the files by now.
    """

    def __init__(self, spec: TableSpec, parts: Mapping[str, str]) -> None:
        self.spec, self.parts = spec, dict(parts)
        self.exposed = False
        self._lasting = False
        self._folder = "/".join(f"{name}={value}" for name, value in self.parts.items())
        self._waiting: list[pa.Table] = []
        self._files: list[Future[AddAction]] = []
        self._writer = ThreadPoolExecutor(WRITERS, "drafts")
        self._paths: list[str] = []

    def __enter__(self) -> Self:
        """Itself; what was not committed is gone at the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take away files that no commit names."""
        self._writer.shutdown(cancel_futures=True)
        if not self.exposed:
            _removed(self.spec, self._paths)

    def add(self, rows: pa.Table) -> None:
        """Take some more rows."""
        if not rows.num_rows:
            return
        files = max(1, rows.num_rows // FILE_ROWS)
        for number in range(files):
            first, end = (rows.num_rows * n // files for n in (number, number + 1))
            self._waiting.append(rows.slice(first, end - first))
            if sum(waiting.num_rows for waiting in self._waiting) >= FILE_ROWS:
                self._flush()

    def finish(self) -> list[AddAction]:
        """The files, when they are all on the disk; none if there are no rows.

        Raises:
            UnwrittenError: the system does not let them be written.
        """
        self._flush()
        found = [file.result() for file in self._files]
        if found and not self._lasting:
            for folder in (self._folder, ""):
                sync_file(self.spec.uri, folder)
            self._lasting = True
        return found

    def _flush(self) -> None:
        if self._waiting:
            self._files.append(self._writer.submit(self._write, self._waiting))
        self._waiting = []

    def _write(self, some: Sequence[pa.Table]) -> AddAction:
        path = new_path(self._folder)
        self._paths.append(path)
        return write_file(self.spec, _joined(some), path, self.parts)


def new_path(folder: str = "") -> str:
    """A path that no other data file has."""
    return f"{folder}/part-{uuid4()}.snappy.parquet".removeprefix("/")


def write_file(
    spec: TableSpec, rows: pa.Table, path: str | None = None, parts: Mapping[str, str] | None = None
) -> AddAction:
    """Write a data file that no commit names yet; it is on the disk then, its name is not.

    Args:
        spec: of the table.
        rows: of the file.
        path: of the file, from the table; none: a new one.
        parts: values of the columns that the table's files are divided by.

    Raises:
        UnwrittenError: the system does not let it be written.
    """
    uri, path, parts = spec.uri, path or new_path(), dict(parts or {})
    filesystem, root = opened(uri)
    content = _structured(rows.drop_columns([*parts]))
    require_room(uri, rows)
    try:
        with written(uri):
            if not is_remote(uri):
                filesystem.create_dir(f"{root}/{path}".rpartition("/")[0], recursive=True)
            pq.write_table(content, f"{root}/{path}", filesystem=filesystem, **_options(content))
            sync_file(uri, path)
            about = filesystem.get_file_info(f"{root}/{path}")
    except BaseException:
        with suppress(OSError):
            filesystem.delete_file(f"{root}/{path}")
        raise
    said = json.dumps(_statistics(rows, spec.indexed))
    return AddAction(path, about.size, parts, about.mtime_ns // 1_000_000, True, said)


class Drafts(Files):
    """Rows that will be one commit of a table, in order.

    Args:
        spec, parts: as above.
        schema: of the table as it stands.

    Attributes:
        schema: as given; a commit to a table of another one is refused.
    """

    def __init__(self, spec: TableSpec, schema: pa.Schema, parts: Mapping[str, str]) -> None:
        super().__init__(spec, parts)
        self.schema = schema
        self._known = {*schema.names}
        if UNDECLARED in self._known:
            self._known |= {f"{PREFIX}{field.name}" for field in schema.field(UNDECLARED).type}
        self._rows: list[pa.Table] = []
        self._others: list[AddAction] = []

    @contextmanager
    def handed_over(self) -> Iterator[None]:
        """Commit the files: from here on they may be rows, unless another commit was first."""
        self.exposed = True
        try:
            yield
        except CommitFailedError:
            self.exposed = False
            raise

    @property
    def grows(self) -> bool:
        """Whether the rows have columns that the table has not."""
        return any(not self._known.issuperset(rows.column_names) for rows in self._rows)

    def add(self, rows: pa.Table) -> None:
        """Take some more rows."""
        if rows.num_rows:
            self._rows.append(rows)
        super().add(rows)

    def take(self, files: Iterable[AddAction]) -> None:
        """Take files that others have written: they become rows with the same commit."""
        self._others.extend(files)

    def rows(self) -> "pa.Table | pa.RecordBatchReader":
        """All of them, for the library's writer."""
        if not self._rows:
            return self.spec.schema.empty_table()
        return _structured(_joined([*map(decoded, self._rows)]))

    def finish(self) -> list[AddAction]:
        """The files, as above; none, too, if the rows have new columns."""
        found = [] if self.grows else super().finish() + self._others
        self._waiting = []
        return found

    def _flush(self) -> None:
        if not self.grows:
            super()._flush()
        self._waiting = []


class Gathered(Drafts):
    """Drafts whose files others have written: this process holds none of their rows."""

    def __init__(self, spec: TableSpec, schema: pa.Schema, parts: Mapping[str, str]) -> None:
        super().__init__(spec, schema, parts)
        self._fields: dict[str, pa.DataType] = {}

    @property
    def grows(self) -> bool:
        """Whether the rows have columns that the table has not."""
        return not self._known.issuperset(f"{PREFIX}{name}" for name in self._fields)

    def hold(self, files: Sequence[AddAction]) -> None:
        """Answer for files: they go unless they are committed."""
        self._paths += [file.path for file in files]

    def let_go(self, files: Sequence[AddAction]) -> None:
        """Take away files that are not wanted after all."""
        _removed(self.spec, [file.path for file in files])

    def settle(self, files: Sequence[AddAction], fields: Mapping[str, pa.DataType]) -> None:
        """These, in this order, are the rows.

        Args:
            files: that are held.
            fields: of the column of what is undeclared, in order.
        """
        self._fields = dict(fields)
        self.take(files)

    def rows(self) -> "pa.Table | pa.RecordBatchReader":
        """All rows, file by file, with the new columns."""
        if not self._others:
            return self.spec.schema.empty_table()
        filesystem, root = opened(self.spec.uri)
        struct = pa.struct([*self._fields.items()])
        named = {field.name: field for field in self.schema} | {
            UNDECLARED: pa.field(UNDECLARED, struct)
        }
        schema = pa.schema([*named.values()])
        parts = pa.schema([schema.field(name) for name in self.parts])
        return (
            ds.dataset(
                [f"{root}/{file.path}" for file in self._others],
                schema=schema,
                format="parquet",
                filesystem=filesystem,
                partitioning=ds.partitioning(parts, flavor="hive"),
                partition_base_dir=root,
            )
            .scanner(batch_readahead=2, fragment_readahead=1)
            .to_reader()
        )


def _removed(spec: TableSpec, paths: Sequence[str]) -> None:
    filesystem, root = opened(spec.uri)
    for path in paths:
        with suppress(OSError):
            filesystem.delete_file(f"{root}/{path}")


def _joined(some: Sequence[pa.Table]) -> pa.Table:
    """Rows one after the other, null where some have no such column."""
    if any(not rows.schema.equals(some[0].schema) for rows in some[1:]):
        some = [*map(decoded, some)]
    return pa.concat_tables(some, promote_options="default")


def _structured(rows: pa.Table) -> pa.Table:
    """With the undeclared columns as fields of one."""
    names = [name for name in rows.column_names if name.startswith(PREFIX)]
    if not names:
        return rows
    fields = [rows.schema.field(name).with_name(name.removeprefix(PREFIX)) for name in names]
    pieces = [
        pa.StructArray.from_arrays(batch.columns, fields=fields)
        for batch in rows.select(names).to_batches()
    ]
    column = pa.chunked_array(pieces, pa.struct(fields))
    return rows.drop_columns(names).append_column(UNDECLARED, column)


def _options(content: pa.Table) -> dict[str, Any]:
    """How a file is written: integers as steps, what came as a dictionary, or is declared, as one.

    Dictionaries take time to make. Only what readers skip rows by has statistics.
    """
    kinds = {field.name: field.type for field in content.schema if field.name != UNDECLARED}
    if UNDECLARED in content.column_names:
        inner = content.schema.field(UNDECLARED).type
        kinds |= {f"{PREFIX}{field.name}": field.type for field in inner}
    steps, encoded = {}, []
    for name, kind in kinds.items():
        whole = pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        declared = pa.types.is_string(kind) and not name.startswith(PREFIX) and name != "extra"
        if whole:
            steps[name] = STEPS
        elif declared or pa.types.is_dictionary(kind):
            encoded.append(name)
    return {
        "row_group_size": ROW_GROUP,
        "compression": "snappy",
        "store_schema": False,
        "use_dictionary": encoded,
        "column_encoding": steps,
        "write_statistics": [name for name in kinds if not name.startswith(PREFIX)],
    }


def _statistics(rows: pa.Table, indexed: Sequence[str]) -> dict[str, Any]:
    """What the table's log says of a file, by which readers leave it out."""
    found = {name: pc.min_max(rows[name]).as_py() for name in indexed}
    ends = {name: end for name, end in found.items() if end["min"] is not None}
    return {
        "numRecords": rows.num_rows,
        "minValues": {name: _said(end["min"]) for name, end in ends.items()},
        "maxValues": {name: _said(end["max"]) for name, end in ends.items()},
        "nullCount": {name: rows[name].null_count for name in indexed},
    }


def _said(value: Any) -> Any:
    """As JSON; instants as other writers say them, cut to milliseconds."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value
