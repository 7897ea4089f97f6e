"""What a task does: it reads a run of positions once, for all steps that go on over it.

Records are pre-aggregated before a row reaches Spark. Source: Mars (pre-aggregation in the mapper).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from penstock.columns.marks import Marks
from penstock.columns.packets import (
    CLASSES,
    EXCLUDED,
    PARTIAL,
    SEED,
    STEP,
    TICK,
    message,
    packets,
)
from penstock.columns.types import INSTANT
from penstock.core.crash import reached
from penstock.core.step import STREAM, StepSpec
from penstock.core.window import BEGINNING
from penstock.kinds.frame import frame_of
from penstock.kinds.side import Sides
from penstock.lake.log.revisions import newest_of
from penstock.lake.storage.read import read_pieces
from penstock.lake.storage.spec import TableSpec
from penstock.spark.moved import read_moved
from penstock.spark.tick import Tick

WHOLE = 20_000
"""Fewer records are not worth a second task."""
KEPT = 1 << 18
"""Records of which a task holds parts, at most, where none are summed up before they travel."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a step wants of some records.

    Attributes:
        step: the step.
        shards: ids of the keys that hold its state.
        marks: watermarks in force at their positions.
        seed: the watermark of the start whose state is rebuilt from them, us; none: they are new.
        revised: of a history of answers the newest revisions, as ``log.revisions`` gives them.
    """

    step: StepSpec
    shards: tuple[int, ...]
    marks: Marks
    seed: int | None = None
    revised: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class Gets:
    """What shards of a step get of others.

    Attributes:
        file: that holds it.
        step: the step.
        shards: ids of the keys that hold its state.
    """

    file: str
    step: StepSpec
    shards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Part(InputPartition):
    """What one task reads: positions [first, last] in some files, and what it tells the shards.

    Attributes:
        ticks: for the shards of each step, with the step as text.
        gets: what shards have given away, and others get.
    """

    first: int
    last: int
    paths: tuple[str, ...]
    works: tuple[Work, ...]
    ticks: tuple[tuple[Tick, str], ...] = ()
    gets: tuple[Gets, ...] = ()


def cut(first: int, last: int, tasks: int) -> list[tuple[int, int]]:
    """Cut positions [first, last] into at most so many equal runs; small ones stay whole."""
    count = last - first + 1
    if count <= 0:
        return []
    tasks = 1 if count < WHOLE else tasks
    bounds = [first + count * i // tasks for i in range(tasks + 1)]
    return [(a, b - 1) for a, b in pairwise(bounds) if b > a]


def scan(part: Part, events: TableSpec, sides: Sides) -> Iterator[pa.RecordBatch]:
    """Partials of one part by step and shard, after a message to each shard that it tells.

    Args:
        part: which.
        events: the table.
        sides: side data.
    """
    reached("speed read")
    for tick, step in part.ticks:
        for shard in tick.at.shards:
            yield from message(shard, STEP, {"start": step}).to_batches()
            yield from message(shard, TICK, tick.to_json()).to_batches()
    for gets in part.gets:
        yield from _routed(gets.step, SEED, read_moved(gets.file), gets.shards)
    mapping = [_Mapping(work, sides) for work in part.works]
    for piece in _pieces(part, events, [each.step for each in mapping]):
        for each in mapping:
            yield from each.take(piece)
    for each in mapping:
        yield from each.parts()


class _Mapping:
    """One step's mapper of a task, or one after the other: a part of each record may be kept."""

    def __init__(self, work: Work, sides: Sides) -> None:
        self.step, self.work, self.sides = work.step, work, sides
        self._begin()

    def _begin(self) -> None:
        work, frame = self.work, frame_of(self.step)
        self.mapper, self.taken = frame.mapper(self.step, work.marks, work.seed, self.sides), 0

    def take(self, records: pa.Table) -> Iterator[pa.RecordBatch]:
        """Add records of the step's streams; gives what need not wait for others."""
        if self.step.streams:
            whose = pc.cast(records[STREAM], pa.string())
            records = records.filter(pc.is_in(whose, pa.array(self.step.streams, pa.string())))
        if self.step.above is not None and self.work.revised is not None:
            records = newest_of(records, self.work.revised, self.step.above)
        self.mapper.take(records)
        self.taken += records.num_rows
        if self.step.by_key and self.taken >= KEPT:
            yield from self.parts()
            self._begin()

    def parts(self) -> Iterator[pa.RecordBatch]:
        """Of all records since the last parts: what the shards get, and what is told of them."""
        shards, parts = self.work.shards, self.mapper.parts()
        kind = PARTIAL if self.work.seed is None else SEED
        if kind == PARTIAL:
            yield from message(shards[0], CLASSES, self.mapper.classes.message()).to_batches()
        yield from packets(shards[0], EXCLUDED, self.mapper.excluded).to_batches()
        yield from _routed(self.step, kind, parts, shards)


def _routed(
    step: StepSpec, kind: int, parts: pa.Table, shards: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Each shard's packets of some parts."""
    routed = frame_of(step).routed(step, parts, len(shards))
    for shard, mine in zip(shards, routed, strict=True):
        yield from packets(shard, kind, mine).to_batches()


def _pieces(part: Part, events: TableSpec, steps: Sequence[StepSpec]) -> Iterator[pa.Table]:
    """The records of a part with the columns that its steps read."""
    where = (pc.field("arrival_seq") >= part.first) & (pc.field("arrival_seq") <= part.last)
    reaches = [
        BEGINNING if work.seed is None else frame_of(step).since(step, work.seed)
        for work, step in zip(part.works, steps, strict=True)
    ]
    longest = max((step.window.size for step in steps), default=0)
    if reaches and min(reaches) > BEGINNING + longest:
        where &= pc.field("event_time") >= pa.scalar(min(reaches), pa.int64()).cast(INSTANT)
    whose = [STREAM] if any(step.streams for step in steps) else []
    read = (name for step in steps for name in frame_of(step).columns(step))
    known = (name for step in steps if step.above is not None for name in step.above.keys)
    names = list(dict.fromkeys([*read, *known, *whose]))
    return iter(read_pieces(events.uri, part.paths, events.schema, names, where))
