"""Where the steps of a query keep what is open: one operator, keyed by shard.

Each shard is one step's. A fixed small number, never the business key: a key costs 0.15-0.35 ms a
micro-batch in a Python state store.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from penstock.columns.arrays import Bools
from penstock.columns.packets import (
    ANSWER,
    CLASSES,
    EXCLUDED,
    LATE,
    MOVED,
    PACKET,
    PARTIAL,
    SEED,
    STATUS,
    STEP,
    TICK,
    message,
    messages_in,
    packets,
    table_in,
)
from penstock.core.step import StepSpec
from penstock.kinds.classes import Classes
from penstock.kinds.frame import Reducer, Stays, frame_of, homes
from penstock.kinds.side import Sides
from penstock.spark.follow import StepStart
from penstock.spark.tick import Status, Tick

NOTHING = PACKET.empty_table()
PAGE = os.sysconf("SC_PAGE_SIZE")
SPARE = 256 << 20
"""Bytes that a worker may keep of one micro-batch for the next; only a seed takes more."""
Hand: TypeAlias = Callable[[int, int, pa.Table, Tick, StepStart], pa.Table]
"""Shard, kind, results, and what the shard was told, to packets."""


def held() -> int:
    """Bytes of memory that this process alone has, but for files."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * PAGE


def belongs(step: StepSpec, shard: int, shards: Sequence[int]) -> Stays:
    """Which parts of a shard stay there once a state is cut into other shards."""

    def stays(parts: pa.Table) -> Bools:
        mine: Bools = np.asarray(shards)[homes(step, parts, len(shards))] == shard
        return mine

    return stays


class StateHost(StatefulProcessor):
    """Hands each shard's packets to the reducer of its step, which comes with them.

    Args:
        hand: makes packets of a shard's results of one kind.
        folder: of what is too large for Spark's own state.
        sides: side data of the pipeline.
    """

    def __init__(self, hand: Hand, folder: Path, sides: Sides) -> None:
        self.hand, self.folder, self.sides = hand, folder, sides

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self.state = handle.getMapState("buckets", "bucket long, part int", "content binary")
        self.before = held()
        self.reducers: dict[str, tuple[str, StepStart, Reducer]] = {}

    def handleInputRows(  # noqa: N802  Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """One shard's packets of a micro-batch."""
        shard = int(key[0]) if isinstance(key, tuple) else int(key)
        frames = [pa.Table.from_pandas(df, schema=PACKET, preserve_index=False) for df in rows]
        received = pa.concat_tables(frames)
        tick = Tick.from_json(messages_in(received, TICK)[0])
        classes = Classes()
        for told in messages_in(received, CLASSES):
            classes.add(told)
        start, reducer = self._reducer(messages_in(received, STEP)[0]["start"], tick.step)
        step = start.step
        schema = frame_of(step).wire(step).parts
        parts, seed = (table_in(received, kind, schema) for kind in (PARTIAL, SEED))
        excluded = received.filter(pc.equal(received["kind"], EXCLUDED))
        del received, frames
        advance, moved, since = tick.advance(shard), NOTHING, time.perf_counter()
        if tick.at.moves:
            given, reduced = reducer.give(advance, belongs(step, shard, tick.at.moves))
            moved = packets(shard, MOVED, given)
        else:
            reduced = reducer.reduce(advance, parts, seed)
        busy = time.perf_counter() - since
        found = ((LATE, reduced.late), (ANSWER, reduced.answers))
        out = [self.hand(shard, kind, results, tick, start) for kind, results in found]
        status = Status.of(tick, reduced, classes, busy)
        out += [excluded, moved, message(shard, STATUS, status.to_json())]
        del parts, seed, reduced
        yield pa.concat_tables(out).to_pandas()
        self._let_go()

    def _reducer(self, text: str, step: str) -> tuple[StepStart, Reducer]:
        """Of a step, which may have another definition than before, or a new beginning."""
        if step not in self.reducers or self.reducers[step][0] != text:
            start = StepStart.from_text(text)
            frame = frame_of(start.step)
            reducer = frame.reducer(start.step, self.state, self.folder, self.sides)
            self.reducers[step] = text, start, reducer
        return self.reducers[step][1:]

    def _let_go(self) -> None:
        """Allocators are told to keep what they have (``session.KEEP_MEMORY``): not so much."""
        if held() > self.before + SPARE:
            pa.default_memory_pool().release_unused()

    def close(self) -> None:
        """Nothing to release."""
