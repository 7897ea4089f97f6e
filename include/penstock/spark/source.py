"""Spark's way into the log: a streaming source that takes whole sealed blocks.

``latestOffset`` folds the slack policy over the records of the new blocks, and the watermarks at
which windows close become part of the offset: a replay never recomputes them. The tasks read only
the columns they need and pre-aggregate before a row reaches Spark (Mars).
Source: Mars (pre-aggregation in the mapper); Spark 4.2 admission control for Python sources.
"""

import json
import pickle
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.columns.groups import hash_rows
from penstock.columns.marks import Marks
from penstock.columns.types import INSTANT
from penstock.columns.windows import closed_of, windows_a_pane
from penstock.core.controller import Measured
from penstock.core.crash import reached
from penstock.core.slack import BlockSummary, SlackChange, WatermarkState
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.lake.commit import Table
from penstock.lake.fold import Fold
from penstock.lake.generation import FORM, Generation
from penstock.lake.log import (
    newest_live,
    newest_live_before,
    slack_changes,
    summaries,
)
from penstock.lake.read import Tail, data_files, read_pieces
from penstock.lake.tables import Tables, TableSpec
from penstock.spark.layout import Layout
from penstock.spark.mapper import Classes, columns_of, map_records
from penstock.spark.wire import (
    CLASSES,
    PACKET,
    PARTIAL,
    PUNCTUATION,
    SEED,
    Wire,
    message,
    packets,
)

FORMAT = "penstock_log"
TOLD = ("block", "seq", "t_max", "k", "slack", "controller", "coverage", "marks")
"""What the sink hears of an offset."""
WHOLE = 20_000
"""Fewer records are not worth a second task."""


@dataclass(frozen=True)
class SourceSpec:
    """All the source has to know; it travels as text.

    Attributes:
        step: the step.
        tables: where the log lies.
        events: the table of events as the pipeline file declares it.
        generation: where to start, and from which state.
        past: watermarks in force in the epoch before the generation.
        shards: ids of the reducer's shards.
        tasks: into how many tasks a micro-batch is cut.
        records: a micro-batch takes no further block once it has so many.
    """

    step: StepSpec
    tables: Tables
    events: TableSpec
    generation: Generation
    past: Marks
    shards: tuple[int, ...]
    tasks: int
    records: int

    def to_text(self) -> str:
        """For an option of the source."""
        return b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def from_text(text: str) -> "SourceSpec":
        """Read back what ``to_text`` wrote in this application."""
        spec = pickle.loads(b64decode(text))  # noqa: S301  written by this application
        assert isinstance(spec, SourceSpec)  # noqa: S101
        return spec


@dataclass(frozen=True)
class Part(InputPartition):
    """What one task reads: positions [first, last] in some files."""

    first: int
    last: int
    paths: tuple[str, ...]
    marks: Marks
    seed: bool = False
    told: dict[str, Any] | None = None


class LogSource(DataSource):
    """``format("penstock_log")``."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Packets."""
        return from_arrow_schema(PACKET)

    def streamReader(self, schema: StructType) -> "LogReader":  # noqa: ARG002, N802  Spark's name
        """The reader."""
        return LogReader(SourceSpec.from_text(self.options["spec"]))


class LogReader(DataSourceStreamReader):
    """Takes sealed blocks from the log."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self._blocks: Tail | None = None
        self._events: Table | None = None
        self._fold: Fold | None = None
        self._waiting: list[BlockSummary] = []
        self._newest = BEGINNING
        self._decisions: Table | None = None
        self._known: tuple[int, tuple[SlackChange, ...]] = (-1, ())

    def __getstate__(self) -> dict[str, Any]:
        """Only what the tasks need: a table must not cross into a forked worker."""
        return {"spec": self.spec}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["spec"])  # type: ignore[misc]

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        """Where the generation starts; the same however often it is asked."""
        reached("speed begin")
        start = self.spec.generation
        return {
            "block": start.block,
            "seq": start.seq,
            "watermark": start.state.watermark,
            "t_max": start.state.t_max,
            "k": start.state.k,
            "slack": start.state.slack,
            "controller": start.controller,
            "first": True,
            "form": FORM,
        }

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: ARG002, N802
        """The end of the next micro-batch: whole blocks, and the watermarks in them.

        A generation's first one may hold no block: it seals the start and loads the seed.
        """
        if isinstance(start, str):
            start = json.loads(start)
        self._open()
        self._follow(start["block"])
        assert self._blocks is not None  # noqa: S101
        assert self._fold is not None  # noqa: S101
        if not self._waiting or self._waiting[-1].last_seq < start["seq"] + self.spec.records:
            self._waiting.extend(summaries(self._blocks.take()))
        self._pass(start["block"])
        taken = self._next(start["seq"])
        if not taken and not start["first"]:
            return start
        state = WatermarkState(start["watermark"], start["t_max"], start["k"], start["slack"])
        fold = self._fold
        fold.start(state, start["seq"], self._newest, start["controller"])
        fold.take(taken, self._decided())
        state = fold.state
        reached("speed offset")
        return {
            "block": taken[-1].number + 1 if taken else start["block"],
            "seq": taken[-1].last_seq if taken else start["seq"],
            "watermark": state.watermark,
            "t_max": state.t_max,
            "k": state.k,
            "slack": state.slack,
            "controller": fold.controller,
            "coverage": _coverage(fold.measured),
            "first": False,
            "form": FORM,
            "marks": Marks.of(fold.marks).to_text(),
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Part]:  # type: ignore[override]
        """The tasks of a micro-batch; the first also tells what the whole is about."""
        self._open()
        assert self._events is not None  # noqa: S101
        reached("speed cut")
        files = data_files(self._events.refresh(), "arrival_seq")
        marks = Marks.from_text(end["marks"])
        told = {
            "from": start["watermark"],
            "to": end["watermark"],
            "records": end["seq"] - start["seq"],
            **{k: end[k] for k in TOLD},
        }
        parts = [
            Part(a, b, tuple(f.path for f in files if f.holds(a, b)), marks)
            for a, b in _cut(start["seq"] + 1, end["seq"], self.spec.tasks)
        ]
        if start["first"] and start["seq"] >= 0:
            parts += [
                Part(a, b, tuple(f.path for f in files if f.holds(a, b)), self.spec.past, seed=True)
                for a, b in _cut(0, start["seq"], self.spec.tasks)
            ]
        first = parts[0] if parts else Part(0, -1, (), marks)
        return [replace(first, told=told), *parts[1:]]

    def read(self, partition: Part) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Partials of one part, by shard; the first part's begin with a message to each shard."""
        reached("speed read")
        wire, shards = Wire(self.spec.step), self.spec.shards
        if partition.told is not None:
            for shard in shards:
                yield from message(shard, PUNCTUATION, partition.told).to_batches()
        classes = Classes()
        partials = wire.to_inner(self._partials(partition, classes))
        if not partition.seed:
            yield from message(shards[0], CLASSES, classes.message()).to_batches()
        keys = [partials[k] for k in wire.layout.keys]
        which = hash_rows(keys, partials.num_rows) % len(shards)
        kind = SEED if partition.seed else PARTIAL
        for number, shard in enumerate(shards):
            mine = partials.filter(pa.array(which == number))
            yield from packets(shard, kind, mine).to_batches()

    def _partials(self, part: Part, classes: Classes) -> pa.Table:
        spec, step = self.spec, self.spec.step
        where = (pc.field("arrival_seq") >= part.first) & (pc.field("arrival_seq") <= part.last)
        reach = spec.generation.state.watermark - step.window.size
        if part.seed and reach > BEGINNING + step.window.size:
            where &= pc.field("event_time") >= pa.scalar(reach, pa.int64()).cast(INSTANT)
        layout, schema = Layout(step), spec.events.schema
        pieces = read_pieces(spec.events.uri, part.paths, schema, columns_of(step), where)
        mapped = [map_records(step, piece, part.marks, classes) for piece in pieces]
        partials = pa.concat_tables([layout.schema("pane", "closed").empty_table(), *mapped])
        if len(mapped) > 1:
            partials = layout.merge(partials, "pane", "closed")
        if part.seed:  # what had closed by then is answered already
            panes = np.asarray(partials["pane"])
            closed = closed_of(step.window, panes, spec.generation.state.watermark)
            count = windows_a_pane(step.window, panes)
            low = np.maximum(closed, np.asarray(partials["closed"]))
            partials = partials.filter(pa.array(low < count))
        return partials

    def _open(self) -> None:
        """Tables are opened in the process that uses them: deltalake does not survive a fork."""
        if self._events is not None:
            return
        self._events = Table(self.spec.events)
        self._decisions = Table(self.spec.tables.decisions())
        self._fold = Fold(self._events, self.spec.step.window)

    def _follow(self, block: int) -> None:
        """Blocks are followed from where the query goes on; those before are not read."""
        if self._blocks is None:
            self._newest = newest_live_before(self.spec.tables, block)
            self._blocks = Tail(Table(self.spec.tables.blocks()), "block", block - 1)

    def _decided(self) -> tuple[SlackChange, ...]:
        """Slack decisions; those for the blocks at hand stood before the blocks were sealed."""
        assert self._decisions is not None  # noqa: S101
        version = self._decisions.refresh().version()
        if version != self._known[0]:
            self._known = version, tuple(slack_changes(self.spec.tables, self.spec.step.name))
        return self._known[1]

    def _next(self, seq: int) -> list[BlockSummary]:
        """Blocks of the next micro-batch: as many records as it may have, or one block more."""
        whole = (at for at, b in enumerate(self._waiting) if b.last_seq >= seq + self.spec.records)
        return self._waiting[: next(whole, len(self._waiting)) + 1]

    def _pass(self, block: int) -> None:
        """Leave out the blocks before one: Spark repeats a logged micro-batch without asking."""
        passed = (b for b in self._waiting if b.number < block)
        self._newest = newest_live(passed, self._newest)
        self._waiting = [b for b in self._waiting if b.number >= block]


def _coverage(measured: list[Measured]) -> dict[str, Any] | None:
    """Of the windows that a micro-batch measured; none: there was none."""
    if not measured:
        return None
    covered = [m.coverage for m in measured]
    last = measured[-1]
    return {
        "windows_measured": len(measured),
        "windows_below": sum(m.below for m in measured),
        "coverage": sum(covered) / len(covered),
        "coverage_least": min(covered),
        "threshold": last.threshold,
        "alpha": last.alpha,
        "margin": last.margin,
    }


def _cut(first: int, last: int, tasks: int) -> list[tuple[int, int]]:
    """Cut positions [first, last] into at most so many equal runs; small ones stay whole."""
    count = last - first + 1
    if count <= 0:
        return []
    tasks = 1 if count < WHOLE else tasks
    bounds = [first + count * i // tasks for i in range(tasks + 1)]
    return [(a, b - 1) for a, b in pairwise(bounds) if b > a]
