"""What a task does: it reads a run of positions once, for all steps that go on over it.

Records are pre-aggregated before a row reaches Spark. Source: Mars (pre-aggregation in the mapper).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from penstock.columns.groups import hash_rows
from penstock.columns.marks import Marks
from penstock.columns.packets import CLASSES, PARTIAL, SEED, TICK, message, packets
from penstock.columns.types import INSTANT
from penstock.columns.windows import closed_of, windows_a_pane
from penstock.core.crash import reached
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.kinds.windowed.layout import layout_of
from penstock.kinds.windowed.mapper import Classes, columns_of, map_records
from penstock.kinds.windowed.wire import Wire
from penstock.lake.storage.read import read_pieces
from penstock.lake.storage.spec import TableSpec
from penstock.spark.tick import Tick

WHOLE = 20_000
"""Fewer records are not worth a second task."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a step wants of some records.

    Attributes:
        step: its name.
        shards: ids of the keys that hold its state.
        marks: watermarks in force at their positions.
        seed: the watermark of the start whose state is rebuilt from them, us; none: they are new.
    """

    step: str
    shards: tuple[int, ...]
    marks: Marks
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Part(InputPartition):
    """What one task reads: positions [first, last] in some files, and what it tells the shards."""

    first: int
    last: int
    paths: tuple[str, ...]
    works: tuple[Work, ...]
    ticks: tuple[Tick, ...] = ()


def cut(first: int, last: int, tasks: int) -> list[tuple[int, int]]:
    """Cut positions [first, last] into at most so many equal runs; small ones stay whole."""
    count = last - first + 1
    if count <= 0:
        return []
    tasks = 1 if count < WHOLE else tasks
    bounds = [first + count * i // tasks for i in range(tasks + 1)]
    return [(a, b - 1) for a, b in pairwise(bounds) if b > a]


def scan(part: Part, events: TableSpec, steps: Mapping[str, StepSpec]) -> Iterator[pa.RecordBatch]:
    """Partials of one part by step and shard, after a message to each shard that it tells.

    Args:
        part: which.
        events: the table.
        steps: by name.
    """
    reached("speed read")
    for tick in part.ticks:
        for shard in tick.at.shards:
            yield from message(shard, TICK, tick.to_json()).to_batches()
    mappers = [_Mapper(steps[work.step], work) for work in part.works]
    for piece in _pieces(part, events, [mapper.step for mapper in mappers]):
        for mapper in mappers:
            mapper.take(piece)
    for mapper in mappers:
        yield from mapper.packets()


def _pieces(part: Part, events: TableSpec, steps: Sequence[StepSpec]) -> Iterator[pa.Table]:
    """The records of a part with the columns that its steps read."""
    where = (pc.field("arrival_seq") >= part.first) & (pc.field("arrival_seq") <= part.last)
    reaches = [
        BEGINNING if work.seed is None else work.seed - step.window.size
        for work, step in zip(part.works, steps, strict=True)
    ]
    longest = max((step.window.size for step in steps), default=0)
    if reaches and min(reaches) > BEGINNING + longest:
        where &= pc.field("event_time") >= pa.scalar(min(reaches), pa.int64()).cast(INSTANT)
    names = list(dict.fromkeys(name for step in steps for name in columns_of(step)))
    return iter(read_pieces(events.uri, part.paths, events.schema, names, where))


class _Mapper:
    """One step's partials of a part."""

    def __init__(self, step: StepSpec, work: Work) -> None:
        self.step, self.work, self.classes = step, work, Classes()
        self.layout, self.mapped = layout_of(step), list[pa.Table]()

    def take(self, piece: pa.Table) -> None:
        """Add records."""
        own = piece.select(columns_of(self.step))
        self.mapped.append(map_records(self.step, own, self.work.marks, self.classes))

    def packets(self) -> Iterator[pa.RecordBatch]:
        """What the shards get."""
        wire, shards, seed = Wire(self.step), self.work.shards, self.work.seed
        partials = wire.to_inner(self._partials())
        if seed is None:
            yield from message(shards[0], CLASSES, self.classes.message()).to_batches()
        keys = [partials[k] for k in wire.layout.keys]
        which = hash_rows(keys, partials.num_rows) % len(shards)
        for number, shard in enumerate(shards):
            mine = partials.filter(pa.array(which == number))
            yield from packets(shard, PARTIAL if seed is None else SEED, mine).to_batches()

    def _partials(self) -> pa.Table:
        by = ("pane", "closed")
        partials = pa.concat_tables([self.layout.schema(*by).empty_table(), *self.mapped])
        if len(self.mapped) > 1:
            partials = self.layout.merge(partials, *by)
        if self.work.seed is None:
            return partials
        window, panes = self.step.window, np.asarray(partials["pane"])
        closed = closed_of(window, panes, self.work.seed)  # that is answered already
        low = np.maximum(closed, np.asarray(partials["closed"]))
        return partials.filter(pa.array(low < windows_a_pane(window, panes)))
