"""A shard's results on their way into ``late`` and ``answers``.

Few of them travel as rows, and the driver writes them. Many are written where they are made, by the
reducer's task, as a data file of their table; what travels is the file's name and its sums. Such a
file is no row before the driver's commit names it. A task that Spark repeats writes another file,
and only the one whose message arrives is named: maintenance removes the others after a day.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.transaction import AddAction

from penstock.columns import packets as kinds
from penstock.columns.packets import ANSWER, WRITTEN, message, messages_in, packets, table_in
from penstock.columns.types import INSTANT, instants
from penstock.core.clock import Clock
from penstock.core.crash import reached
from penstock.core.errors import TerminalError, TransientError
from penstock.core.step import StepSpec
from penstock.kinds.frame import frame_of
from penstock.kinds.wire import SHED as MISSED
from penstock.lake.history.position import LATE, SHED, SPEED
from penstock.lake.storage.drafts import write_file
from penstock.lake.storage.durable import sync_file
from penstock.lake.storage.room import UnwrittenError
from penstock.lake.storage.tables import Tables
from penstock.spark.follow import StepStart
from penstock.spark.tick import Tick

LARGE = 2 << 20
"""Bytes of a shard's results from which on its task writes them: fewer were many small files."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What all rows of a step's micro-batch have in common; ``published_at``: written then."""

    generation: int
    epoch: int
    micro_batch: int
    published_at: datetime


class StepRows:
    """Makes rows of ``late`` and ``answers`` of one step's partials, wherever that is."""

    def __init__(self, tables: Tables, step: StepSpec) -> None:
        self.step, self.wire = step, frame_of(step).wire(step)
        late, answers = tables.late(step, self.wire.layout.fields), tables.answers(step)
        self.specs = {kinds.LATE: late, ANSWER: answers}

    def of(self, kind: int, partials: pa.Table, stamp: Stamp) -> pa.Table:
        """Rows of the table of a kind.

        Args:
            kind: LATE or ANSWER.
            partials: of windows.
            stamp: of the micro-batch.

        Raises:
            TerminalError: a value has no place in the answers.
        """
        count = partials.num_rows
        start = np.asarray(partials["window_start"])
        columns = {
            **self.wire.known_by(partials),
            "window_start": instants(start),
            "window_end": instants(start + self.step.window.size),
            "n_records": partials["n_records"],
            "generation": pa.repeat(stamp.generation, count),
            "micro_batch": pa.repeat(stamp.micro_batch, count),
            "published_at": pa.repeat(pa.scalar(stamp.published_at, INSTANT), count),
            **(self._late(partials) if kind == kinds.LATE else self._answers(partials, stamp)),
        }
        schema = self.specs[kind].schema
        return pa.table({name: columns[name] for name in schema.names}).cast(schema)

    def _late(self, partials: pa.Table) -> dict[str, Any]:
        parts = {f.name: partials[f.name] for f in self.wire.layout.fields}
        reason = pc.if_else(pc.equal(partials[MISSED.name], 1), SHED, LATE)
        return parts | {"last_seq": partials["last_seq"], "reason": reason}

    def _answers(self, partials: pa.Table, stamp: Stamp) -> dict[str, Any]:
        count = partials.num_rows
        return self.wire.layout.finish(partials) | {
            "revision": pa.repeat(0, count),
            "reason": pa.repeat(SPEED, count),
            "epoch": pa.repeat(stamp.epoch, count),
            "plan": pa.nulls(count, pa.int64()),
            "through_seq": partials["last_seq"],
        }


class Writer:
    """Hands a shard's results over in a reducer's task: as rows, or written.

    Args:
        tables: of the log.
        clock: tells when something was written.
    """

    def __init__(self, tables: Tables, clock: Clock) -> None:
        self._tables, self._clock = tables, clock
        self._large = LARGE  # of the driver: it travels with this

    def packets(
        self, shard: int, kind: int, partials: pa.Table, tick: Tick, start: StepStart
    ) -> pa.Table:
        """What the driver gets of the results of one kind."""
        if partials.nbytes < self._large or not partials.num_rows:
            return packets(shard, kind, partials)
        try:
            written = self._written(kind, partials, tick, start)
            told = {"rows": partials.num_rows, "file": asdict(written)}
        except (TerminalError, UnwrittenError) as failed:  # the driver says it, of this step alone
            told = {"error": str(failed), "terminal": isinstance(failed, TerminalError)}
        return message(shard, WRITTEN, {"kind": kind, **told})

    def _written(self, kind: int, partials: pa.Table, tick: Tick, start: StepStart) -> AddAction:
        of, at = StepRows(self._tables, start.step), tick.at
        stamp = Stamp(at.generation, start.generation.epoch, at.number, self._clock.now())
        spec = of.specs[kind]
        rows = of.of(kind, partials, stamp)
        reached("before result")
        file = write_file(spec, rows)
        sync_file(spec.uri, "")
        reached("after result")
        return file


@dataclass(frozen=True, slots=True)
class Result:
    """What a step's shards have given of one kind for a micro-batch.

    Attributes:
        partials: that are to be written still.
        files: that hold the others.
        rows: how many there are in both.
    """

    partials: pa.Table
    files: tuple[AddAction, ...]
    rows: int

    @classmethod
    def of(cls, received: pa.Table, kind: int, schema: pa.Schema) -> "Result":
        """Gather what came.

        Raises:
            TerminalError: a task says so.
            TransientError: a task could not write its file.
        """
        told = [m for m in messages_in(received, WRITTEN) if m["kind"] == kind]
        for failed in (m for m in told if "error" in m):
            raise (TerminalError if failed["terminal"] else TransientError)(failed["error"])
        partials = table_in(received, kind, schema)
        files = tuple(AddAction(**m["file"]) for m in told)
        return cls(partials, files, sum(m["rows"] for m in told) + partials.num_rows)
