"""A step: what a pipeline answers, window by window and key by key, over its events."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from penstock.core import identity
from penstock.core.errors import PenstockError, TerminalError, TransientError
from penstock.core.expression import Column, Expression, MeasureSpec, columns_of
from penstock.core.parallelism import UNSAID
from penstock.core.shedding import Shedding
from penstock.core.side import Declared, SideJoin
from penstock.core.slack import SlackSpec
from penstock.core.window import WindowSpec

Result = TypeVar("Result")

ONLY = ""
"""What the stream of a pipeline with one source is called."""
STREAM = "stream"
"""Column that says whose a record is, where there are several."""


@dataclass(frozen=True, slots=True)
class Above:
    """The step whose answers another one takes for its records.

    Attributes:
        fingerprint: of its definition.
        keys: names of its keys: with its window they tell an answer from all others.
    """

    fingerprint: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepSpec(ABC):
    """What a step answers, and how long it waits; each kind adds what it answers with.

    Attributes:
        name: unique within its pipeline.
        keys: the columns answered for one by one; empty: one answer a window.
        where: keeps the records for which it is true; none: all.
        window: the spans of event time answered for.
        slack: how far the watermark stays behind; not part of the fingerprint.
        streams: names of those whose records it takes; none: there is only one.
        shed: what it may leave to the correction under load, not part of the fingerprint; none:
            nothing.
        above: whose answers its records are; none: they are events.
        guest: the pipeline that asks, where that is not the one whose log it is; else empty.
        run: what answers for it, where it shares that, or another one has its name; else empty.
        parallelism: into how many tasks its part of a micro-batch is cut (``core.parallelism``);
            not part of the fingerprint.
    """

    kind: ClassVar[str]
    """Its name in ``core.kinds.KINDS``."""
    by_key: ClassVar[bool] = False
    """Whether an answer hangs on the records of its key wherever they stand, so that a late one may
    take answers back, and records are counted, not pairs; else on those of its window alone."""
    by_reach: ClassVar[bool] = False
    """Whether, of these, it hangs on two records near in time alone: a late one only adds some."""
    sheds: ClassVar[bool] = False
    """Whether it may shed records: a late one then means to it what one of no time means."""
    excludes: ClassVar[bool] = False
    """Whether it may leave records out, since code of the user's fails on them."""
    takes: ClassVar[bool] = False
    """Whether it may take those of another one."""
    told_by: ClassVar[tuple[str, ...]] = ()
    """Columns of such an answer: the greatest is the position of the record it was told with."""
    made_at: ClassVar[tuple[str, ...]] = ()
    """Columns of an answer that is of two records: their event times."""

    name: str
    keys: tuple[Column, ...]
    where: Expression | None
    window: WindowSpec
    slack: SlackSpec
    streams: tuple[str, ...] = field(default=(), kw_only=True)
    shed: Shedding | None = field(default=None, kw_only=True)
    above: Above | None = field(default=None, kw_only=True)
    guest: str = field(default="", kw_only=True)
    run: str = field(default="", kw_only=True)
    parallelism: int = field(default=UNSAID, kw_only=True)

    @property
    def id(self) -> str:
        """What runs it is called on its log, and by its tables: others may ask the same there."""
        return self.run or (f"{self.guest}.{self.name}" if self.guest else self.name)

    @property
    @abstractmethod
    def values(self) -> tuple[Column | MeasureSpec, ...]:
        """Columns of an answer, with their types, beside its window and keys."""

    @property
    def is_taken(self) -> bool:
        """Whether another step may take its answers."""
        return False

    @property
    def given(self) -> tuple[Column | MeasureSpec, ...]:
        """Columns of an answer that one has that takes it."""
        return (*self.keys, *self.values)

    @property
    @abstractmethod
    def reads(self) -> frozenset[str]:
        """Declared columns that the values are made of."""

    @abstractmethod
    def canonical(self) -> dict[str, Any]:
        """The kind's part of the canonical form (``core.identity``), of plain values."""

    def open_after(self, watermark: int) -> int:
        """Windows that end after this instant may yet get answers at a watermark, us."""
        return watermark

    @property
    def lag(self) -> int:
        """How much later than a record a window may start whose answers hang on it, us."""
        return 0

    @property
    def lead(self) -> int:
        """How much later than a window's end a record may lie on which its answers hang, us."""
        return 0

    @property
    def has_slack(self) -> bool:
        """Whether its file says how long it waits; else it waits for no late record."""
        return (self.by_reach or not self.by_key) and self.above is None

    @property
    def withholds(self) -> bool:
        """Whether records may be left to the correction, though none came too late."""
        return self.sheds or self.above is not None

    @property
    def only_adds(self) -> bool:
        """Whether a late record makes nothing false that was said: a revised answer may."""
        return self.by_reach and self.above is None

    @property
    def withheld(self) -> str:
        """What became of records that are left to the correction, though none came too late."""
        return "shed" if self.above is None else "revised"

    @property
    def by_span(self) -> bool:
        """Whether it tells what records changed at the end of the watermark's span they came in."""
        return False

    @property
    def looked_up(self) -> tuple[SideJoin, ...]:
        """What it looks up in side data."""
        return ()

    @property
    def declares(self) -> tuple[Declared, ...]:
        """Side data that its part of the file holds: an edit takes effect from a block on."""
        return ()

    @property
    def by_arrival(self) -> tuple[str, ...]:
        """What it asks of two records by the order in which they came, as its file names it."""
        return ()

    @property
    def judged(self) -> tuple[MeasureSpec, ...]:
        """The measures whose error can be judged; none: what it answers has no size."""
        return ()

    @property
    def fingerprint(self) -> str:
        """Names the definition: what the answers mean. Equal definitions share their tables."""
        return identity.fingerprint(self)

    @property
    def required(self) -> tuple[Column, ...]:
        """Columns that a record must have: the keys, as far as they are its own."""
        return self.keys

    @property
    def key_names(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return tuple(key.name for key in self.keys)

    @property
    def identity(self) -> tuple[Column, ...]:
        """What tells an answer from all others of its window: of most kinds the keys."""
        return self.keys

    @property
    def identity_names(self) -> tuple[str, ...]:
        """Names of these columns."""
        return tuple(column.name for column in self.identity)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of ``events`` the step reads, besides event time and position; sorted."""
        required = {column.name for column in self.required}
        return tuple(sorted(required | columns_of(self.where) | self.reads))


def measures_of(step: StepSpec) -> tuple[MeasureSpec, ...]:
    """Of a step's values those that are measures."""
    return tuple(value for value in step.values if isinstance(value, MeasureSpec))


def of_each(
    steps: Iterable[StepSpec], work: Callable[[StepSpec], Result]
) -> tuple[list[Result], PenstockError | None]:
    """Do some work for every step, whatever becomes of the others.

    Returns:
        What came of it, in order, without the steps that failed; and what to raise for these once
        the others are dealt with: trying again may help if it may help one of them.
    """
    done, failed = list[Result](), list[tuple[StepSpec, Exception]]()
    for step in steps:
        try:
            done.append(work(step))
        except Exception as error:  # noqa: BLE001  raised by the caller, after the other steps
            failed.append((step, error))
    if not failed:
        return done, None
    said = "; ".join(_told(step, error) for step, error in failed)
    terminal = all(isinstance(error, TerminalError) for _, error in failed)
    whole = TerminalError(said) if terminal else TransientError(said)
    causes = [error for _, error in failed if terminal or not isinstance(error, TerminalError)]
    whole.__cause__ = causes[0]
    return done, whole


def _told(step: StepSpec, error: Exception) -> str:
    if isinstance(error, PenstockError):
        return str(error)
    return f"{step.name}: {type(error).__name__}: {error}"
