"""Where every received record, and every (record, window) pair, has gone."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.step import STREAM, StepSpec
from penstock.lake.history.position import Position, position
from penstock.lake.history.taken import taken
from penstock.lake.history.view import excluded_since, preloaded
from penstock.lake.log.blocks import accepted_upto
from penstock.lake.log.freezes import frozen
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class Balance:
    """Where every received record, and every (record, window) pair, has gone.

    ``received = accepted + quarantined`` and
    ``pairs = on_time + late + shed + open + preloaded + excluded``; the audit recomputes ``pairs``
    from events, and the totals from what stands in the tables.
    """

    received: int
    accepted: int
    quarantined: int
    on_time: int
    late: int
    shed: int
    open: int
    preloaded: int
    excluded: int

    @property
    def pairs(self) -> int:
        """All pairs accounted for."""
        missed = self.late + self.shed
        return self.on_time + missed + self.open + self.preloaded + self.excluded


def balance(tables: Tables, step: StepSpec) -> Balance | None:
    """The balance at the newest sealed position; none before there is one."""
    at = position(tables, step)
    return None if at is None else balance_at(tables, step, at)


def balance_at(tables: Tables, step: StepSpec, at: Position) -> Balance:
    """The balance at a sealed position.

    ``blocks`` and ``control`` carry running totals: only what the history was answered with is
    added up.
    """
    accepted, received = accepted_upto(tables, at.sealed.seq), at.sealed.seq + 1
    return Balance(
        received=received,
        accepted=accepted,
        quarantined=received - accepted,
        on_time=sum(last.answered for last in at.lasts),
        late=sum(last.late - last.shed for last in at.lasts),
        shed=sum(last.shed for last in at.lasts),
        open=at.sealed.open_pairs,
        preloaded=_preloaded(tables, step, at),
        excluded=excluded_since(tables, step, at).num_rows,
    )


def by_stream(tables: Tables, seq: int) -> dict[str, tuple[int, int]]:
    """Records accepted and refused up to the end of a block, by stream, where there are several."""
    gone, names = frozen(tables), [STREAM, "accepted", "quarantined"]
    within = Spans("last_seq", ((gone.seq + 1, seq),))
    rows = read_table(Table(tables.blocks()), names, pc.field(STREAM).is_valid(), within)
    past = [
        {STREAM: one.stream, "accepted": one.accepted, "quarantined": one.refused}
        for one in gone.streams
    ]
    rows = pa.concat_tables([rows, pa.Table.from_pylist(past, schema=rows.schema)])
    sums = rows.group_by(STREAM).aggregate([(name, "sum") for name in names[1:]])
    found = sums.sort_by(STREAM).to_pylist()
    return {row[STREAM]: (row["accepted_sum"], row["quarantined_sum"]) for row in found}


def _preloaded(tables: Tables, step: StepSpec, at: Position) -> int:
    """Pairs of the history before the epoch: the last answer of each window counts, or records."""
    if at.epoch.seq < 0:
        return 0
    if step.by_key:
        known = frozen(tables).counted(step, at.epoch.number).get("pairs_preloaded")
        first = at.epoch.frozen + 1
        return len(taken(tables, step, first, at.epoch.seq)) if known is None else known
    rows = preloaded(tables, step, at, ["n_records"])
    return pc.sum(rows["n_records"]).as_py() or 0
