"""Map: records to observations."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.expressions import rows_where, rows_with
from penstock.columns.groups import hash_keys
from penstock.columns.marks import Marks
from penstock.kinds.classes import Classes
from penstock.kinds.frame import NONE_EXCLUDED
from penstock.kinds.keyed.kept import NEVER
from penstock.kinds.keyed.runs import HASH, SEQ, TIME
from penstock.kinds.lookup.spec import LookupSpec
from penstock.kinds.lookup.trimmed import DROPPED
from penstock.kinds.lookup.wire import Wire
from penstock.kinds.side import Sides

READ = ("arrival_seq", "event_time")


def columns_of(step: LookupSpec) -> list[str]:
    """Columns of ``events`` the mapper reads."""
    return [*READ, *step.columns]


def observed(step: LookupSpec, events: pa.Table) -> pa.Table:
    """Records as observations; without those that the step leaves out, or that lack a key.

    Args:
        step: the look-up.
        events: the columns of ``columns_of``.
    """
    wire = Wire(step)
    events = wire.to_inner(rows_with(step.key_names, rows_where(step.where, events)))
    columns = {
        HASH: hash_keys(events, step.key_names),
        TIME: pc.cast(events["event_time"], pa.int64()),
        SEQ: events["arrival_seq"],
        DROPPED: np.full(events.num_rows, NEVER),
    }
    whole = {name: columns[name] if name in columns else events[name] for name in wire.parts.names}
    return pa.table(whole).cast(wire.parts)


class Mapper:
    """One step's observations in some records."""

    excluded = NONE_EXCLUDED

    def __init__(self, step: LookupSpec, marks: Marks, seed: int | None, sides: Sides) -> None:
        del sides  # the state is told what a pair means, and tells what is late
        self.step, self.marks, self.seed, self.classes = step, marks, seed, Classes()
        self.mapped = [Wire(step).parts.empty_table()]

    def take(self, records: pa.Table) -> None:
        """Add records; to rebuild a state without those that were left to the correction."""
        mapped = observed(self.step, records.select(columns_of(self.step)))
        if self.seed is not None:
            mapped = mapped.filter(pa.array(~self.marks.is_shed(np.asarray(mapped[SEQ]))))
        self.mapped.append(mapped)

    def parts(self) -> pa.Table:
        """All of them."""
        return pa.concat_tables(self.mapped)
