"""Reading the items of a plan: every record of a file, as columns, raw text and place.

An item is one file, or a part of a large one: rows of Parquet, bytes of text up to a line's end.
"""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import unquote

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from penstock.config.pipeline import FileFormat
from penstock.lake.ingest.cast import from_python

STRICT: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
"""Four times as fast as Python's own; gives the same or refuses."""
MALFORMED = "malformed"
UNREADABLE = "unreadable"
LONGEST_LINE = 16 << 20
"""Bytes; a longer line is no record. What it holds could be a key, and keys go everywhere."""
RAW_KEPT = 1 << 20
"""Bytes of a refused line that are kept."""
BROKEN = (OSError, pa.ArrowException, csv.Error, UnicodeError, OverflowError, duckdb.Error)
"""What a file's content can make a library raise."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file of a plan, or a part of it.

    Attributes:
        path: full path in its file system.
        format: parquet, jsonl or csv.
        size: bytes when it was planned.
        modified: nanoseconds since the epoch when it was planned.
        first, end: rows (Parquet) or bytes (text) of this part; end -1: to the end.
        records: how many, where the format tells without reading; -1: not known.
        since, until: only records with an event time in [since, until), us; none: all.
        rest: also the records that have no event time at all.
    """

    path: str
    format: str
    size: int
    modified: int
    first: int = 0
    end: int = -1
    records: int = -1
    since: int | None = None
    until: int | None = None
    rest: bool = True

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(slots=True)
class Received:
    """Records as they came.

    Attributes:
        columns: source columns, each of shape (n,).
        malformed: row -> what is wrong with its form.
        raw: the text of some rows.
        place: where a row came from: file and line or row.
    """

    columns: pa.Table
    raw: Callable[[Sequence[int]], list[str]]
    place: Callable[[int], str]
    malformed: dict[int, str] = field(default_factory=dict)


def receive(item: Item, filesystem: pa.fs.FileSystem) -> Received:
    """Read one item; a file that cannot be read at all is one malformed record."""
    reader = {FileFormat.PARQUET: _parquet, FileFormat.JSONL: _jsonl, FileFormat.CSV: _csv}
    try:
        return reader[FileFormat(item.format)](item, filesystem)
    except BROKEN as broken:
        return unreadable(item, broken)


def unreadable(item: Item, broken: Exception) -> Received:
    """A file of which nothing can be taken, as one malformed record."""
    said = f"{UNREADABLE}: {type(broken).__name__}: {broken}"
    return Received(
        pa.table({"": pa.nulls(1)}),
        lambda rows: [""] * len(rows),
        lambda _: item.path,
        {0: said},
    )


def as_json(table: pa.Table) -> pa.Array:
    """Each row as a JSON object. DuckDB: 1.3 M rows/s for 16 columns, json.dumps: 0.1 M."""
    if not table.num_columns:
        return pa.nulls(table.num_rows, pa.string())
    try:
        return _to_json(table)
    except duckdb.Error:
        return _to_json(pa.table([_plain(table.select([i])) for i in range(table.num_columns)],
                                 names=table.column_names))  # fmt: skip


def _plain(single: pa.Table) -> pa.ChunkedArray:
    """A column, as text if DuckDB knows its type or one of its values not."""
    column = single.column(0)
    try:
        _to_json(single)
    except duckdb.Error:
        texts = (column.slice(i, 1).combine_chunks() for i in range(len(column)))
        said = [None if t.null_count else _said(t) for t in texts]
        return pa.chunked_array([pa.array(said, pa.string())])
    return column


def _said(one: pa.Array) -> str:
    """A value as Arrow prints it."""
    lines = one.to_string(skip_new_lines=True)
    return str(lines).removeprefix("[").removesuffix("]").strip()


def _to_json(table: pa.Table) -> pa.Array:
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("rows", table)
        got = connection.sql("SELECT CAST(to_json(rows) AS VARCHAR) AS j FROM rows")
        column = got.to_arrow_table()["j"]
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())


def _parquet(item: Item, filesystem: pa.fs.FileSystem) -> Received:
    with filesystem.open_input_file(item.path) as stream:
        table = _readable(pq.read_table(stream))
    end = table.num_rows if item.end < 0 else item.end
    table = _with_hive(table.slice(item.first, end - item.first), item.path)
    return Received(
        table,
        lambda rows: as_json(table.take(list(rows))).to_pylist(),
        lambda row: f"{item.path}: row {item.first + row + 1}",
    )


def _readable(table: pa.Table) -> pa.Table:
    """With bytes in place of text that is not UTF-8: Arrow takes the writer's word for it."""
    for at, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)  # noqa: PLW2901  checked as it is read
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
                raise
            table = table.set_column(at, table.field(at).name, pc.cast(column, pa.large_binary()))
    return table


def _with_hive(table: pa.Table, path: str) -> pa.Table:
    """With the columns that stand in the path, as day=2024-01-01/, and not in the file."""
    for part in path.split("/")[:-1]:
        name, found, value = part.partition("=")
        if found and name not in table.column_names:
            text = None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
            table = table.append_column(name, pa.repeat(pa.scalar(text, pa.string()), len(table)))
    return table


def _text_lines(item: Item, filesystem: pa.fs.FileSystem) -> tuple[list[bytes], int]:
    """The lines of a part and the number of lines before it."""
    with filesystem.open_input_file(item.path) as stream:
        before = 0
        if item.first:
            before = stream.read(item.first).count(b"\n")
        end = item.size if item.end < 0 else item.end
        content = stream.read(end - item.first)
    lines = content.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines, before


def _too_long(line: bytes) -> str | None:
    if len(line) <= LONGEST_LINE:
        return None
    return f"a line of {len(line):,} bytes, where at most {LONGEST_LINE:,} are read"


def _raw(line: bytes) -> str:
    return line[:RAW_KEPT].decode(errors="replace")


def _jsonl(item: Item, filesystem: pa.fs.FileSystem) -> Received:
    lines, before = _text_lines(item, filesystem)
    numbered = [(i, line) for i, line in enumerate(lines, before + 1) if line.strip()]
    records: list[dict[str, Any]] = []
    malformed: dict[int, str] = {}
    for row, (_, line) in enumerate(numbered):
        try:
            value = _parsed(line)
        except (ValueError, RecursionError) as broken:
            value, malformed[row] = {}, _too_long(line) or f"not JSON: {broken}"
        if not isinstance(value, dict):
            value, malformed[row] = {}, "not a JSON object"
        records.append(value)
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = {name: from_python([r.get(name) for r in records]) for name in names}
    table = pa.table(columns) if columns else pa.table({"": pa.nulls(len(records))})
    return Received(
        table,
        lambda rows: [_raw(numbered[r][1]) for r in rows],
        lambda row: f"{item.path}: line {numbered[row][0]}",
        malformed,
    )


def _parsed(line: bytes) -> Any:
    if _too_long(line):
        raise ValueError
    try:
        return STRICT.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _lenient(line)


def _lenient(line: bytes) -> Any:
    """What only Python's own reader takes, as NaN; it also says best what is wrong."""
    value = json.loads(line.decode("utf-8-sig"))
    if b"\\ud" in line.lower():  # half of a surrogate pair is JSON, but no table can hold it
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _csv(item: Item, filesystem: pa.fs.FileSystem) -> Received:
    lines, before = _text_lines(item, filesystem)
    if item.first:
        with filesystem.open_input_file(item.path) as stream:
            top = stream.read(min(item.first, 1 << 20)).split(b"\n")
        header = next((line for line in top if line.strip()), b"")
    else:
        at = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
        header = b"".join(lines[at : at + 1])
        lines, before = lines[at + 1 :], at + 1
    names = next(csv.reader([header.decode("utf-8-sig").rstrip("\r")]), [])
    numbered = [(i, line) for i, line in enumerate(lines, before + 1) if line.strip()]
    malformed: dict[int, str] = {}
    texts = []
    for row, (_, line) in enumerate(numbered):
        text, wrong = "", _too_long(line)
        try:
            text = "" if wrong else line.decode().rstrip("\r")
        except UnicodeDecodeError as broken:
            wrong = f"not UTF-8: {broken.reason}"
        texts.append(text)
        if wrong:
            malformed[row] = wrong
    rows = _split(texts, len(names), malformed)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    table = pa.table({n: pa.array(c, pa.string()) for n, c in zip(names, columns, strict=True)})
    if not names:
        table = pa.table({"": pa.nulls(len(rows))})
    return Received(
        table,
        lambda picked: [_raw(numbered[r][1]) for r in picked],
        lambda row: f"{item.path}: line {numbered[row][0]}",
        malformed,
    )


def _split(texts: list[str], width: int, malformed: dict[int, str]) -> list[list[str]]:
    """Fields of each line; a record is one line, so that one bad quote spoils one record."""
    rows: list[list[str]] = []
    if '"' not in (content := "\n".join(texts)) and "\r" not in content:
        rows = _all_lines(content)
    if len(rows) != len(texts):
        rows = [_one_line(text, i, malformed) for i, text in enumerate(texts)]
    for i, fields in enumerate(rows):
        if len(fields) != width:
            malformed.setdefault(i, f"{len(fields)} fields where the header has {width}")
            rows[i] = [""] * width
    return rows


def _all_lines(content: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(content)))
    except csv.Error:  # some field is too long: line by line it spoils only its own record
        return []


def _one_line(text: str, row: int, malformed: dict[int, str]) -> list[str]:
    try:
        return next(csv.reader([text]), [])
    except csv.Error as broken:
        malformed.setdefault(row, f"not CSV: {broken}")
        return []
