"""The Spark jobs of a correction: records to parts to answers, by the functions of the stream."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.groups import hash_keys
from penstock.columns.marks import NO_MARKS, Marks
from penstock.core.crash import reached
from penstock.core.step import StepSpec
from penstock.kinds.frame import Asked, Wire, frame_of
from penstock.kinds.side import Sides


def starts_of(wanted: pa.Table) -> Longs:
    """Starts of some windows, us."""
    return np.asarray(pc.cast(wanted["window_start"], pa.int64()))


def parts_of_shards(wire: Wire) -> pa.Schema:
    """Of parts on their way from the first job to the second."""
    return pa.schema([pa.field("shard", pa.int64()), *wire.parts])


def mapping(
    step: StepSpec,
    schema: pa.Schema,
    shards: int,
    sides: Sides,
    keys: Longs | None = None,
    marks: Marks = NO_MARKS,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What each task does with records: parts by shard.

    Args:
        step: whose parts.
        schema: of ``events``.
        shards: so many there are.
        sides: side data.
        keys: hashes of those that are wanted; none: all.
        marks: watermarks in force; none: the answers hang on none.
    """

    def mapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reached("correct read")
        frame = frame_of(step)
        schema_out = parts_of_shards(frame.wire(step))
        for batch in batches:
            wanted = pa.schema([schema.field(n) for n in batch.schema.names])
            mapper = frame.mapper(step, marks, None, sides)
            mapper.take(pa.Table.from_batches([batch]).cast(wanted))
            parts = mapper.parts()
            if keys is not None:
                mine = np.isin(hash_keys(parts, step.key_names), keys)
                parts = parts.filter(pa.array(mine))
            for shard, some in enumerate(frame.routed(step, parts, shards)):
                columns = {n: some[n] for n in schema_out.names[1:]}
                table = pa.table({"shard": np.full(some.num_rows, shard), **columns})
                yield from table.cast(schema_out).to_batches()

    return mapped


def reducing(step: StepSpec, asked: Asked, sides: Sides) -> Callable[[pa.Table], pa.Table]:
    """What each task does with the parts of a shard: the answers that a plan means."""

    def reduced(table: pa.Table) -> pa.Table:
        reached("correct windows")
        frame = frame_of(step)
        wire = frame.wire(step)
        return frame.again(step, table.select(wire.parts.names), asked, sides).cast(wire.answers)

    return reduced
