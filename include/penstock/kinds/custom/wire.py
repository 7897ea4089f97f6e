"""Schemas of a custom step's states and answers on their way."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.columns.types import fields_of
from penstock.kinds.custom.calls import Calls
from penstock.kinds.custom.spans import WatermarkSpans
from penstock.kinds.custom.spec import WHICH, CustomSpec
from penstock.kinds.keyed.runs import HASH, SEQ, TIME
from penstock.kinds.keyed.wire import KeyedWay, whole

REDUCED, COUNTED, SPAN = "n_records", "counted", "span"
STATE = "state$"


@dataclass(frozen=True)
class Wire(KeyedWay):
    """States as runs hold them, then what is said of them."""

    step: CustomSpec

    @cached_property
    def calls(self) -> Calls:
        """The code."""
        return Calls(self.step)

    @cached_property
    def spans(self) -> WatermarkSpans:
        """When what it says is told."""
        return WatermarkSpans(self.step.window, self.step.waits)

    @cached_property
    def parts(self) -> pa.Schema:
        """States: hash of the keys, keys, event time (us) and position of the last record.

        Then how many records of the key it is reduced from, how many records of the log are counted
        with it, the span in which it came, and the state.
        """
        state = [field.with_name(f"{STATE}{field.name}") for field in self.calls.state]
        own = whole(TIME, SEQ, REDUCED, COUNTED, SPAN)
        return pa.schema([*whole(HASH), *fields_of(self.inner.keys), *own, *state])

    @cached_property
    def answers(self) -> pa.Schema:
        """Answers by the window of the record that changed them (us)."""
        own = whole(WHICH.name, "window_start", "n_records", "last_seq")
        return pa.schema([*fields_of(self.inner.keys), *own, *self.layout.answers()])

    def states(self, rows: pa.Table) -> pa.Table:
        """Of rows the states, as the code knows them."""
        names = self.calls.state.names
        return rows.select([f"{STATE}{name}" for name in names]).rename_columns(names)

    def with_states(self, rows: pa.Table, states: pa.Table) -> pa.Table:
        """Rows with other states."""
        for field in self.calls.state:
            at = rows.schema.get_field_index(f"{STATE}{field.name}")
            rows = rows.set_column(at, rows.schema.field(at), states[field.name])
        return rows
