"""Where every received record, and every (record, window) pair, has gone."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.step import StepSpec
from penstock.lake.history.position import SPEED, position
from penstock.lake.history.view import answers_at, late_at, preloaded
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class Balance:
    """Where every received record, and every (record, window) pair, has gone.

    ``received = accepted + quarantined`` and
    ``pairs = on_time + late + open + preloaded``; the audit recomputes ``pairs`` from events.
    """

    received: int
    accepted: int
    quarantined: int
    on_time: int
    late: int
    open: int
    preloaded: int

    @property
    def pairs(self) -> int:
        """All pairs accounted for."""
        return self.on_time + self.late + self.open + self.preloaded


def balance(tables: Tables, step: StepSpec) -> Balance | None:
    """The balance at the newest sealed position; none before there is one."""
    at = position(tables, step)
    if at is None:
        return None
    blocks = read_table(Table(tables.blocks()), where=pc.field("last_seq") <= at.sealed.seq)
    answers = answers_at(tables, step, at)
    late = late_at(tables, step, at, [])
    return Balance(
        received=at.sealed.seq + 1,
        accepted=_total(blocks["accepted"]),
        quarantined=_total(blocks["quarantined"]),
        on_time=_total(answers.filter(pc.equal(answers["reason"], SPEED))["n_records"]),
        late=_total(late["n_records"]),
        open=at.sealed.open_pairs,
        preloaded=_total(preloaded(answers, step)["n_records"]),
    )


def _total(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)
