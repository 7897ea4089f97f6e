"""Reading the items of a plan: every record of a file, as columns, raw text and place.

An item is one file, or a part of a large one: rows of Parquet, bytes of text up to a line's end.
"""

import csv
import io
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.fs

from penstock.columns.arrays import decoded
from penstock.config.intake import FileFormat, Intake
from penstock.lake.ingest.cast import from_json
from penstock.lake.ingest.delta_log import gone, vacuumed
from penstock.lake.ingest.item import Item, opened
from penstock.lake.ingest.json_text import Texts, repeated, texts
from penstock.lake.ingest.parquet import rows_of_part, with_parts
from penstock.lake.ingest.reading import BROKEN, SourceError, SourceFile

ENCODED = msgspec.json.Encoder()
MALFORMED = "malformed"
UNREADABLE = "unreadable"
LONGEST_LINE = 16 << 20
"""Bytes; a longer line is no record. What it holds could be a key, and keys go everywhere."""
CHUNK = 1 << 20
SHOWN = 80
"""Characters of a line that is no header."""
NOTHING = b" \t\r\n\xef\xbb\xbf"
"""Bytes of a line that says nothing, also not which columns there are."""
RAW_KEPT = 1 << 20
"""Bytes of a refused line that are kept."""


@dataclass(slots=True)
class Received:
    """Records as they came.

    Attributes:
        columns: source columns, each of shape (n,).
        malformed: row -> what is wrong with its form.
        extra: what a record holds beside the columns, as JSON in its own text, shape (n,); none:
            nothing but the columns.
        raw: the text of some rows.
        place: where a row came from: file and line or row.
        typed: the source's columns have types of their own.
    """

    columns: pa.Table
    raw: Callable[[Sequence[int]], list[str]]
    place: Callable[[int], str]
    malformed: dict[int, str] = field(default_factory=dict)
    extra: pa.Array | None = None
    typed: bool = False


def receive(item: Item, filesystem: pa.fs.FileSystem, intake: Intake) -> Received:
    """Read one item; a file of whose content nothing can be made is one malformed record.

    Args:
        item: what to read.
        filesystem: where it lies.
        intake: which source columns are meant.

    Raises:
        SourceError: the system could not read it now.
    """
    try:
        with opened(item) as file:
            if item.format == FileFormat.PARQUET.value:
                return _parquet(item, file)
            if item.format == FileFormat.CSV.value:
                return _csv(item, file, intake)
            return _jsonl(item, file, intake.wanted)
    except SourceError as away:
        refuse_gone(item, filesystem, away)
        raise
    except BROKEN as broken:
        return unreadable(item, broken)


def refuse_gone(item: Item, filesystem: pa.fs.FileSystem, away: SourceError) -> None:
    """Raise where a Delta table is there, but not the file that one of its versions names.

    Raises:
        DeltaSourceError: it was removed before it was read.
    """
    if item.version >= 0 and isinstance(away.__cause__, FileNotFoundError):
        root = vacuumed(filesystem, item.path)
        if root is not None:
            raise gone(root, item.path, item.version) from away


def unreadable(item: Item, broken: Exception) -> Received:
    """A file of which nothing can be taken, as one malformed record."""
    return one_refused(item, f"{UNREADABLE}: {type(broken).__name__}: {broken}")


def one_refused(item: Item, said: str) -> Received:
    """A whole file as one refused record."""
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
        names = table.column_names
        if len({n.casefold() for n in names} - {""}) == len(names) or len({*names}) < len(names):
            view = "rows"
            while view in {n.casefold() for n in names}:  # a column would be taken for the whole
                view += "_"
            connection.register(view, table)
            got = connection.sql(f"SELECT CAST(to_json({view}) AS VARCHAR) AS j FROM {view}")  # noqa: S608
        else:  # DuckDB tells no names apart by their case, and has none that is empty
            connection.register("rows", table.rename_columns([f"c{i}" for i in range(len(names))]))
            pairs = (f"{_quoted(n)}, c{i}" for i, n in enumerate(names))
            content = f"CAST(json_object({', '.join(pairs)}) AS VARCHAR)"
            got = connection.sql(f"SELECT {content} AS j FROM rows")  # noqa: S608
        column = got.to_arrow_table()["j"]
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.string())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _parquet(item: Item, file: SourceFile) -> Received:
    table = with_parts(rows_of_part(item, file), item)
    return Received(
        table,
        lambda rows: as_json(decoded(table.take(list(rows)))).to_pylist(),
        lambda row: f"{item.path}: row {item.first + row + 1}",
        typed=True,
    )


def _lines_before(file: SourceFile, first: int) -> int:
    before, left = 0, first
    file.seek(0)
    while left > 0 and (some := file.read(min(left, CHUNK))):
        before, left = before + some.count(b"\n"), left - len(some)
    return before


def text_lines(item: Item, file: SourceFile, first: int) -> list[bytes]:
    """The lines of a part from a place on."""
    file.seek(first)
    end = item.size if item.end < 0 else item.end
    lines = file.read(max(0, end - first)).split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines


def header_of(file: SourceFile) -> tuple[bytes, int]:
    """The first line that says something, and the place behind it."""
    held, at = b"", 0
    while True:
        chunk = file.read(CHUNK)
        held += chunk
        blank = len(held) - len(held.lstrip(NOTHING))
        start, end = held.rfind(b"\n", 0, blank) + 1, held.find(b"\n", blank)
        is_whole = end >= 0 or not chunk or len(held) - start > LONGEST_LINE
        if blank < len(held) and is_whole:
            stop = end if end >= 0 else len(held)
            return held[start:stop], at + min(stop + 1, len(held))
        if not chunk:
            return b"", at + len(held)
        held, at = held[start:], at + start


def _too_long(line: bytes) -> str | None:
    if len(line) <= LONGEST_LINE:
        return None
    return f"a line of {len(line):,} bytes, where at most {LONGEST_LINE:,} are read"


def _raw(line: bytes) -> str:
    return line[:RAW_KEPT].decode(errors="replace")


def _jsonl(item: Item, file: SourceFile, wanted: Collection[str]) -> Received:
    before, lines = _lines_before(file, item.first), text_lines(item, file, item.first)
    numbered = [(i, line) for i, line in enumerate(lines, before + 1) if line.strip()]
    records: list[Texts] = []
    malformed: dict[int, str] = {}
    for row, (_, line) in enumerate(numbered):
        value: Texts | None = {}
        wrong = _too_long(line)
        if not wrong:
            try:
                value = texts(line)
            except (ValueError, RecursionError) as broken:
                wrong = f"not JSON: {broken}"
        if value is None:
            wrong = "not a JSON object"
        if wrong:
            value, malformed[row] = {}, wrong
        records.append(value or {})
    for row, said in repeated([line for _, line in numbered], records, wanted).items():
        records[row], malformed[row] = {}, said
    columns = {}
    for name in sorted(wanted):
        found = [record.pop(name, None) for record in records]
        columns[name] = from_json([None if v is None else bytes(v) for v in found])
    others = [ENCODED.encode(record) if record else None for record in records]
    return Received(
        pa.table(columns),
        lambda rows: [_raw(numbered[r][1]) for r in rows],
        lambda row: f"{item.path}: line {numbered[row][0]}",
        malformed,
        pa.array(others, pa.binary()).cast(pa.string()),
    )


def _csv(item: Item, file: SourceFile, intake: Intake) -> Received:
    header, behind = header_of(file)
    first = max(item.first, behind)
    before, lines = _lines_before(file, first), text_lines(item, file, first)
    names = next(csv.reader([header.decode("utf-8-sig").rstrip("\r")], strict=True), [])
    if (wrong := not_a_header(names, intake)) is not None:
        return one_refused(item, f"{UNREADABLE}: {wrong}")
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


def not_a_header(names: Sequence[str], intake: Intake) -> str | None:
    """Why a file's first line does not say what its columns are; an empty file says nothing."""
    twice = next((n for n in names if n in intake.wanted and names.count(n) > 1), None)
    if twice is not None:
        return f"its header names the column {twice!r} twice"
    if names and intake.event_time not in names:  # it may be the first record
        said = ",".join(names)[:SHOWN]
        return f"its first line does not name the column {intake.event_time!r}: {said!r}"
    return None


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
        return next(csv.reader([text], strict=True), [])
    except csv.Error as broken:
        malformed.setdefault(row, f"not CSV: {broken}")
        return []
