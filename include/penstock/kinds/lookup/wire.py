"""Schemas of a look-up's records, late records and alarms on their way."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.columns.types import fields_of
from penstock.kinds.keyed.runs import HASH, SEQ, TIME
from penstock.kinds.keyed.wire import KeyedWay, whole
from penstock.kinds.lookup.spec import SEQS, LookupSpec
from penstock.kinds.lookup.trimmed import DROPPED


@dataclass(frozen=True)
class Wire(KeyedWay):
    """Records as runs hold them, then what came of them."""

    step: LookupSpec

    @cached_property
    def parts(self) -> pa.Schema:
        """Records: hash of the keys, keys, event time (us), position, and what is observed."""
        keys, observed = fields_of(self.inner.keys), fields_of(self.step.observed)
        own = whole(TIME, SEQ, DROPPED)
        return pa.schema([*whole(HASH), *keys, *own, *observed])

    @cached_property
    def answers(self) -> pa.Schema:
        """Alarms by the window of the later record (us)."""
        own = whole(*(column.name for column in SEQS), "window_start", "n_records", "last_seq")
        return pa.schema([*fields_of(self.inner.keys), *own, *self.layout.answers()])
