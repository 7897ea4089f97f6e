"""Reading Delta tables by their data files with pyarrow: no JVM, no table held at exit.

``DeltaTable.to_pyarrow_table`` aborts the process at exit in most runs (deltalake 1.6 with
pyarrow 26), so files are listed by deltalake and read by pyarrow.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from penstock.core.place import is_remote
from penstock.core.step import STREAM
from penstock.core.window import MILLISECOND, micros
from penstock.lake.storage.commit import Table
from penstock.lake.storage.damage import told
from penstock.lake.storage.remembered import Remembered, small_files
from penstock.lake.storage.snapshots import CLEANED_AWAY, mark_of
from penstock.lake.storage.spec import TableSpec, opened

PIECE = 262_144
REMEMBERED = Remembered()


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file of a table.

    Attributes:
        path: relative to the table's URI.
        rows: how many.
        least, greatest: smallest and largest value of the asked column; none: not known.
    """

    path: str
    rows: int
    least: int | None
    greatest: int | None

    def holds(self, first: int, last: int) -> bool:
        """Whether some row may have a value in [first, last]."""
        below = self.greatest is not None and self.greatest < first
        above = self.least is not None and self.least > last
        return not (below or above)


def data_files(delta: DeltaTable, column: str) -> list[DataFile]:
    """The files of the snapshot at hand with the range of one column; unknown stays unknown.

    Instants count in microseconds; a file's greatest one is the latest it can be, because writers
    cut statistics to milliseconds.
    """
    uri, look = delta.table_uri, partial(_files, delta, column)
    mark = CLEANED_AWAY if is_remote(uri) else mark_of(uri, delta.version())
    if mark == CLEANED_AWAY:  # a restored table may have another version of this number
        return look()
    return REMEMBERED.listed((uri, mark, delta.version(), column), look)


def _files(delta: DeltaTable, column: str) -> list[DataFile]:
    with told(delta.table_uri):
        actions = pa.table(delta.get_add_actions(flatten=True))
    rows = actions["num_records"].to_pylist()
    paths = actions["path"].to_pylist()
    least = _bound(actions, f"min.{column}", 0)
    greatest = _bound(actions, f"max.{column}", MILLISECOND - 1)
    return [DataFile(*each) for each in zip(paths, rows, least, greatest, strict=True)]


def of_streams(delta: DeltaTable, files: Sequence[DataFile], spec: TableSpec) -> list[DataFile]:
    """Of some files of a snapshot those that may hold rows of the spec's streams."""
    if not spec.streams:
        return [*files]
    ends = {f.path: (f.least, f.greatest) for f in data_files(delta, STREAM)}
    return [f for f in files if any(_may_be(name, *ends[f.path]) for name in spec.streams)]


def _may_be(name: str, least: object, greatest: object) -> bool:
    below = isinstance(greatest, str) and greatest < name
    above = isinstance(least, str) and least > name
    return not (below or above)


def _bound(actions: pa.Table, name: str, more: int) -> list[int | None]:
    if name not in actions.column_names:
        return [None] * actions.num_rows
    values = actions[name]
    if pa.types.is_timestamp(values.type):
        values = pc.add(pc.cast(values, pa.timestamp("us", "UTC")).cast(pa.int64()), more)
    found: list[int | None] = values.to_pylist()
    return found


@dataclass(frozen=True, slots=True)
class Spans:
    """Values of one column: in some of the closed spans [first, last]; instants in us."""

    column: str
    spans: tuple[tuple[int, int], ...]

    def hold(self, file: DataFile) -> bool:
        """Whether some row of a file may lie within."""
        return any(file.holds(first, last) for first, last in self.spans)

    def where(self, schema: pa.Schema) -> pc.Expression:
        """True for the rows within."""
        kind, field = schema.field(self.column).type, pc.field(self.column)
        found = pc.scalar(False)
        for ends in self.spans:
            first, last = (pa.scalar(end, pa.int64()).cast(kind) for end in ends)
            found = found | ((field >= first) & (field <= last))
        return found


def read_files(
    uri: str,
    paths: Sequence[str],
    schema: pa.Schema,
    columns: Sequence[str],
    where: pc.Expression | None = None,
) -> pa.Table:
    """Columns of some data files of a table.

    Args:
        uri: the table's.
        paths: relative to it; hive partitions in them become columns.
        schema: of the table; a file that lacks a column gives nulls.
        columns: the wanted ones, in the wanted order.
        where: keep only rows for which it is true.

    Raises:
        DamagedTableError: some of the files is not whole; names it.
        TableAwayError: the system does not give it now.
    """
    if not paths:
        return schema.empty_table().select(list(columns))
    found, names = list[pa.Table](), _asked(schema, columns, where)
    with told(uri, paths):
        marks = small_files(uri, paths)
        for small, some in groupby(paths, key=marks.__contains__):
            if small:
                mine = {path: marks[path] for path in some}
                rows = REMEMBERED.read(uri, mine, schema, names, partial(_each, uri, schema))
                rows = rows if where is None else rows.filter(where)
                found.append(rows.select(list(columns)))
            else:
                data = dataset(uri, [*some], schema)
                found.append(data.to_table(list(columns), filter=where, use_threads=True))
    return pa.concat_tables(found)


def _asked(schema: pa.Schema, columns: Sequence[str], where: pc.Expression | None) -> list[str]:
    """What is needed to say which rows count, too: every column that the condition may name."""
    said = str(where)
    return [name for name in schema.names if name in columns or name in said]


def _each(
    uri: str, schema: pa.Schema, paths: Sequence[str], columns: Sequence[str]
) -> list[pa.Table]:
    """Columns of data files, a table a file."""
    pieces = dataset(uri, paths, schema).get_fragments()
    return [piece.to_table(schema, list(columns), use_threads=False) for piece in pieces]


def read_groups(
    uri: str, paths: Sequence[str], schema: pa.Schema, columns: Sequence[str], where: pc.Expression
) -> pa.Table:
    """As ``read_files``, but row groups as a whole: all that may hold a row that is asked for."""
    with told(uri, paths):
        whole = dataset(uri, paths, schema)
        some = [piece.subset(where, schema=schema) for piece in whole.get_fragments(where)]
        found = ds.FileSystemDataset(some, schema, whole.format, whole.filesystem)
        return found.to_table(columns=list(columns), use_threads=True)


def greatest_first(
    uri: str, path: str, schema: pa.Schema, column: str
) -> Iterator[tuple[int | None, ds.Fragment]]:
    """Row groups of a data file, unread, by their greatest instant of a column, us.

    Those where it is not known come first.
    """
    with told(uri, [path]):
        (whole,) = dataset(uri, [path], schema).get_fragments()
        groups = whole.metadata  # reads the end of the file
    which = groups.schema.names.index(column)
    said = (groups.row_group(n).column(which).statistics for n in range(groups.num_row_groups))
    known = [micros(s.max) if s is not None and s.has_min_max else None for s in said]
    for n in sorted(range(len(known)), key=lambda n: (known[n] is not None, -(known[n] or 0))):
        yield known[n], whole.subset(row_group_ids=[n])


def read_pieces(
    uri: str,
    paths: Sequence[str],
    schema: pa.Schema,
    columns: Sequence[str],
    where: pc.Expression | None = None,
) -> Iterator[pa.Table]:
    """As ``read_files``, in pieces of about ``PIECE`` rows, text as numbers and a dictionary.

    A piece fits the processor's cache, and what it took serves the next one.
    """
    if not paths:
        return
    numbers = pa.dictionary(pa.int32(), pa.string())
    text = {name for name in columns if schema.field(name).type == pa.string()}
    schema = pa.schema([f.with_type(numbers) if f.name in text else f for f in schema])
    waiting: list[pa.RecordBatch] = []
    with told(uri, paths):
        data = dataset(uri, paths, schema, text)
        for batch in data.to_batches(
            columns=list(columns), filter=where, batch_readahead=2, fragment_readahead=1
        ):
            waiting.append(batch)
            if sum(b.num_rows for b in waiting) >= PIECE:
                yield pa.Table.from_batches(waiting)
                waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def dataset(
    uri: str, paths: Sequence[str], schema: pa.Schema, encoded: Collection[str] = ()
) -> ds.FileSystemDataset:
    """Data files of a table, unread, in their order; ``encoded`` text comes with a dictionary."""
    filesystem, root = opened(uri)
    hive = ds.partitioning(pa.schema([f for f in schema if f.name == "origin"]), flavor="hive")
    return ds.dataset(
        [f"{root}/{path}" for path in paths],
        schema=schema,
        format=ds.ParquetFileFormat(dictionary_columns=set(encoded)),
        filesystem=filesystem,
        partitioning=hive,
        partition_base_dir=root,
    )


def read_table(
    table: Table,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    within: Spans | None = None,
) -> pa.Table:
    """The rows of a table at its newest version, of its spec's streams; an absent one is empty.

    Args:
        table: the table.
        columns: the wanted ones; none: all.
        where: keep only rows for which it is true.
        within: keep only rows within; files that can hold none are not opened.
    """
    schema = table.spec.schema
    wanted = list(columns or schema.names)
    delta = table.newest()
    if delta is None:
        return schema.empty_table().select(wanted)
    files = data_files(delta, wanted[0] if within is None else within.column)
    files = of_streams(delta, files, table.spec)
    if within is not None:
        files = [f for f in files if within.hold(f)]
    for more in (None if within is None else within.where(schema), table.spec.mine):
        if more is not None:
            where = more if where is None else where & more
    return read_files(table.spec.uri, [f.path for f in files], schema, wanted, where)


class Tail:
    """Follows a table by a rising column: each call returns the rows that are new.

    Positions are values of the column, never versions or files: those do not survive compaction.
    """

    def __init__(self, table: Table, column: str, after: int) -> None:
        self.table, self.column, self.after = table, column, after
        self._seen: set[str] = set()
        self._version = -1

    def take(self) -> pa.Table:
        """Rows with a greater value than any taken before, in order."""
        schema = self.table.spec.schema
        delta = self.table.newest()
        if delta is None or delta.version() == self._version:
            return schema.empty_table()
        files = data_files(delta, self.column)
        fresh = [f for f in files if f.path not in self._seen]
        wanted = [f.path for f in fresh if f.greatest is None or f.greatest > self.after]
        rows = read_files(
            self.table.spec.uri, wanted, schema, schema.names, pc.field(self.column) > self.after
        ).sort_by(self.column)
        self._seen = {f.path for f in files}
        self._version = delta.version()
        if rows.num_rows:
            self.after = rows[self.column][-1].as_py()
        return rows
