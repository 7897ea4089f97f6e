"""SQL over a pipeline's answers with DuckDB, without a JVM: one view per step, and the log.

All that one statement mentions is as of the same record: the last one that every mentioned view
has. A step that has sealed nothing has no part in that.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow.dataset as ds

from penstock.core.errors import ConfigError
from penstock.lake.history.unread import Unread, counting, named_if_damaged, quoted
from penstock.lake.serve.views import Content, View

ASKS = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.MULTI}
"""What a query may be: DESCRIBE, SHOW and VALUES count as SELECT, a PIVOT is several at once."""


def mentioned(known: Mapping[str, View], sql: str) -> dict[str, View]:
    """The views whose names stand in a statement."""
    words = {word.casefold() for word in re.findall(r"\w+", sql)}
    return {name: view for name, view in known.items() if name.casefold() in words}


def as_of(known: Mapping[str, View], sql: str) -> int | None:
    """The record that all views a statement mentions are as of; none: it mentions none with any."""
    return min((v.seq for v in mentioned(known, sql).values() if v.seq is not None), default=None)


@contextmanager
def answered(
    known: Mapping[str, View], sql: str, room: Path | None = None
) -> Iterator[duckdb.DuckDBPyRelation]:
    """The result of a query, open inside the ``with``.

    Args:
        known: views by name; only those that the text mentions are read.
        sql: one statement that gives rows; it reaches the views and nothing else.
        room: the one folder DuckDB may write to, as when the result is to be a file.

    Raises:
        ConfigError: DuckDB refuses it; says why and which views there are.
        DamagedTableError: a data file that it reads is not whole; names it.
    """
    seq, read, contents = as_of(known, sql), list[ds.Dataset](), list[Content]()
    with _shut_in(room) as connection:
        try:
            _require_question(connection, sql)
            with named_if_damaged(read):
                for name, view in mentioned(known, sql).items():
                    contents.append(view.content(seq))
                    read += _register(connection, name, contents[-1])
                with counting(contents):
                    yield connection.sql(sql)
        except duckdb.PermissionException as refused:
            raise ConfigError(
                "a query reaches the views and nothing else: no files, no network, no extensions."
                f" Views: {', '.join(known)}. To write a file: --output FILE.parquet"
            ) from refused
        except duckdb.Error as wrong:
            said = str(wrong).split('\nDid you mean "pg_')[0].strip()
            raise ConfigError(f"{said}\nViews: {', '.join(known)}.") from wrong


def _register(
    connection: duckdb.DuckDBPyConnection, name: str, content: Content
) -> Iterator[ds.Dataset]:
    """Make a view known; gives what it will read."""
    if not isinstance(content, Unread):
        connection.register(name, content)
        if isinstance(content, ds.Dataset):
            yield content
        return
    names = {part: f"{part} of {name}" for part in content.parts}
    for part, rows in content.parts.items():
        connection.register(names[part], rows)
    connection.execute(f"CREATE VIEW {quoted(name)} AS {content.sql(names)}")
    yield from content.parts.values()


@contextmanager
def _shut_in(room: Path | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that reaches what is registered, and one folder for what memory cannot hold.

    Not ``:memory:``: DuckDB lets SQL at its own database's files, which then would lie in the
    folder the command was called in.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-query-") as folder:
        settings = {
            "enable_external_access": "false",
            "python_enable_replacements": "false",  # no variable of this process
            "allow_persistent_secrets": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": str(room or folder),
        }
        with duckdb.connect(Path(folder) / "views.duckdb", config=settings) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET lock_configuration = true")
            yield connection


def _require_question(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    kinds = [statement.type for statement in connection.extract_statements(sql)]
    if len(kinds) != 1 or kinds[0] not in ASKS:
        raise ConfigError("a query is one statement that gives rows. Write a SELECT.")
