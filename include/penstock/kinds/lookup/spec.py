"""The definition of a look-up: each record is compared with the last observations of its key."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from penstock.core.expression import Column, Expression, columns_of
from penstock.core.identity import column_form, expression_form
from penstock.core.measure import ColumnType
from penstock.core.side import SideJoin
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING

NEW, OLD = "new", "old"
EARLIER, LATER = "earlier", "later"
"""In a condition, besides: the same two records by (event time, ``arrival_seq``)."""
SEQS = tuple(Column(f"{side}_seq", ColumnType.LONG) for side in (NEW, OLD))
"""What an alarm is known by: the ``arrival_seq`` of the later and of the earlier record."""
TIMES = tuple(Column(f"{side}_time", ColumnType.TIMESTAMP) for side in (NEW, OLD))
APART = Column("apart", ColumnType.DOUBLE)
"""In a condition: seconds between the two event times."""


class Pairs(StrEnum):
    """Which observations of a key are compared."""

    ALL = "all"
    CONSECUTIVE = "consecutive"


@dataclass(frozen=True, slots=True)
class LookupSpec(StepSpec):
    """Pairs of observations of a key for which a condition holds.

    Attributes:
        keep: observations of a key that are kept, the last by (event time, ``arrival_seq``).
        pairs: all, or those with no other of their key between them.
        reach: longest time between the two, us; of consecutive pairs none.
        kept: columns of both that an alarm shows.
        alarm: the condition, over columns ``new.x``, ``old.x``, ``earlier.x``, ``later.x``, those
            of side data, and ``apart``.
        sides: rows of side data for a pair.
    """

    kind: ClassVar[str] = "lookup"
    by_key: ClassVar[bool] = True
    takes: ClassVar[bool] = True
    told_by: ClassVar[tuple[str, ...]] = (SEQS[0].name,)
    made_at: ClassVar[tuple[str, ...]] = tuple(column.name for column in TIMES)

    keep: int
    pairs: Pairs
    reach: int | None
    kept: tuple[Column, ...]
    alarm: Expression
    sides: tuple[SideJoin, ...] = ()

    @property
    def identity(self) -> tuple[Column, ...]:
        """Two positions in the log."""
        return (*self.keys, *SEQS)

    @property
    def values(self) -> tuple[Column, ...]:
        """Of both records the event time and what is kept."""
        shown = (Column(f"{side}_{c.name}", c.type) for side in (NEW, OLD) for c in self.kept)
        return (*TIMES, *shown)

    @property
    def reads(self) -> frozenset[str]:
        """What is kept, and what the condition asks for."""
        return frozenset(column.name for column in self.observed)

    @property
    def observed(self) -> tuple[Column, ...]:
        """Columns of an observation that the state holds, besides its keys."""
        return self.kept

    def open_after(self, watermark: int) -> int:
        """As far back as a record on time is compared: of neighbours, anywhere."""
        if self.reach is None:
            return BEGINNING
        return watermark - self.reach - self.window.size

    def compared(self, side: str) -> list[Column]:
        """Columns of one of the two records that the condition or its side data ask for."""
        asked = columns_of(self.alarm) | {column for join in self.sides for _, column in join.on}
        every = (*self.keys, *self.observed)
        return [column for column in every if f"{side}.{column.name}" in asked]

    @property
    def by_arrival(self) -> tuple[str, ...]:
        """Columns of the newer or the older record."""
        asked = sorted(columns_of(self.alarm))
        return tuple(name for name in asked if name.partition(".")[0] in {NEW, OLD})

    @property
    def looked_up(self) -> tuple[SideJoin, ...]:
        """For each pair."""
        return self.sides

    def canonical(self) -> dict[str, Any]:
        """What is kept of how many, and which pairs are alarms."""
        sides = [join.canonical() for join in self.sides]
        return ({"sides": sides} if sides else {}) | {
            "keep": self.keep,
            "pairs": self.pairs.value,
            "reach": self.reach,
            "kept": [column_form(column) for column in self.kept],
            "alarm": expression_form(self.alarm),
        }
