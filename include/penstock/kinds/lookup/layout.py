"""How alarms lie in columns."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.columns.types import fields_of
from penstock.kinds.lookup.spec import LookupSpec


@dataclass(frozen=True)
class AlarmLayout:
    """Columns of an alarm; a late record is only its position."""

    step: LookupSpec

    @cached_property
    def fields(self) -> list[pa.Field]:
        """What ``late`` says of a record besides its keys and its position."""
        return []

    def finish(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        """The step's values of a table of alarms."""
        return {value.name: table[value.name] for value in self.step.values}

    def alarms(self) -> list[pa.Field]:
        """Of alarms on their way, besides what they are known by."""
        return fields_of(self.step.values)


LAYOUT = AlarmLayout
