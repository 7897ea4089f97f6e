"""Corrections of steps whose answers hang on all records of their key: keys are asked for."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.groups import hash_keys
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.kinds.frame import Asked, frame_of
from penstock.lake.history.plans import CorrectionPlan
from penstock.lake.history.position import BACKFILL, Position
from penstock.lake.history.view import answers_at, newest
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables
from penstock.spark.chunked import Chunk, on_the_way, without
from penstock.spark.prefix import Prefix


class ByKey:
    """The keys that late records touched, or all; an answer may also be taken back."""

    unchanged = False

    def __init__(self, prefix: Prefix, tables: Tables, step: StepSpec) -> None:
        self.prefix, self.tables, self.step = prefix, tables, step
        self.wire = frame_of(step).wire(step)

    def chunks(self, plan: CorrectionPlan, touched: pa.Table | None) -> Sequence[Chunk]:
        """One: what late records changed lies anywhere."""
        low, high = (plan.since, plan.until) if touched is None else (None, None)
        ends = (BEGINNING if low is None else low, FOREVER if high is None else high)
        return [Chunk(*ends, touched)]

    def again(
        self, plan: CorrectionPlan, chunk: Chunk, at: Position | None
    ) -> tuple[pa.Table, pa.Table | None]:
        """As ``Chunked`` says, with answers of no records in place of those that are no more."""
        keys = None
        if chunk.wanted is not None and self.step.keys:
            keys = np.unique(self._hashes(chunk.wanted))
        asked = Asked(*chunk.ends, None, plan.watermark, plan.after_seq, plan.answered)
        found = self.prefix.answers(plan, asked, None, keys)
        known = self._known(plan, at, chunk, keys)
        return self._taken_back(found, known), known

    def _known(
        self, plan: CorrectionPlan, at: Position | None, chunk: Chunk, keys: Longs | None
    ) -> pa.Table:
        """The answers in force of some keys, as far as the plan's position has them.

        Of a history that is what its base has answered.
        """
        inside = Spans("window_start", ((chunk.low, chunk.high - 1),))
        if at is None:
            answers = Table(self.tables.answers(self.step))
            rows = read_table(answers, where=pc.field("plan") == plan.base, within=inside)
            rows = rows.filter(pc.field("reason") == BACKFILL)
        else:
            rows = answers_at(self.tables, self.step, at.up_to(plan.through_seq), inside)
            rows = without(rows, plan)
        if keys is not None:
            rows = rows.filter(pa.array(np.isin(self._hashes(rows), keys)))
        return newest(rows, self.step)

    def _taken_back(self, found: pa.Table, known: pa.Table) -> pa.Table:
        names = ["window_start", *self.step.identity_names]
        known = on_the_way(self.wire, known.filter(pc.greater(known["n_records"], 0)))
        none = pa.repeat(pa.scalar(0, pa.int64()), known.num_rows)
        gone = known.set_column(known.schema.get_field_index("n_records"), "n_records", none)
        gone = gone.append_column("last_seq", gone["through_seq"])
        gone = gone.join(found.select(names), names, join_type="left anti")
        return pa.concat_tables([found, gone.select(found.column_names).cast(found.schema)])

    def _hashes(self, rows: pa.Table) -> Longs:
        """Of the keys, as they travel."""
        return hash_keys(self.wire.to_inner(rows), self.step.key_names)
