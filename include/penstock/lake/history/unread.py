"""Rows that a query reads by itself: those it asks for, of the files that hold some.

Which answers are in force is found while it reads. A condition on windows or keys reaches the
files, so a question about one day costs the same on a log of a day and of a year.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.lake.history.position import Position
from penstock.lake.history.reads import Read, counted
from penstock.lake.history.view import had
from penstock.lake.storage.commit import Table
from penstock.lake.storage.damage import damaged_file, require_whole
from penstock.lake.storage.definition import Definition
from penstock.lake.storage.read import DataFile, data_files, dataset
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

BY = "window_start"
NOT_READ = re.compile("(reading the|exporting a) stream")
"""DuckDB, of what it could not read of a data file."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Rows of files, and what is asked of them.

    Attributes:
        parts: by a name; nothing of them is read yet.
        select: SQL, with ``{name}`` for each of them.
        read: what it has before it, where that is counted.
    """

    parts: Mapping[str, ds.Dataset]
    select: str
    read: Read | None = None

    def is_narrow(self) -> bool:
        """Whether it was asked for some of its rows only."""
        return any(isinstance(part, Held) and part.narrow for part in self.parts.values())

    def sql(self, names: Mapping[str, str]) -> str:
        """What is asked, with the names that the parts have for an engine."""
        found = self.select
        for part, name in names.items():
            found = found.replace(f"{{{part}}}", quoted(name))
        return found


class Held(ds.FileSystemDataset):  # type: ignore[misc]
    """Rows of files of which a position has some.

    A question is tried first on the statistics of the row groups, alone: Arrow tries each condition
    on each group, and what a position has would take longer to try on a large file than the answers
    of an hour take to be read.

    Attributes:
        which: true for the rows a position has.
        narrow: whether it was asked for some of them only.
    """

    which: pc.Expression
    narrow: bool = False

    def scanner(
        self,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002
        **how: Any,
    ) -> ds.Scanner:
        """As of any dataset."""
        if filter is None:
            return super().scanner(columns=columns, filter=self.which, **how)
        self.narrow = True
        asked = [each.subset(filter, schema=self.schema) for each in self.get_fragments(filter)]
        found = ds.FileSystemDataset(asked, self.schema, self.format, self.filesystem)
        return found.scanner(columns=columns, filter=filter & self.which, **how)


def counting(contents: Sequence[object]) -> AbstractContextManager[None]:
    """Count the reads of all that is read meanwhile, if all of it is counted.

    Args:
        contents: what is read; others than ``Unread`` are not counted.
    """
    asked = [each for each in contents if isinstance(each, Unread) and each.read is not None]
    reads = [each.read for each in asked if each.read] if len(asked) == len(contents) else []
    return counted(reads, lambda: any(each.is_narrow() for each in asked))


def in_force(step: Definition) -> str:
    """As ``newest``, without what was taken back."""
    return f"{newest(step)} AND n_records > 0"


def newest(step: Definition) -> str:
    """Of the rows a position has, the one of each window and key that has seen most of the log.

    DuckDB hands a condition on what it partitions by down to the files.
    """
    return (
        "FROM {rows} QUALIFY row_number() OVER"
        f" (PARTITION BY {pair(step)} ORDER BY through_seq DESC, revision DESC) = 1"
    )


def pair(step: Definition) -> str:
    """The columns in SQL that an answer is known by: its window and keys."""
    return ", ".join([BY, *map(quoted, step.identity_names)])


def answers(
    tables: Tables, step: Definition, at: Position, wanted: pc.Expression | None = None
) -> ds.Dataset:
    """All answers a position has; ``wanted``: of them.

    Raises:
        DamagedTableError: a data file is not whole; names it.
    """
    table = Table(tables.answers(step))
    which = had(at) if wanted is None else had(at) & wanted
    rows = whole(table, table.spec.schema)
    if not isinstance(rows, ds.FileSystemDataset):
        return rows.filter(which)
    found = Held(list(rows.get_fragments()), rows.schema, rows.format, rows.filesystem)
    found.which = which
    return found


def whole(table: Table, schema: pa.Schema) -> ds.Dataset:
    """All rows of a table, as of its newest version.

    Args:
        table: absent, it has no rows.
        schema: the wanted columns.

    Raises:
        DamagedTableError: the end of a data file is not whole; names it.
    """
    delta, spec = table.newest(), table.spec
    ends = [data_files(delta, column) for column in _ordered(spec)] if delta is not None else []
    if not ends or not ends[0]:
        return ds.dataset(schema.empty_table())
    require_whole(spec.uri, [file.path for file in ends[0]])
    found = dataset(spec.uri, [file.path for file in ends[0]], schema)
    fragments = [
        found.format.make_fragment(
            each.path, found.filesystem, each.partition_expression & _holds(spec, files)
        )
        for each, files in zip(found.get_fragments(), zip(*ends, strict=True), strict=True)
    ]
    return ds.FileSystemDataset(fragments, schema, found.format, found.filesystem)


@contextmanager
def named_if_damaged(read: Sequence[ds.Dataset]) -> Iterator[None]:
    """Ask DuckDB about rows of files.

    Raises:
        DamagedTableError: in place of DuckDB's error over a data file; names it.
        TableAwayError: in place of one that the system caused.
    """
    try:
        yield
    except duckdb.InvalidInputException as wrong:
        for one in read if NOT_READ.search(str(wrong)) else ():
            if isinstance(one, ds.FileSystemDataset) and one.files:
                raise damaged_file(one.files, wrong) from wrong
        raise


@contextmanager
def asking(parts: Mapping[str, ds.Dataset]) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with some rows by their names; what memory cannot hold goes to a folder of its own.

    Raises:
        DamagedTableError: inside the ``with``: a data file is not whole; names it.
    """
    with TemporaryDirectory(prefix="penstock-rows-") as folder, duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET temp_directory = '{folder}'")
        for name, rows in parts.items():
            connection.register(name, rows)
        with named_if_damaged(list(parts.values())):
            yield connection


def _holds(spec: TableSpec, files: Sequence[DataFile]) -> pc.Expression:
    """What is true for all rows of a file, which is given once for each column of its statistics.

    So a file without a wanted row is not opened.
    """
    found = pc.scalar(True)
    for column, file in zip(_ordered(spec), files, strict=True):
        kind, field = spec.schema.field(column).type, pc.field(column)
        if file.least is not None:
            found &= field >= pa.scalar(file.least, pa.int64()).cast(kind)
        if file.greatest is not None:
            found &= field <= pa.scalar(file.greatest, pa.int64()).cast(kind)
    return found


def _ordered(spec: TableSpec) -> list[str]:
    """Columns with statistics that are numbers or instants."""
    return [n for n in spec.indexed if not pa.types.is_string(spec.schema.field(n).type)]


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'
