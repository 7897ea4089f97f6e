"""Answers in force as a table in memory."""

from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa

from penstock.lake.history.reads import counted
from penstock.lake.history.unread import BY, Unread, named_if_damaged


def fetched(asked: Unread) -> pa.Table:
    """All rows of what is asked, by windows.

    Raises:
        DamagedTableError: a data file is not whole; names it.
    """
    parts = list(asked.parts.values())
    with TemporaryDirectory(prefix="penstock-fetch-") as folder, duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"SET temp_directory = '{folder}'")
        for name, rows in asked.parts.items():
            connection.register(name, rows)
        sql = asked.sql({name: name for name in asked.parts})
        with named_if_damaged(parts), counted([asked.read] if asked.read else []):
            return connection.sql(f"FROM ({sql}) ORDER BY {BY}").to_arrow_table()
