"""Answers in force as a table in memory."""

import pyarrow as pa

from penstock.lake.history.unread import BY, Unread, asking, counting


def fetched(asked: Unread) -> pa.Table:
    """All rows of what is asked, by windows.

    Raises:
        DamagedTableError: a data file is not whole; names it.
    """
    sql = asked.sql({name: name for name in asked.parts})
    with asking(asked.parts) as connection, counting([asked]):
        return connection.sql(f"FROM ({sql}) ORDER BY {BY}").to_arrow_table()
