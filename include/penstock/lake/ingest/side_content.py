"""Reads the files of a side table: values mean what they mean in records, or the whole is unfit."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from penstock.columns.content import content_name
from penstock.columns.groups import group
from penstock.columns.types import fields_of
from penstock.core.expression import Column
from penstock.core.measure import ColumnType
from penstock.core.side import SideTable
from penstock.lake.ingest.cast import cast
from penstock.lake.ingest.reading import BROKEN, SourceFile, told_apart

LARGEST = 64 << 20
"""Bytes of all files of a side table: each task that looks something up holds its content."""
MOST_ROWS = 1_000_000
Stamp = tuple[str, int, int, int, int]
"""Of a file: its path, and what changes when it does."""


class UnfitError(ValueError):
    """What the files hold cannot be used; says which, why, and the remedy."""


@dataclass(frozen=True, slots=True)
class SidePlace:
    """Where the files of a side table lie.

    Attributes:
        table: the side table.
        place: a file, or a folder of files.
        form: of the files: parquet or csv.
        zone: of instants that carry none.
    """

    table: SideTable
    place: Path
    form: str
    zone: ZoneInfo

    def stamps(self) -> list[Stamp]:
        """What tells of each file, in the order of their names, whether it is as it was.

        Raises:
            OSError: it cannot be looked at, or is not there.
            UnfitError: it is more than a small table, or nothing is there.
        """
        found = [(path, path.stat()) for path in self._files()]
        if not found:
            raise UnfitError(f"{self.place}: no .{self.form} file is there. Put one there")
        if (held := sum(stat.st_size for _, stat in found)) > LARGEST:
            raise UnfitError(
                f"{self.place}: {held:,} bytes are no small table (at most {LARGEST:,}). Name"
                " another place, or leave out what is not looked up"
            )
        return [(str(p), s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for p, s in found]

    def _files(self) -> list[Path]:
        if not self.place.is_dir():
            return [self.place]
        names = [p.name for p in self.place.iterdir() if p.suffix == f".{self.form}"]
        return [self.place / name for name in sorted(names) if not name.startswith((".", "_"))]

    def read(self, paths: Sequence[str]) -> tuple[str, pa.Table]:
        """The content's name, and its rows.

        Raises:
            SourceError: a file could not be read now.
            UnfitError: it cannot be used.
        """
        table = self.table
        parts = [self._file(path) for path in paths]
        rows = pa.concat_tables(part for part, _ in parts)
        if not rows.num_rows:
            raise UnfitError(f"{self.place}: no row is there. Put rows there, or take it from load")
        ids, first = group([rows[key] for key in table.keys], rows.num_rows)
        if len(first) < rows.num_rows:
            at = int(np.flatnonzero(np.arange(rows.num_rows) != first[ids])[0])
            which = ", ".join(f"{key} = {rows[key][at].as_py()}" for key in table.keys)
            places = [place for _, some in parts for place in some]
            both = f"{places[int(first[ids[at]])]} and {places[at]}"
            raise UnfitError(f"{both} both have {which}. Leave one of them out")
        return content_name(rows, table.keys), rows

    def _file(self, path: str) -> tuple[pa.Table, Sequence[str]]:
        """Its rows, and the place of each for people."""
        with SourceFile(path) as file:
            held = file.read()
        table = self.table
        try:
            with told_apart(path):
                raw = READ[self.form](held, table.names)
        except (*BROKEN, KeyError, ValueError) as wrong:
            said = str(wrong.args[0] if wrong.args else wrong).splitlines()[0]
            raise UnfitError(f"{path}: {said}. Mend the file, or load.{table.name}") from wrong
        if raw.num_rows > MOST_ROWS:
            raise UnfitError(f"{path}: {raw.num_rows:,} rows are no small table (at most"
                             f" {MOST_ROWS:,}). Leave out what is not looked up")  # fmt: skip
        columns = {c.name: self._column(path, c, raw[c.name]) for c in table.columns}
        rows = pa.table(columns).cast(pa.schema(fields_of(table.columns)))
        return rows, _Places(path, rows.num_rows)

    def _column(self, path: str, column: Column, said: pa.ChunkedArray) -> pa.Array:
        values, bad = cast(said.combine_chunks(), column.type, self.zone)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        why = f"is no {column.type.value}"
        if column.type is ColumnType.DOUBLE:
            finite = np.asarray(pc.fill_null(pc.is_finite(values), True))
            bad, why = bad | ~finite, "is no finite double"
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            what = f"{column.name} {said[at].as_py()!r} {why}"
            raise UnfitError(f"{path}, row {at + 1}: {what}. Mend it, or the type of {column.name}")
        if column.name in self.table.keys and values.null_count:
            at = int(np.flatnonzero(np.asarray(pc.is_null(values)))[0])
            raise UnfitError(f"{path}, row {at + 1}: {column.name} is missing. Add it")
        return values


@dataclass(frozen=True, slots=True)
class _Places(Sequence[str]):
    """Rows of a file, for people."""

    path: str
    rows: int

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, at: int) -> str:  # type: ignore[override]
        if at >= self.rows:
            raise IndexError(at)
        return f"{self.path}, row {at + 1}"


def _csv(held: bytes, names: Sequence[str]) -> pa.Table:
    """As text: it is read as that of records is."""
    text = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), include_columns=[*names],
        strings_can_be_null=False,
    )  # fmt: skip
    return csv.read_csv(io.BytesIO(held), convert_options=text)


def _parquet(held: bytes, names: Sequence[str]) -> pa.Table:
    file = parquet.ParquetFile(io.BytesIO(held))
    missing = [name for name in names if name not in file.schema_arrow.names]
    if missing:
        raise KeyError(f"no column {', '.join(missing)}")
    if file.metadata.num_rows > MOST_ROWS:
        raise ValueError(f"{file.metadata.num_rows:,} rows are no small table")
    return file.read(columns=[*names]).select([*names])


READ: dict[str, Callable[[bytes, Sequence[str]], pa.Table]] = {"csv": _csv, "parquet": _parquet}
