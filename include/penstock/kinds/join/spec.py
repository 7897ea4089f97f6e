"""The definition of a join: pairs of records that lie near in time, and fit."""

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.core.expression import Column, Expression
from penstock.core.identity import column_form, expression_form
from penstock.core.measure import ColumnType
from penstock.core.side import Declared, SideTable
from penstock.core.step import StepSpec
from penstock.core.window import MILLISECOND

LEFT, RIGHT = "left", "right"
SEQS = tuple(Column(f"{side}_seq", ColumnType.LONG) for side in (LEFT, RIGHT))
"""What a pair is known by: the ``arrival_seq`` of both records."""
TIMES = tuple(Column(f"{side}_time", ColumnType.TIMESTAMP) for side in (LEFT, RIGHT))
QUERIES = Column("queries", ColumnType.STRING)
"""Of a pair: names of the queries that it satisfies, in order, with commas between."""
FINE = 16
"""So many spans of the watermark, at least, are as long as a join reaches."""
SPANS = tuple(MILLISECOND * each for each in (1, 10, 100, 1_000, 10_000, 60_000, 600_000))
"""Lengths that they may have, us."""
TARGETED = (*SPANS, 3_600_000_000, 86_400_000_000)
"""The same of a join with a quality target."""
USUAL = SPANS[3]
LONGEST_MONTH = 31 * 86_400_000_000
"""us."""


@dataclass(frozen=True, slots=True)
class Shift:
    """How much earlier than a left record its right ones lie.

    Attributes:
        months: of the calendar, UTC; from the 31st it is the last day of a shorter month.
        span: besides, us.
    """

    months: int = 0
    span: int = 0


def span_of(reach: int, *, targeted: bool = False) -> int:
    """How far the watermark moves before a join looks at it again, us.

    Args:
        reach: of the join, us.
        targeted: its spans are the windows that a quality target binds. Partners lie in others, and
            one late record lacks all of the lefts that it is near to: so they are about as long as
            the join reaches.
    """
    spans, fine = (TARGETED, 1) if targeted else (SPANS, FINE)
    fit = [span for span in spans if span * fine <= reach]
    return max(fit, default=SPANS[0]) if reach else USUAL


@dataclass(frozen=True, slots=True)
class JoinSpec(StepSpec):
    """Pairs of a left and a right record: equal keys, near in time, and the condition holds.

    Attributes:
        shift: from a left record's event time back to where its right ones lie.
        before, after: how far from there a right one may lie, us.
        condition: over columns ``left.x`` and ``right.x``; none: all pairs.
        selected: columns of the two that a pair shows, by side.
        observed: columns of a record that the state holds, besides its keys.
        queries: names and conditions as the file has them now; not part of the definition. Where
            there are any, a pair satisfies one that is in force where its later record stands.
    """

    kind: ClassVar[str] = "join"
    sheds: ClassVar[bool] = True
    by_key: ClassVar[bool] = True
    by_reach: ClassVar[bool] = True
    takes: ClassVar[bool] = True
    told_by: ClassVar[tuple[str, ...]] = tuple(column.name for column in SEQS)
    made_at: ClassVar[tuple[str, ...]] = tuple(column.name for column in TIMES)

    shift: Shift
    before: int
    after: int
    condition: Expression | None
    selected: tuple[tuple[str, Column], ...]
    observed: tuple[Column, ...]
    queries: tuple[tuple[str, str], ...] = ()

    @property
    def identity(self) -> tuple[Column, ...]:
        """Two positions in the log."""
        return (*self.keys, *SEQS)

    @property
    def required(self) -> tuple[Column, ...]:
        """None: a record that lacks a key has no partner, which is no fault of it."""
        return ()

    @property
    def values(self) -> tuple[Column, ...]:
        """Of both records the event time and what is selected."""
        shown = (Column(f"{side}_{c.name}", c.type) for side, c in self.selected)
        return (*TIMES, *shown, *([QUERIES] if self.queries else []))

    def open_after(self, watermark: int) -> int:
        """As far back as partners of records on time may lie, or farther."""
        return watermark - self.lag - self.lead - self.window.size

    @property
    def lag(self) -> int:
        """As far as a left record may lie behind a right one."""
        return self.before + self.shift.months * LONGEST_MONTH + self.shift.span

    @property
    def lead(self) -> int:
        """As far as a right record may lie behind a left one."""
        return self.after

    @property
    def reads(self) -> frozenset[str]:
        """Keys, and what is compared or shown."""
        return frozenset(column.name for column in (*self.keys, *self.observed))

    @property
    def asked(self) -> SideTable:
        """The table of its queries, in the lake."""
        columns = tuple(Column(name, ColumnType.STRING) for name in ("name", "condition"))
        return SideTable(f"{self.id}.queries", columns, ("name",))

    @property
    def declares(self) -> tuple[Declared, ...]:
        """Its queries."""
        return (Declared(self.asked, self.queries),) if self.queries else ()

    def canonical(self) -> dict[str, Any]:
        """How near, where, and which pairs."""
        return ({"queries": True} if self.queries else {}) | {
            "shift": [self.shift.months, self.shift.span],
            "within": [self.before, self.after],
            "condition": None if self.condition is None else expression_form(self.condition),
            "selected": [[side, *column_form(column)] for side, column in self.selected],
        }
