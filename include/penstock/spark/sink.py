"""The sink: one micro-batch becomes, step by step, commits of late, answers and control.

The last one seals; a row of ``late`` or ``answers`` counts only if it stands there. Replays are
no-ops by the transaction (generation, micro-batch).
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from penstock.columns.marks import Marks
from penstock.columns.packets import ANSWER, EXCLUDED, LATE, MOVED, STATUS, messages_in, table_in
from penstock.columns.types import INSTANT
from penstock.core.clock import Clock
from penstock.core.crash import reached
from penstock.core.errors import TerminalError, TransientError
from penstock.core.step import StepSpec
from penstock.kinds import frame
from penstock.kinds.classes import Classes
from penstock.lake.history.generation import Generation
from penstock.lake.history.position import SPEED
from penstock.lake.history.sealed import totals
from penstock.lake.storage.commit import Table
from penstock.lake.storage.drafts import Drafts
from penstock.lake.storage.tables import Tables
from penstock.spark.moved import moved_file, write_moved
from penstock.spark.results import Result, Stamp, StepRows
from penstock.spark.tick import Status

log = logging.getLogger(__name__)

WRITERS = 4
"""Threads: a commit waits for the disk most of its time."""
SHARDS, MOVES, MOVED_ROWS, KEPT, BUSY = "shards", "moves", "moved_rows", "kept", "busy"
"""Of what the host hears beside a row of ``control``."""
Told = Callable[[str, dict[str, Any]], None]
StandsStill = Callable[[str, str], None]


class FencedError(TransientError):
    """Its rows are not wanted: a newer generation of the step has begun, or the query ends."""


class QuerySink:
    """What ``foreachBatch`` calls: hands each step its part of a micro-batch.

    A step's commits are in order; those of several steps wait for the disk at the same time.
    Nothing is written of a step that has gone meanwhile, nor once the query is to end.

    Args:
        told: gets a step's name and its row of ``control``, once that is committed.
        stands_still: gets the name of a step that cannot go on before a person has changed
            something, and why; the others do.
    """

    def __init__(self, told: Told, stands_still: StandsStill) -> None:
        self._sinks: dict[str, StepSink] = {}
        self._told, self._stands_still = told, stands_still
        self._writers = ThreadPoolExecutor(WRITERS, "sink")
        self._calls, self._closed = threading.Lock(), False

    def add(self, sink: "StepSink") -> None:
        """Write for a step, and no more for what ran before it of the same step."""
        self._sinks[sink.step.id] = sink

    def drop(self, step: str) -> None:
        """Write no more for a step; once it returns, nothing is on its way.

        So what the step has sealed is final: a generation that begins now begins behind all of it,
        and nobody has seen a sealed row that does not count afterwards.
        """
        if (sink := self._sinks.pop(step, None)) is not None:
            sink.end()

    def close(self, until: float) -> None:
        """Write no more; the micro-batch that is being written is waited for.

        A stop interrupts Spark's thread, and a call that it interrupts is made again, by py4j and
        beside the thread that has ended: it would write after the stop.

        Args:
            until: of the clock that only rises, s: it is not waited for longer.
        """
        self._closed = True
        patience = min(max(until - time.monotonic(), 0), threading.TIMEOUT_MAX)
        if self._calls.acquire(timeout=patience):
            self._calls.release()

    def __call__(self, frame: DataFrame, _number: int) -> None:
        """Write one micro-batch; exactly one action runs on the stateful plan.

        Raises:
            FencedError: the query is to end, or a newer generation of a step has begun elsewhere.
            TransientError: a task could not write what it found.
        """
        with self._calls:
            if self._closed:
                raise FencedError("the query ends: what it has not written, its next life does")
            self._write(frame.toArrow())

    def _write(self, rows: pa.Table) -> None:
        told: dict[str, list[Status]] = {}
        for content in messages_in(rows, STATUS):
            status = Status.from_json(content)
            told.setdefault(status.tick.step, []).append(status)
        written: dict[StepSink, Future[dict[str, Any]]] = {}
        for name, statuses in told.items():  # none, where Spark ran a micro-batch without data
            if (sink := self._sinks.get(name)) is not None and sink.takes(statuses):
                shards = pa.array(statuses[0].tick.at.shards, pa.int64())
                mine = rows.filter(pc.is_in(rows["shard"], shards))
                written[sink] = self._writers.submit(sink.write, mine, statuses)
        wait(written.values())
        for sink, row in written.items():
            name = sink.step.id
            try:
                self._told(name, row.result())
            except (TerminalError, FencedError) as failed:
                if self._sinks.get(name) is not sink:  # it has gone, or begins anew: no fault
                    continue
                if isinstance(failed, FencedError):
                    raise
                self.drop(name)
                self._stands_still(name, str(failed))


class StepSink:
    """Writes the micro-batches of one generation of one step."""

    def __init__(
        self, tables: Tables, step: StepSpec, begun: Generation, clock: Clock, checkpoint: Path
    ) -> None:
        self.step, self.clock, self.checkpoint = step, clock, checkpoint
        self.generation, self.epoch = begun.number, begun.epoch
        self.rows = StepRows(tables, step)
        self.late, self.answers = Table(self.rows.specs[LATE]), Table(self.rows.specs[ANSWER])
        self.excluded, self.control = Table(tables.excluded(step)), Table(tables.control(step))
        self.registry = Table(tables.registry())
        self.blocks = Table(tables.blocks())
        self._before = (-1, 0, 0, 0)
        self._writes, self._ended = threading.Lock(), False

    def end(self) -> None:
        """Write no more; what is being written is waited for."""
        with self._writes:
            self._ended = True

    def takes(self, told: Sequence[Status]) -> bool:
        """Whether shards speak of this generation: one may have ended just now."""
        return told[0].tick.at.generation == self.generation

    def write(self, received: pa.Table, told: Sequence[Status]) -> dict[str, Any]:
        """Write the step's part of a micro-batch.

        Args:
            received: packets of its shards.
            told: what they say.

        Returns:
            The row, with what the host hears of the shards.

        Raises:
            FencedError: it has ended, or another process has begun a newer generation.
            TerminalError: a value has no place in the answers, or a table is damaged.
            TransientError: a task could not write what it found.
        """
        with self._writes:
            if self._ended:
                raise FencedError(f"{self.step.id}: it has gone, or begins anew")
            return self._write(received, told)

    def _write(self, received: pa.Table, told: Sequence[Status]) -> dict[str, Any]:
        reached("speed sink")
        self._fence()
        wire = self.rows.wire
        late, answers = (
            Result.of(received, LATE, wire.late),
            Result.of(received, ANSWER, wire.answers),
        )
        application, number = f"{SPEED}:{self.generation}", told[0].tick.at.number
        stamp = Stamp(self.generation, self.epoch, number, self.clock.now())
        if late.rows:
            with self._drafted(self.late, LATE, late, stamp) as rows:
                self.late.append(rows, application, number)
        if answers.rows:
            with self._drafted(self.answers, ANSWER, answers, stamp) as rows:
                self.answers.append(rows, application, number)
        at = told[0].tick.at
        moved = table_in(received, MOVED, wire.parts) if at.moves else None
        if moved is not None:
            write_moved(moved_file(self.checkpoint, self.step.id, at), moved, self.step.id)
        self._exclude(table_in(received, EXCLUDED, frame.EXCLUDED), application, stamp)
        self.blocks.refresh()
        self.blocks.settle()  # the door may have sealed a moment ago what control now speaks for
        row = self._control(answers, told, stamp) | self._totals(number, told)
        table = pa.Table.from_pylist([row], schema=self.control.spec.schema)
        self.control.append(table, application, number)
        return row | _beside(told, 0 if moved is None else moved.num_rows)

    def _exclude(self, found: pa.Table, application: str, stamp: Stamp) -> None:
        """Write down which records the step leaves out."""
        if not (count := found.num_rows):
            return
        log.warning("step %s leaves out %d records, the first: %s", self.step.id, count,
                    found["reason"][0].as_py())  # fmt: skip
        columns = {
            **dict(zip(found.column_names, found.columns, strict=True)),
            "generation": pa.repeat(stamp.generation, count),
            "micro_batch": pa.repeat(stamp.micro_batch, count),
            "published_at": pa.repeat(pa.scalar(stamp.published_at, INSTANT), count),
        }
        schema = self.excluded.spec.schema
        rows = pa.table(columns).select(schema.names).cast(schema)
        self.excluded.append(rows, application, stamp.micro_batch)

    def _fence(self) -> None:
        """Stop a query that a newer generation has replaced: its rows would not count."""
        self.registry.refresh()
        newest = self.registry.last(f"registry:{self.step.id}")
        if newest != self.generation:
            raise FencedError(
                f"{self.step.id}: generation {self.generation} was replaced by {newest}"
                " (a preload, or another host); starting again goes on with the new one"
            )

    @contextmanager
    def _drafted(
        self, table: Table, kind: int, found: Result, stamp: Stamp
    ) -> Iterator[pa.Table | Drafts]:
        """Rows of a commit; those that tasks have written already are files of it."""
        rows = self.rows.of(kind, found.partials, stamp)
        if not found.files:
            yield rows
            return
        with Drafts(table.spec, pa.schema(table.delta.schema()), {}) as drafts:
            drafts.add(rows)
            drafts.take(found.files)
            yield drafts

    def _totals(self, number: int, told: Sequence[Status]) -> dict[str, int]:
        """Pairs of the generation up to a micro-batch: nobody has to add them up again."""
        if self._before[0] != number - 1:
            self._before = (number - 1, *totals(self.control, self.generation, number - 1))
        _, *before = self._before
        late, answered = sum(s.late_pairs for s in told), sum(s.answered_pairs for s in told)
        mine = late, answered, sum(s.shed_pairs for s in told)
        late_total, answered_total, shed_total = (a + b for a, b in zip(before, mine, strict=True))
        self._before = number, late_total, answered_total, shed_total
        shed = {"pairs_shed": mine[2], "shed_total": shed_total} if shed_total else {}
        return {
            "pairs_late": late, "pairs_answered": answered,
            "late_total": late_total, "answered_total": answered_total, **shed,
        }  # fmt: skip

    def _control(self, answers: Result, told: Sequence[Status], stamp: Stamp) -> dict[str, Any]:
        tick, classes = told[0].tick, Classes()
        at = tick.at
        for status in told:
            classes.add(status.classes.message())
        compared = [status.compared for status in told if status.compared is not None]
        return {
            "generation": stamp.generation,
            "micro_batch": stamp.micro_batch,
            "published_at": stamp.published_at,
            "block": at.block,
            "through_seq": at.seq,
            "watermark_us": at.state.watermark,
            "t_max_us": at.state.t_max,
            "k_us": at.state.k,
            "slack_us": at.state.slack,
            "controller": at.controller,
            **(at.coverage or {}),
            "records": tick.records,
            "size": tick.size,
            "size_reason": tick.size_reason or None,
            **classes.message(),
            "pairs_open": sum(status.open_pairs for status in told),
            "answers": answers.rows,
            "compared": sum(compared) if compared else None,
            "shed": Marks.from_text(at.marks).shed or None,
        }


def _beside(told: Sequence[Status], moved: int) -> dict[str, Any]:
    """What the host hears of a step's shards.

    How many they are, whether they give, how many rows of their state moved, and how many there
    are; and for how long the slowest one worked, s.
    """
    at = told[0].tick.at
    return {
        SHARDS: len(at.shards), MOVES: bool(at.moves), MOVED_ROWS: moved,
        KEPT: sum(status.kept for status in told), BUSY: max(status.busy for status in told),
    }  # fmt: skip
