"""Schemas of a step's partials on their way from source to reducer to sink."""

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import ARROW
from penstock.core.measure import ColumnType
from penstock.core.step import StepSpec
from penstock.kinds.windowed.layout import Layout, layout_of


@dataclass(frozen=True)
class Wire:
    """Schemas of a step's tables on the way; instants as keys travel as whole microseconds."""

    step: StepSpec

    @cached_property
    def inner(self) -> StepSpec:
        """The step with key types that are the same wherever they are read."""
        keys = tuple(
            replace(k, type=ColumnType.LONG) if k.type is ColumnType.TIMESTAMP else k
            for k in self.step.keys
        )
        return replace(self.step, keys=keys)

    @cached_property
    def layout(self) -> Layout[StepSpec]:
        """Of the inner step."""
        return layout_of(self.inner)

    @cached_property
    def panes(self) -> pa.Schema:
        """A partials table as it comes from the source and lies in the state."""
        return self.layout.schema("pane", "closed")

    @cached_property
    def windows(self) -> pa.Schema:
        """A partials table as it leaves the reducer."""
        return self.layout.schema("window_start")

    def to_inner(self, partials: pa.Table) -> pa.Table:
        """Cast instants among the keys of a partials table."""
        for key in self.step.keys:
            if key.type is ColumnType.TIMESTAMP:
                at = partials.schema.get_field_index(key.name)
                values = pc.cast(partials[key.name], pa.int64())
                partials = partials.set_column(at, key.name, values)
        return partials

    def keys_of(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        """The key columns with their declared types."""
        return {k.name: pc.cast(table[k.name], ARROW[k.type]) for k in self.step.keys}
