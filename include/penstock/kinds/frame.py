"""What the runners need of a kind: how records become parts, parts become state, state answers.

Kinds share a *frame*: those of windows of event time have ``kinds/windowed``. Docs:
docs/decisions/0029-kinds-of-step.md.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

import pyarrow as pa

from penstock.columns.arrays import Bools, Longs
from penstock.columns.groups import hash_keys
from penstock.columns.marks import Marks
from penstock.columns.placing import shard_of
from penstock.core.crash import reached
from penstock.core.kinds import part
from penstock.core.step import StepSpec
from penstock.kinds.classes import Classes
from penstock.kinds.side import Sides


class State(Protocol):
    """What Spark keeps for a shard: contents by (bucket, part)."""

    def getValue(self, key: tuple[int, int]) -> tuple[bytes] | None:  # noqa: N802  Spark's name
        """What stands there; none: nothing."""

    def updateValue(self, key: tuple[int, int], value: tuple[bytes]) -> None:  # noqa: N802
        """Let something stand there."""

    def removeKey(self, key: tuple[int, int]) -> None:  # noqa: N802
        """Forget what stands there."""

    def clear(self) -> None:
        """Forget everything."""


def write_state(state: State, at: tuple[int, int], write: Callable[[], object]) -> None:
    """Write what a shard holds, then where it says what that is.

    Args:
        state: of the shard.
        at: where it says so.
        write: writes what it holds, and returns what is to be said of it.
    """
    reached("before state")
    said = write()
    reached("inside state")
    state.updateValue(at, (pickle.dumps(said, 5),))
    reached("after state")


@dataclass(frozen=True, slots=True)
class Advance:
    """How far a micro-batch carries a step.

    Attributes:
        first: whether its generation begins: the state holds nothing of it yet.
        since: the watermark before, us.
        watermark: the one after, us.
        marks: the watermark in force at each of its positions.
        number: of the micro-batch, within its generation.
    """

    first: bool
    since: int
    watermark: int
    marks: Marks
    number: int = 0


@dataclass(frozen=True, slots=True)
class Reduced:
    """What a shard gives for a micro-batch.

    Attributes:
        late, answers: results, as ``late`` and ``answers`` of its wire.
        open_pairs, late_pairs, answered_pairs: how many (record, window) pairs are still open,
            were late, are answered.
        shed_pairs: of the late ones those that were shed.
        classes: of records, as far as the state tells them.
        compared: candidates that were looked at; none: it looks for no partners.
        kept: rows of the state after it, or some more.
    """

    late: pa.Table
    answers: pa.Table
    open_pairs: int
    late_pairs: int
    answered_pairs: int
    classes: Classes = field(default_factory=Classes)
    compared: int | None = None
    shed_pairs: int = 0
    kept: int = field(default=0, kw_only=True)


def unmoved(wire: "Wire", open_pairs: int, kept: int) -> Reduced:
    """Of a micro-batch in which nothing comes and nothing is answered."""
    none = wire.late.empty_table(), wire.answers.empty_table()
    return Reduced(*none, open_pairs, 0, 0, kept=kept)


class Results(Protocol):
    """What a kind says of its results."""

    @property
    def fields(self) -> list[pa.Field]:
        """Columns of ``late`` that are the kind's own."""

    def finish(self, table: pa.Table) -> Mapping[str, pa.Array | pa.ChunkedArray]:
        """The step's values, by name, of a table of answers as they leave the reducer.

        Raises:
            TerminalError: a value has no place in the answers.
        """


class Wire(Protocol):
    """Schemas of a step's tables on the way."""

    @property
    def layout(self) -> Results:
        """Of the results."""

    def known_by(self, table: pa.Table) -> dict[str, pa.ChunkedArray]:
        """The columns that results are known by, as declared."""

    @property
    def parts(self) -> pa.Schema:
        """As they come from the source."""

    @property
    def late(self) -> pa.Schema:
        """As late records leave the reducer."""

    @property
    def answers(self) -> pa.Schema:
        """As answers leave the reducer."""


EXCLUDED = pa.schema([pa.field("arrival_seq", pa.int64()), pa.field("reason", pa.string())])
"""Records that a step leaves out, wherever it meets them, and why."""
NONE_EXCLUDED = EXCLUDED.empty_table()


class Mapper(Protocol):
    """One step's parts of some records.

    Attributes:
        classes: of the records, as far as they can be told here.
        excluded: of the records those that are left out, as ``EXCLUDED``.
    """

    classes: Classes
    excluded: pa.Table

    def take(self, records: pa.Table) -> None:
        """Add records, with the columns that the step reads."""

    def parts(self) -> pa.Table:
        """Of all that was taken, as ``parts`` of its wire."""


Stays: TypeAlias = Callable[[pa.Table], Bools]
"""Of parts those that a shard goes on to keep."""


class Reducer(Protocol):
    """One step's state, one shard at a time."""

    def reduce(self, advance: Advance, parts: pa.Table, seed: pa.Table) -> Reduced:
        """Add a micro-batch's parts, and answer.

        Args:
            advance: of the micro-batch.
            parts: of its records.
            seed: of the records that a generation begins with, or what another shard kept.
        """

    def give(self, advance: Advance, stays: Stays) -> tuple[pa.Table, Reduced]:
        """Keep no more what belongs to another shard from now on.

        Args:
            advance: of a micro-batch without records.
            stays: what goes on to be kept.

        Returns:
            What was kept and does not stay, as seed of the shards that get it; and what a
            micro-batch gives in which nothing comes and nothing is answered.
        """


@dataclass(frozen=True, slots=True)
class Asked:
    """Which answers a correction asks for.

    Attributes:
        low, high: of windows that start in [low, high), us.
        starts: of these only the windows that start there, us; none: all.
        watermark: of windows that end by then, us.
        after_seq, answered: not of windows that end by ``answered`` (us) and hold no record after
            this position: what an earlier history has answered.
        late: of answers that hang on what is near, those of records at these positions, in order;
            none: all.
    """

    low: int
    high: int
    starts: Longs | None
    watermark: int
    after_seq: int
    answered: int
    late: Longs | None = None


Span: TypeAlias = tuple[int, int]
"""Event times [since, until), us."""
Near: TypeAlias = Callable[[StepSpec, int, int], Span]
"""Where partners lie of a step's records in [low, high), us."""


def by_hash(step: StepSpec, parts: pa.Table, count: int) -> Sequence[pa.Table]:
    """Parts by shard, of so many: all parts of a key go to one."""
    which = homes(step, parts, count)
    return [parts.filter(pa.array(which == number)) for number in range(count)]


def homes(step: StepSpec, parts: pa.Table, count: int) -> Longs:
    """Of parts that go by their keys: in which shard each belongs, of so many."""
    return shard_of(hash_keys(parts, step.key_names), count)


@dataclass(frozen=True, slots=True)
class Frame:
    """How the kinds of a frame go through the runners.

    Attributes:
        columns: of ``events`` that a step's mapper reads.
        since: for a step and a start's watermark, the event time from which on records are needed
            to rebuild its state, us.
        wire: of a step.
        mapper: of a step; with the watermarks in force, the watermark of the start whose state is
            rebuilt, or none, and side data.
        reducer: of a step; with the shard's state, the folder of what is too large for it, and
            side data.
        again: a step's answers, as ``answers`` of its wire, that a correction asks for, from the
            parts of all records of some keys that it may need, and side data.
        routed: a step's parts by shard, of so many.
        by_key: of a step, whether all parts of a key go to one shard: they can move to another.
        near: of a step whose answers hang on what is near in time, where the partners lie of
            records that an answer stands with, and of others.
    """

    columns: Callable[[StepSpec], list[str]]
    since: Callable[[StepSpec, int], int]
    wire: Callable[[StepSpec], Wire]
    mapper: Callable[[StepSpec, Marks, int | None, Sides], Mapper]
    reducer: Callable[[StepSpec, State, Path, Sides], Reducer]
    again: Callable[[StepSpec, pa.Table, Asked, Sides], pa.Table]
    routed: Callable[[StepSpec, pa.Table, int], Sequence[pa.Table]] = by_hash
    by_key: Callable[[StepSpec], bool] = lambda _: True
    near: tuple[Near, Near] | None = None


def frame_of(step: StepSpec) -> Frame:
    """The frame of a step's kind."""
    found: Frame = part(step.kind, "frame").FRAME
    return found
