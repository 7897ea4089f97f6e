"""How answers lie in columns, of kinds whose answers are made as they are told."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.columns.types import fields_of
from penstock.core.step import StepSpec


@dataclass(frozen=True)
class KeyedLayout:
    """Columns of an answer; a late record, where there are any, is only its position."""

    step: StepSpec

    @cached_property
    def fields(self) -> list[pa.Field]:
        """What ``late`` says of a record besides its keys and its position."""
        return []

    def finish(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        """The step's values of a table of answers."""
        return {value.name: table[value.name] for value in self.step.values}

    def answers(self) -> list[pa.Field]:
        """Of answers on their way, besides what they are known by."""
        return fields_of(self.step.values)
