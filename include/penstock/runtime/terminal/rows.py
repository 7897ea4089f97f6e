"""Rows for people: results of a query, views, files that were written."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
from rich.console import Console
from rich.text import Text

from penstock.core.errors import ConfigError
from penstock.lake.serve.export import Exported
from penstock.lake.serve.query import answered, as_of, mentioned
from penstock.lake.serve.views import View
from penstock.runtime.terminal.words import count, head, put, table, value

WRITERS = (".parquet", ".csv")


def show(found: duckdb.DuckDBPyRelation, limit: int | None, out: Console) -> None:
    """Print a result.

    Args:
        found: the result.
        limit: at most so many rows; none: all.
        out: where to.
    """
    rows = (found if limit is None else found.limit(limit + 1)).to_arrow_table()
    more = limit is not None and rows.num_rows > limit
    rows = rows.slice(0, limit) if more else rows
    numbers = [f.name for f in rows.schema if _is_number(f.type)]
    shown = table(*rows.column_names, right=tuple(numbers))
    for cells in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        shown.add_row(*(Text(value(cell)) for cell in cells))
    put(shown, out)
    if more:
        out.print(f"The first {limit} rows. All of them: --all, or --output FILE.parquet")
    else:
        out.print(count(rows.num_rows, "row"))


def show_position(known: Mapping[str, View], sql: str, out: Console) -> None:
    """Print which record of the log a result is as of, and what its views had to say."""
    seq, asked = as_of(known, sql), mentioned(known, sql)
    if seq is not None:
        out.print(f"As of record {seq + 1:,} of the log.")
    for name, view in asked.items():
        if seq is not None and view.seq is not None and seq < view.since:
            since = f"{name} begins with record {view.since + 2:,}: it has no answers as of then."
            out.print(Text(since, style="yellow"))
    for note in dict.fromkeys(view.note for view in asked.values() if view.note):
        out.print(Text(note, style="yellow"))


def write(known: Mapping[str, View], sql: str, path: Path, out: Console) -> None:
    """Write a query's result to a file, replacing a former one as a whole.

    Raises:
        ConfigError: neither Parquet nor CSV, the query is wrong, or the file cannot be written.
    """
    if path.suffix not in WRITERS:
        raise ConfigError(f"{path}: name a file that ends in {' or '.join(WRITERS)}.")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"{path.absolute().parent} is no folder. Make it first.")
    try:
        with TemporaryDirectory(prefix=f".{path.name}.", dir=path.absolute().parent) as room:
            fresh = Path(room) / path.name
            with answered(known, sql, Path(room)) as found:
                if path.suffix == ".csv":
                    found.write_csv(str(fresh), header=True)
                else:
                    found.write_parquet(str(fresh))
            fresh.replace(path)
    except OSError as wrong:
        raise ConfigError(
            f"{path} cannot be written: {wrong.strerror}. Name another file."
        ) from wrong
    out.print(Text(f"Written: {path}"), soft_wrap=True)


def show_views(pipeline: str, known: Mapping[str, View], out: Console) -> None:
    """Print what SQL can name."""
    head(f"{pipeline}: views for SQL", out)
    shown = table("view", "a row is", "columns")
    for name, view in known.items():
        columns = Text()
        for i, field in enumerate(view.schema):
            columns.append((", " if i else "") + field.name)
            columns.append(f" {_kind(field.type)}", style="dim")
        shown.add_row(Text(name, style="bold"), view.says, columns)
    put(shown, out)
    first = next(iter(known))
    example = f'penstock query {pipeline} "FROM {first} ORDER BY window_start"'
    out.print(f"Ask: {example}", soft_wrap=True)


def show_exported(pipeline: str, written: Sequence[Exported], out: Console) -> None:
    """Print which files were written."""
    shown = table("step", "answers", "file", right=("answers",))
    for one in written:
        shown.add_row(one.step, f"{one.answers:,}", Text(str(one.path)))
    put(shown, out)
    for seq in {one.seq for one in written if one.seq is not None}:
        out.print(f"As of record {seq + 1:,} of the log.")
    for one in written:
        if one.note:
            out.print(Text(one.note, style="yellow"))
    if not any(one.answers for one in written):
        out.print(f"There are no answers yet. Why: penstock show {pipeline}")


def _kind(kind: pa.DataType) -> str:
    return "timestamp" if pa.types.is_timestamp(kind) else str(kind)


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )
