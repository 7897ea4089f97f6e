"""Which records a step takes of the log, for steps that count records and not pairs."""

import numpy as np

from penstock.columns.arrays import Longs
from penstock.columns.expressions import rows_where, rows_with
from penstock.core.expression import read_by
from penstock.core.step import StepSpec
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables


def taken(tables: Tables, step: StepSpec, first: int, last: int) -> Longs:
    """Positions in [first, last] of the records that a step takes, in order.

    Args:
        tables: of the pipeline.
        step: the step: it leaves out what its ``where`` does, and what lacks a key.
        first: where to begin.
        last: where to end.
    """
    known = {column.name: column.type for column in (*step.required, *read_by(step.where))}
    within = Spans("arrival_seq", ((first, last),))
    rows = read_table(
        Table(tables.events(known, step.streams)), ["arrival_seq", *known], within=within
    )
    required = [column.name for column in step.required]
    rows = rows_with(required, rows_where(step.where, rows))
    return np.sort(np.asarray(rows["arrival_seq"]))
