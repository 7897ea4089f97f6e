"""How answers of user code lie in columns."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.columns.types import fields_of
from penstock.kinds.custom.spec import CustomSpec


@dataclass(frozen=True)
class CustomLayout:
    """Columns of an answer; no record is ever late."""

    step: CustomSpec

    @cached_property
    def fields(self) -> list[pa.Field]:
        """Nothing is said of late records."""
        return []

    def finish(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        """The step's values of a table of answers."""
        return {value.name: table[value.name] for value in self.step.values}

    def answers(self) -> list[pa.Field]:
        """Of answers on their way, besides what they are known by."""
        return fields_of(self.step.values)


LAYOUT = CustomLayout
