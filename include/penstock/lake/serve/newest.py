"""What a step said last of its keys, whatever its windows: for a look at alarms and changes."""

import pyarrow as pa

from penstock.lake.history.standing import Standing
from penstock.lake.history.unread import answers, asking, pair, quoted
from penstock.lake.storage.tables import Tables


def newest_said(tables: Tables, shown: Standing, told_by: str, limit: int) -> pa.Table:
    """The newest answers, the newest first; of each the last revision, taken back ones too.

    Newest is what was said as of the latest record; of what was said as of the same one, as the
    alarms of a history are, what concerns the later record. Two reads: of two columns, then of the
    rows that count, as far as statistics of files tell.

    Args:
        tables: of the pipeline.
        shown: the step, and its position.
        told_by: the column of its answers that holds the position of the record that made one.
        limit: at most so many.

    Raises:
        DamagedTableError: a data file is not whole; names it.
    """
    step, made = shown.step, quoted(told_by)
    order = f"through_seq DESC, {made} DESC"
    with asking({"answer": answers(tables, step, shown.at)}) as connection:
        last = connection.sql(
            f"SELECT through_seq, {made} FROM answer ORDER BY {order} LIMIT {limit}"  # noqa: S608
        ).fetchall()
        seq, told = last[-1] if last else (0, 0)
        return connection.sql(
            f"FROM answer WHERE through_seq > {seq} OR (through_seq = {seq} AND {made} >= {told})"
            f" QUALIFY row_number() OVER (PARTITION BY {pair(step)}"
            " ORDER BY through_seq DESC, revision DESC) = 1"
            f" ORDER BY {order}, {pair(step)} LIMIT {limit}"
        ).to_arrow_table()
