"""A step's tables on the way: what all frames have in common."""

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import ARROW
from penstock.core.measure import ColumnType
from penstock.core.step import StepSpec

SHED = pa.field("shed", pa.int64())
"""Column of late rows: 1 for pairs that were shed, 0 for those that came too late."""


@dataclass(frozen=True)
class Way:
    """Instants as keys travel as whole microseconds: the same wherever they are read."""

    step: StepSpec

    @cached_property
    def inner(self) -> StepSpec:
        """The step with key types as they travel."""
        keys = tuple(
            replace(k, type=ColumnType.LONG) if k.type is ColumnType.TIMESTAMP else k
            for k in self.step.keys
        )
        return replace(self.step, keys=keys)

    def to_inner(self, table: pa.Table) -> pa.Table:
        """Cast instants among the keys of a table."""
        for key in self.step.keys:
            if key.type is ColumnType.TIMESTAMP:
                at = table.schema.get_field_index(key.name)
                values = pc.cast(table[key.name], pa.int64())
                table = table.set_column(at, key.name, values)
        return table

    def known_by(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        """The columns that results are known by, as far as there are any, as declared."""
        there = [c for c in self.step.identity if c.name in table.column_names]
        return {c.name: pc.cast(table[c.name], ARROW[c.type]) for c in there}
