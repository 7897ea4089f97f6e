"""Reduce: each record goes into the state of its key."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.columns.marks import Marks
from penstock.kinds.classes import Classes
from penstock.kinds.custom.changes import changes, merged
from penstock.kinds.custom.spec import CustomSpec
from penstock.kinds.custom.wire import COUNTED, REDUCED, SPAN, Wire
from penstock.kinds.frame import Advance, Reduced, State, Stays, unmoved
from penstock.kinds.keyed.runs import HASH, Manifest
from penstock.kinds.keyed.state import KeyedState
from penstock.kinds.side import Sides

WAITING = (0, 1)
"""Where Spark's state says which records wait for the end of their span."""


class Reducer:
    """A custom step's state, one shard at a time."""

    def __init__(self, step: CustomSpec, state: State, folder: Path, sides: Sides) -> None:
        del sides
        self.wire = Wire(step)
        self.merged = partial(merged, self.wire)
        self.state = KeyedState(state, folder, self.merged)
        self.waiting = KeyedState(state, folder, self._by_span, WAITING)

    def _by_span(self, rows: pa.Table) -> pa.Table:
        return merged(self.wire, rows, SPAN)

    def reduce(self, advance: Advance, parts: pa.Table, seed: pa.Table) -> Reduced:
        """Say what records of the spans that end change, and keep their states; others wait.

        Args:
            advance: of the micro-batch.
            parts: states of its records.
            seed: of the records before its generation.
        """
        told, waits = self._parted(seed, advance.since)
        kept, waiting = self.state.begun(advance, told), Manifest()
        if self.wire.step.by_span:
            waiting = self.waiting.opened(advance, waits)
        if self.wire.spans.moves(advance.since, advance.watermark):
            before = self.waiting.runs.rows(waiting, self.wire.parts)
            told, waits = self._parted(pa.concat_tables([before, parts]), advance.watermark)
            waiting = self.waiting.runs.emptied(waiting, advance.number)
        else:
            told, waits = self._parted(parts, advance.since)
        answers = self._told(kept, told, advance.marks)
        held = self.state.add(advance, kept, told).rows
        if self.wire.step.by_span:
            held += self.waiting.add(advance, waiting, waits).rows
        records = int(np.asarray(parts[COUNTED]).sum())
        classes = Classes()
        classes.count(records, np.empty(0, np.int64), 0)
        return Reduced(self.wire.late.empty_table(), answers, 0, 0, records, classes, kept=held)

    def give(self, advance: Advance, stays: Stays) -> tuple[pa.Table, Reduced]:
        """Keep no more what belongs to another shard from now on."""
        states = [self.state, *([self.waiting] if self.wire.step.by_span else [])]
        given = [state.give(advance, self.wire.parts, stays) for state in states]
        moved = pa.concat_tables([rows for rows, _ in given])
        return moved, unmoved(self.wire, 0, sum(held for _, held in given))

    def _told(self, kept: Manifest, told: pa.Table, marks: Marks) -> pa.Table:
        hashes = np.unique(np.asarray(told[HASH]))
        before = self.merged(self.state.found(kept, hashes, self.wire.parts))
        return changes(self.wire, before, told, marks)

    def _parted(self, rows: pa.Table, watermark: int) -> tuple[pa.Table, pa.Table]:
        """Rows of spans that have ended, and of others; what stands for no record has."""
        spans, reduced = np.asarray(rows[SPAN]), np.asarray(rows[REDUCED])
        ended = self.wire.spans.ended(spans, watermark) | (reduced == 0)
        return rows.filter(pa.array(ended)), rows.filter(pa.array(~ended))
