"""Schemas of a join's records, late records and pairs on their way."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.columns.types import fields_of
from penstock.kinds.join.spec import SEQS, JoinSpec
from penstock.kinds.keyed.runs import HASH, SEQ, TIME
from penstock.kinds.keyed.wire import KeyedWay, whole

ROLES = "roles"
AS_LEFT, AS_RIGHT, AT_HOME = 1, 2, 4
"""What a record is in a cell, summed: a left one, a right one, and whether it is counted there. One
that is shed is neither left nor right: no other meets it."""


@dataclass(frozen=True)
class Wire(KeyedWay):
    """Records as runs hold them, then what came of them."""

    step: JoinSpec

    @cached_property
    def parts(self) -> pa.Schema:
        """Records: hash of the keys, keys, event time (us), position, roles, and their columns."""
        keys, observed = fields_of(self.inner.keys), fields_of(self.step.observed)
        return pa.schema([*whole(HASH), *keys, *whole(TIME, SEQ, ROLES), *observed])

    @cached_property
    def answers(self) -> pa.Schema:
        """Pairs by the span of the left record (us)."""
        own = whole(*(column.name for column in SEQS), "window_start", "n_records", "last_seq")
        return pa.schema([*fields_of(self.inner.keys), *own, *self.layout.answers()])
