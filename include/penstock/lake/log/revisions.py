"""Answers of a step as records of a log: of those that were revised only the newest counts.

An answer is known by the end of its window, which its event time tells, and its keys.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import decoded
from penstock.core.step import Above
from penstock.lake.log.blocks import REVISION
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table

NEWEST, ROW = "newest$", "row$"
"""No column of a user has such names."""


def known_by(above: Above) -> list[str]:
    """Columns that tell an answer from all others."""
    return ["event_time", *above.keys]


def revisions(events: Table, above: Above, through: int) -> pa.Table:
    """What was revised up to a position, and the newest revision of it (``newest$``)."""
    by = known_by(above)
    within = Spans("arrival_seq", ((0, through),))
    rows = read_table(events, [*by, "arrival_seq"], pc.field("origin") == REVISION, within)
    found = rows.group_by(by).aggregate([("arrival_seq", "max")])
    return found.rename_columns([*by, NEWEST])


def newest_of(records: pa.Table, revised: pa.Table, above: Above) -> pa.Table:
    """Records without those that were revised later.

    Args:
        records: with what tells them, and their positions.
        revised: as ``revisions`` gives it.
        above: whose answers they are.
    """
    if not revised.num_rows:
        return records
    by = known_by(above)
    rows = decoded(records.select([*by, "arrival_seq"]))
    rows = rows.append_column(ROW, pa.array(np.arange(rows.num_rows)))  # a join carries no lists
    rows = rows.cast(pa.schema([revised.schema.field(n) if n in by else rows.schema.field(n)
                                for n in rows.column_names]))  # fmt: skip
    both = rows.join(revised, by, join_type="left outer")
    stays = both.filter(pc.less_equal(pc.fill_null(both[NEWEST], -1), both["arrival_seq"]))
    return records.take(stays[ROW].sort())
