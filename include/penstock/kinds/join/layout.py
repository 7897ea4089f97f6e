"""How pairs lie in columns."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.kinds.join.spec import JoinSpec


@dataclass(frozen=True)
class PairLayout:
    """Columns of a pair; a late record is only its position."""

    step: JoinSpec

    @cached_property
    def fields(self) -> list[pa.Field]:
        """What ``late`` says of a record besides its keys and its position."""
        return []

    def finish(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        """The step's values of a table of pairs."""
        return {value.name: table[value.name] for value in self.step.values}


LAYOUT = PairLayout
