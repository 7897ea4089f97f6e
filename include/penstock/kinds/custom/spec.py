"""The definition of a custom step: user code reduces all records of a key to a state."""

import hashlib
from dataclasses import dataclass, field
from typing import Any, ClassVar

from penstock.core.expression import Column
from penstock.core.identity import column_form
from penstock.core.measure import ColumnType
from penstock.core.side import SideJoin
from penstock.core.step import StepSpec

WHEN = Column("event_time", ColumnType.TIMESTAMP)
WHICH = Column("arrival_seq", ColumnType.LONG)


@dataclass(frozen=True, slots=True)
class Program:
    """User code: it travels as text, so that every worker runs the same.

    Attributes:
        name: of the class.
        text: of the file.
        path: of the file, for messages.
    """

    name: str
    text: str = field(repr=False)
    path: str = field(compare=False)

    @property
    def digest(self) -> str:
        """Names the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class CustomSpec(StepSpec):
    """Of each key a state, by user code; answered where a record changes what it says.

    Attributes:
        own: of the keys those that records bring; others are made by the code.
        read: columns that the code reads, besides event time, position and these.
        said: columns of its answers.
        program: the code.
        sides: rows of side data that its map gets beside each record.
        waits: whether what changed is told at the end of each span of the watermark, as long as its
            window, in place of at once.
    """

    kind: ClassVar[str] = "custom"
    by_key: ClassVar[bool] = True
    excludes: ClassVar[bool] = True
    told_by: ClassVar[tuple[str, ...]] = (WHICH.name,)

    own: tuple[Column, ...]
    read: tuple[Column, ...]
    said: tuple[Column, ...]
    program: Program
    sides: tuple[SideJoin, ...] = ()
    waits: bool = False

    @property
    def by_span(self) -> bool:
        """As it was asked for."""
        return self.waits

    @property
    def looked_up(self) -> tuple[SideJoin, ...]:
        """What stands beside its records."""
        return self.sides

    @property
    def required(self) -> tuple[Column, ...]:
        """Keys that records bring."""
        return self.own

    @property
    def identity(self) -> tuple[Column, ...]:
        """Keys, and the record that changed what is said of them."""
        return (*self.keys, WHICH)

    @property
    def values(self) -> tuple[Column, ...]:
        """The record's event time, and what is said since."""
        return (WHEN, *self.said)

    @property
    def reads(self) -> frozenset[str]:
        """What the code reads."""
        return frozenset(column.name for column in self.read)

    def canonical(self) -> dict[str, Any]:
        """The text of the code, which class it is, what it reads and says."""
        sides = [join.canonical() for join in self.sides]
        every = {"every": self.window.size} if self.waits else {}
        return (
            ({"sides": sides} if sides else {})
            | every
            | {
                "code": [self.program.name, self.program.digest],
                "own": [column.name for column in self.own],
                "read": sorted(column_form(column) for column in self.read),
                "said": [column_form(column) for column in self.said],
            }
        )
