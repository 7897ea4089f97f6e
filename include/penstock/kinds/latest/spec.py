"""The definition of a latest: of each key the newest record, told anew every so often."""

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.core.expression import Column
from penstock.core.identity import column_form
from penstock.core.measure import ColumnType
from penstock.core.step import StepSpec

WHEN = Column("event_time", ColumnType.TIMESTAMP)
WHICH = Column("arrival_seq", ColumnType.LONG)


@dataclass(frozen=True, slots=True)
class LatestSpec(StepSpec):
    """Per window and key the newest record, by (event time, ``arrival_seq``).

    Attributes:
        kept: columns of it that are answered.
    """

    kind: ClassVar[str] = "latest"
    sheds: ClassVar[bool] = True
    takes: ClassVar[bool] = True

    kept: tuple[Column, ...]

    @property
    def values(self) -> tuple[Column, ...]:
        """Its instant, its position in the log, and what is kept of it."""
        return (WHEN, WHICH, *self.kept)

    @property
    def is_taken(self) -> bool:
        """Of events: over answers it is told by positions in their log which is the newest."""
        return self.above is None

    @property
    def given(self) -> tuple[Column, ...]:
        """Without instant and position: who takes an answer has its own."""
        return (*self.keys, *self.kept)

    @property
    def reads(self) -> frozenset[str]:
        """What is kept."""
        return frozenset(column.name for column in self.kept)

    def canonical(self) -> dict[str, Any]:
        """What is kept."""
        return {"kept": [column_form(column) for column in self.kept]}
