"""What a step said last of its keys, whatever its windows: for a look at alarms and changes."""

from collections.abc import Iterable

import pyarrow as pa

from penstock.lake.history.position import BACKFILL, SPEED
from penstock.lake.history.standing import Standing
from penstock.lake.history.unread import answers, asking, pair, quoted
from penstock.lake.storage.definition import Definition
from penstock.lake.storage.tables import Tables

AT_ONCE, HISTORY, AGAIN, GONE = "at once", "of the history", "by a correction", "taken back"
"""How something was said last."""
HOW = f"""CASE WHEN n_records = 0 THEN '{GONE}' WHEN reason = '{SPEED}' THEN '{AT_ONCE}'
    WHEN reason = '{BACKFILL}' THEN '{HISTORY}' ELSE '{AGAIN}' END"""
"""The same in SQL, of the last revision of an answer."""


def newest_said(tables: Tables, shown: Standing, told_by: Iterable[str], limit: int) -> pa.Table:
    """The newest answers, the newest first; of each the last revision, taken back ones too.

    Newest is what was said as of the latest record; of what was said as of the same one, as the
    alarms of a history are, what concerns the later record. Two reads: of two columns, then of the
    rows that count, as far as statistics of files tell.

    Args:
        tables: of the pipeline.
        shown: the step, and its position.
        told_by: columns of its answers; the greatest is the position of the record that made one.
        limit: at most so many.

    Raises:
        DamagedTableError: a data file is not whole; names it.
    """
    step, made = shown.step, f"greatest({', '.join(map(quoted, told_by))})"
    order = f"through_seq DESC, {made} DESC"
    with asking({"answer": answers(tables, step, shown.at)}) as connection:
        last = connection.sql(
            f"SELECT through_seq, {made} FROM answer ORDER BY {order} LIMIT {limit}"  # noqa: S608
        ).fetchall()
        seq, told = last[-1] if last else (0, 0)
        return connection.sql(
            f"SELECT *, {HOW} AS how FROM answer WHERE"  # noqa: S608
            f" through_seq > {seq} OR (through_seq = {seq} AND {made} >= {told})"
            f" QUALIFY {_last(step)} ORDER BY {order}, {pair(step)} LIMIT {limit}"
        ).to_arrow_table()


def said_over_time(tables: Tables, shown: Standing) -> pa.Table:
    """How many answers were said last in which way: ``window_start``, ``how``, ``n``.

    Raises:
        DamagedTableError: a data file is not whole; names it.
    """
    with asking({"answer": answers(tables, shown.step, shown.at)}) as connection:
        return connection.sql(
            f"WITH last AS (SELECT window_start, {HOW} AS how FROM answer"  # noqa: S608
            f" QUALIFY {_last(shown.step)})"
            " SELECT window_start, how, count(*) AS n FROM last GROUP BY ALL ORDER BY ALL"
        ).to_arrow_table()


def _last(step: Definition) -> str:
    """SQL: whether a row is the last revision of its answer."""
    by = "ORDER BY through_seq DESC, revision DESC"
    return f"row_number() OVER (PARTITION BY {pair(step)} {by}) = 1"
