"""The Spark jobs of a correction: records to parts to windows, by the functions of the stream."""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.groups import hash_rows
from penstock.columns.marks import NO_MARKS
from penstock.columns.windows import windows_a_pane
from penstock.core.crash import reached
from penstock.core.step import StepSpec
from penstock.kinds.windowed.mapper import map_records, to_windows
from penstock.kinds.windowed.wire import Wire
from penstock.lake.history.plans import CorrectionPlan


def starts_of(wanted: pa.Table) -> Longs:
    """Starts of some windows, us."""
    return np.asarray(pc.cast(wanted["window_start"], pa.int64()))


def panes_of_shards(wire: Wire) -> pa.Schema:
    """Of partials on their way from the first job to the second."""
    return pa.schema([pa.field("shard", pa.int64()), *wire.parts])


def mapping(
    step: StepSpec, schema: pa.Schema, tasks: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What each task does with records: partials by shard."""

    def mapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reached("correct read")
        wire = Wire(step)
        for batch in batches:
            wanted = pa.schema([schema.field(n) for n in batch.schema.names])
            events = pa.Table.from_batches([batch]).cast(wanted)
            partials = wire.to_inner(map_records(step, events, NO_MARKS))
            shard = hash_rows([partials[k] for k in wire.layout.keys], partials.num_rows) % tasks
            columns = {n: partials[n] for n in wire.parts.names}
            yield from (
                pa.table({"shard": shard, **columns}).cast(panes_of_shards(wire)).to_batches()
            )

    return mapped


def reducing(
    step: StepSpec, plan: CorrectionPlan, low: int, high: int, starts: Longs | None
) -> Callable[[pa.Table], pa.Table]:
    """What each task does with the partials of a shard: windows that the plan means."""

    def reduced(table: pa.Table) -> pa.Table:
        reached("correct windows")
        wire = Wire(step)
        partials = table.select(wire.parts.names)
        panes = np.asarray(partials["pane"])
        nothing = np.zeros(len(panes), np.int64)
        windows = to_windows(wire.inner, partials, nothing, windows_a_pane(step.window, panes))
        start, last = (np.asarray(windows[name]) for name in ("window_start", "last_seq"))
        end = start + step.window.size
        kept = (start >= low) & (start < high) & (end <= plan.watermark)
        kept &= (end > plan.answered) | (last > plan.after_seq)  # else its base has answered it
        if starts is not None:
            kept &= np.isin(start, starts)
        return windows.filter(pa.array(kept)).cast(wire.windows)

    return reduced
