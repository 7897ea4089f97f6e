"""The sink: one micro-batch becomes, step by step, commits of late, answers and control.

The last one seals; a row of ``late`` or ``answers`` counts only if it stands there. Replays are
no-ops by the transaction (generation, micro-batch).
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from penstock.columns.packets import ANSWER, LATE, STATUS, messages_in, table_in
from penstock.columns.types import INSTANT
from penstock.core.clock import Clock
from penstock.core.crash import reached
from penstock.core.errors import TerminalError, TransientError
from penstock.core.step import StepSpec
from penstock.kinds.windowed.layout import instants
from penstock.kinds.windowed.mapper import Classes
from penstock.kinds.windowed.wire import Wire
from penstock.lake.history.generation import Generation
from penstock.lake.history.sealed import totals
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables
from penstock.spark.tick import Status

log = logging.getLogger(__name__)

SPEED = "speed"
WRITERS = 4
"""Threads: a commit waits for the disk most of its time."""
Told = Callable[[str, dict[str, Any]], None]
StandsStill = Callable[[str, str], None]


class FencedError(TransientError):
    """Another process has begun a newer generation of the step."""


class QuerySink:
    """What ``foreachBatch`` calls: hands each step its part of a micro-batch.

    A step's commits are in order; those of several steps wait for the disk at the same time.

    Args:
        sinks: of the steps.
        told: gets a step's name and its row of ``control``, once that is committed.
        stands_still: gets the name of a step that cannot go on before a person has changed
            something, and why; the others do.
    """

    def __init__(self, sinks: Sequence["StepSink"], told: Told, stands_still: StandsStill) -> None:
        self._sinks = {sink.step.name: sink for sink in sinks}
        self._told, self._stands_still = told, stands_still
        self._writers = ThreadPoolExecutor(WRITERS, "sink")

    def __call__(self, frame: DataFrame, _number: int) -> None:
        """Write one micro-batch; exactly one action runs on the stateful plan."""
        rows = frame.toArrow()
        told: dict[str, list[Status]] = {}
        for content in messages_in(rows, STATUS):
            status = Status.from_json(content)
            told.setdefault(status.tick.step, []).append(status)
        written: dict[str, Future[dict[str, Any]]] = {}
        for name, statuses in told.items():  # none, where Spark ran a micro-batch without data
            if (sink := self._sinks.get(name)) is not None:
                shards = pa.array(statuses[0].tick.at.shards, pa.int64())
                mine = rows.filter(pc.is_in(rows["shard"], shards))
                written[name] = self._writers.submit(sink.write, mine, statuses)
        wait(written.values())
        for name, row in written.items():
            try:
                self._told(name, row.result())
            except TerminalError as failed:
                del self._sinks[name]
                self._stands_still(name, str(failed))


class StepSink:
    """Writes the micro-batches of one generation of one step."""

    def __init__(self, tables: Tables, step: StepSpec, begun: Generation, clock: Clock) -> None:
        self.step, self.clock = step, clock
        self.generation, self.epoch = begun.number, begun.epoch
        self.wire = Wire(step)
        self.late = Table(tables.late(step, self.wire.layout.fields))
        self.answers = Table(tables.answers(step))
        self.control = Table(tables.control(step))
        self.registry = Table(tables.registry())
        self.blocks = Table(tables.blocks())
        self._before = (-1, 0, 0)

    def write(self, rows: pa.Table, told: Sequence[Status]) -> dict[str, Any]:
        """Write the step's part of a micro-batch; returns its row of ``control``.

        Args:
            rows: packets of its shards.
            told: what they say.

        Raises:
            FencedError: another process has begun a newer generation.
            TerminalError: a value has no place in the answers, or a table is damaged.
        """
        late, answers = (table_in(rows, kind, self.wire.windows) for kind in (LATE, ANSWER))
        reached("speed sink")
        self._fence()
        application, number = f"{SPEED}:{self.generation}", told[0].tick.at.number
        stamp = self._stamp(number)
        if late.num_rows:
            self.late.append(self._late(late, stamp), application, number)
        if answers.num_rows:
            self.answers.append(self._answers(answers, stamp), application, number)
        self.blocks.refresh()
        self.blocks.settle()  # the door may have sealed a moment ago what control now speaks for
        row = self._control(answers, told, stamp) | self._totals(number, late, answers)
        table = pa.Table.from_pylist([row], schema=self.control.spec.schema)
        self.control.append(table, application, number)
        return row

    def _fence(self) -> None:
        """Stop a query that a newer generation has replaced: its rows would not count."""
        self.registry.refresh()
        newest = self.registry.last(f"registry:{self.step.name}")
        if newest != self.generation:
            raise FencedError(
                f"{self.step.name}: generation {self.generation} was replaced by {newest}"
                " (a preload, or another host); starting again goes on with the new one"
            )

    def _stamp(self, number: int) -> dict[str, Any]:
        return {
            "generation": self.generation,
            "micro_batch": number,
            "published_at": self.clock.now(),
        }

    def _late(self, rows: pa.Table, stamp: dict[str, Any]) -> pa.Table:
        parts = {f.name: rows[f.name] for f in self.wire.layout.fields}
        own = {"last_seq": rows["last_seq"], "reason": pa.repeat("late", rows.num_rows)}
        return self._table(self.late, rows, stamp, parts | own)

    def _answers(self, rows: pa.Table, stamp: dict[str, Any]) -> pa.Table:
        own = {
            "revision": pa.repeat(0, rows.num_rows),
            "reason": pa.repeat(SPEED, rows.num_rows),
            "epoch": pa.repeat(self.epoch, rows.num_rows),
            "plan": pa.nulls(rows.num_rows, pa.int64()),
            "through_seq": rows["last_seq"],
        }
        return self._table(self.answers, rows, stamp, self.wire.layout.finish(rows) | own)

    def _table(
        self, table: Table, rows: pa.Table, stamp: dict[str, Any], columns: dict[str, Any]
    ) -> pa.Table:
        start = np.asarray(rows["window_start"])
        published = pa.repeat(pa.scalar(stamp["published_at"], INSTANT), rows.num_rows)
        columns = {
            **self.wire.keys_of(rows),
            "window_start": instants(start),
            "window_end": instants(start + self.step.window.size),
            "n_records": rows["n_records"],
            "generation": pa.repeat(stamp["generation"], rows.num_rows),
            "micro_batch": pa.repeat(stamp["micro_batch"], rows.num_rows),
            "published_at": published,
            **columns,
        }
        schema = table.spec.schema
        return pa.table({name: columns[name] for name in schema.names}).cast(schema)

    def _totals(self, number: int, late: pa.Table, answers: pa.Table) -> dict[str, int]:
        """Pairs of the generation up to a micro-batch: nobody has to add them up again."""
        if self._before[0] != number - 1:
            self._before = (number - 1, *totals(self.control, self.generation, number - 1))
        _, *before = self._before
        mine = [pc.sum(rows["n_records"]).as_py() or 0 for rows in (late, answers)]
        late_total, answered_total = (a + b for a, b in zip(before, mine, strict=True))
        self._before = number, late_total, answered_total
        return {
            "pairs_late": mine[0], "pairs_answered": mine[1],
            "late_total": late_total, "answered_total": answered_total,
        }  # fmt: skip

    def _control(
        self, answers: pa.Table, told: Sequence[Status], stamp: dict[str, Any]
    ) -> dict[str, Any]:
        tick, classes = told[0].tick, Classes()
        at = tick.at
        for status in told:
            classes.add(status.classes.message())
        return {
            **stamp,
            "block": at.block,
            "through_seq": at.seq,
            "watermark_us": at.state.watermark,
            "t_max_us": at.state.t_max,
            "k_us": at.state.k,
            "slack_us": at.state.slack,
            "controller": at.controller,
            **(at.coverage or {}),
            "records": tick.records,
            **classes.message(),
            "pairs_open": sum(status.open_pairs for status in told),
            "answers": answers.num_rows,
        }
