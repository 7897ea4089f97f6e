"""A query and what a correction reads, over the real tables, in this process: no JVM.

``LocalQuery`` runs the real source, mapper, reducer and sink of a query, and keeps a checkpoint
folder in Spark's form, so that the decision "go on or begin anew" reads real files.
"""

import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.packets import PACKET
from penstock.config.pipeline import Pipeline
from penstock.core.batch_size import Bounds
from penstock.core.place import path_of
from penstock.core.slack import BlockSummary
from penstock.core.step import StepSpec
from penstock.kinds.frame import Asked, frame_of
from penstock.lake.history.generation import Generation
from penstock.lake.history.plans import CorrectionPlan
from penstock.lake.history.registry import Registry
from penstock.lake.history.spans import marks_of
from penstock.lake.log.revisions import newest_of, revisions
from penstock.lake.log.side import SideReader
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from penstock.spark.chunks import Grid
from penstock.spark.follow import StepStart
from penstock.spark.prefix import Spans
from penstock.spark.query import ROSTER, RUNS
from penstock.spark.recompute import mapping, reducing
from penstock.spark.results import Writer
from penstock.spark.roster import Roster
from penstock.spark.sink import QuerySink, StepSink
from penstock.spark.source import LogReader, SourceSpec
from tests.speed import reduce


class _Frame:
    """What ``foreachBatch`` hands to the sink, as far as the sink uses it."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def toArrow(self) -> pa.Table:  # noqa: N802  Spark's name
        return self._rows


class BlockReader(LogReader):
    """Takes so many blocks a micro-batch, whatever is in them."""

    blocks = 1_000

    def _take(self, blocks: Sequence[BlockSummary], seq: int) -> Sequence[BlockSummary]:
        return blocks[: self.blocks]


class LocalQuery:
    """One run of a query, with all its steps; make a new one after a death.

    Args:
        blocks: most blocks a micro-batch takes.
        bounds: of the size of micro-batches, in place of ``blocks``.
        dies: called before each thing that lasts is written to the checkpoint.
        shards: into how many each step's state is to be cut; 0: as it is, or two.
        steps: that it begins with; none: the pipeline's.
    """

    def __init__(
        self,
        tables: Tables,
        pipeline: Pipeline,
        query: str,
        clock: Any,
        *,
        blocks: int = 1_000,
        bounds: Bounds | None = None,
        dies: Callable[[], None] = lambda: None,
        shards: int = 0,
        steps: Sequence[StepSpec] | None = None,
    ) -> None:
        self.tables, self.clock, self.dies = tables, clock, dies
        self.registry = Registry(tables, clock, pipeline, shards)
        begun = self.registry.start(query, pipeline.queries[query] if steps is None else steps)
        self.generations = begun.generations
        events = tables.events(pipeline.types)
        self.hand = Writer(tables, clock).packets
        self.shards, self.sides = begun.shards or 2, SideReader(tables)
        ids = tuple(
            tuple(range(n, n + self.shards)) for n in range(0, 20 * self.shards, self.shards)
        )
        self.folder = path_of(begun.checkpoint)
        self.roster, self.starts = Roster(self.folder / ROSTER), dict[str, StepStart]()
        spec = SourceSpec(
            tables, events, self.roster.path, ids, 2, bounds or Bounds.fixed(1_000_000)
        )
        self.reader = BlockReader(spec) if bounds is None else LogReader(spec)
        self.reader.blocks = blocks  # type: ignore[attr-defined]
        self.stands_still: dict[str, str] = {}
        self.sink = QuerySink(lambda *_: None, self.stands_still.__setitem__)
        for step in pipeline.queries[query] if steps is None else steps:
            cut = begun.cut[step.id] or max(step.parallelism, 0)
            self._take(StepStart(step, begun.generations[step.id], cut))
        for name in ("offsets", "commits", "state"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def add(self, *steps: StepSpec) -> None:
        """Steps come, as to a query that runs."""
        for generation in self.registry.join(steps).values():
            step = next(each for each in steps if each.id == generation.step)
            self._take(StepStart(step, generation))

    def move(self, step: str, shards: int) -> None:
        """A step's state is to be cut into so many shards, as a host lets a query that runs."""
        self.starts[step] = replace(self.starts[step], shards=shards)
        self.roster.write([*self.starts.values()])

    def remove(self, step: str) -> None:
        """A step goes."""
        del self.starts[step]
        self.roster.write([*self.starts.values()])
        self.sink.drop(step)

    def _take(self, start: StepStart) -> None:
        self.starts[start.step.id] = start
        self.sink.add(StepSink(self.tables, start.step, start.generation, self.clock, self.folder))
        self.roster.write([*self.starts.values()])

    @property
    def generation(self) -> Generation:
        """Of its only step."""
        (found,) = self.generations.values()
        return found

    def work(self) -> bool:
        """One micro-batch, a replayed one first; whether there was one."""
        number = max(self._numbers("commits"), default=-1) + 1
        logged = self._numbers("offsets")
        start = self._offset(number - 1) if number - 1 in logged else self.reader.initialOffset()
        if number in logged:
            end = self._offset(number)
        else:
            end = self._json(self.reader.latestOffset(start, None))
            if end == self._json(start):
                return False
            self.dies()
            (self.folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(end)}")
        states = self._state(number - 1)
        incoming = [PACKET.empty_table()]
        for part in self.reader.partitions(start, end):
            reader = pickle.loads(pickle.dumps(self.reader))  # noqa: S301  as Spark sends it
            batches = list(reader.read(part))
            if batches:
                incoming.append(pa.Table.from_batches(batches))
        runs = self.folder / RUNS
        rows = reduce(
            states,
            pa.concat_tables(incoming),
            hand=self.hand,
            folder=runs,
            sides=self.sides,
        )
        self.dies()
        (self.folder / "state" / str(number)).write_bytes(pickle.dumps(states))
        self.sink(_Frame(rows), number)
        self.dies()
        (self.folder / "commits" / str(number)).write_text("v1\n{}")
        return True

    def run(self) -> "LocalQuery":
        """All that is there."""
        while self.work():
            pass
        return self

    def _numbers(self, name: str) -> set[int]:
        return {int(p.name) for p in (self.folder / name).iterdir()}

    def _offset(self, number: int) -> dict[str, Any]:
        return json.loads((self.folder / "offsets" / str(number)).read_text().splitlines()[2])

    @staticmethod
    def _json(offset: dict[str, Any]) -> dict[str, Any]:
        return json.loads(json.dumps(offset))

    def _state(self, number: int) -> dict[int, Any]:
        path = self.folder / "state" / str(number)
        return pickle.loads(path.read_bytes()) if number >= 0 else {}  # noqa: S301


class LocalPrefix:
    """The log up to a plan's position, read in this process in place of Spark's two jobs."""

    def __init__(self, tables: Tables, pipeline: Pipeline, step: StepSpec) -> None:
        self.events, self.step = Table(tables.events(pipeline.types, step.streams)), step
        self.tables, self.sides = tables, SideReader(tables)

    def extent(self, plan: CorrectionPlan) -> tuple[int, int] | None:
        times = _times(self._rows(plan))
        return (int(times.min()), int(times.max())) if len(times) else None

    def panes_since(self, plan: CorrectionPlan) -> np.ndarray:
        rows, window = self._rows(plan), self.step.window
        times, new = _times(rows), np.asarray(rows["arrival_seq"]) > plan.after_seq
        if plan.watermark > plan.answered:
            new |= times >= plan.answered - window.size
        return np.unique([window.pane_of(int(at)) for at in times[new]]).astype(np.int64)

    def counted(self, plan: CorrectionPlan, grid: Grid, spans: Spans) -> tuple[Any, Any]:
        times = _times(self._rows(plan))
        return np.unique((times[_inside(times, spans)] - grid.low) // grid.width,
                         return_counts=True)  # fmt: skip

    def answers(
        self, plan: CorrectionPlan, asked: Asked, spans: Spans | None, keys: Any
    ) -> pa.Table:
        rows, wire = self._rows(plan), frame_of(self.step).wire(self.step)
        if spans is not None:
            rows = rows.filter(pa.array(_inside(_times(rows), spans)))
        marks = marks_of(self.tables, self.events, self.step, plan)
        mapping_ = mapping(self.step, rows.schema, 2, self.sides, keys, marks)
        mapped = list(mapping_(iter(rows.to_batches())))
        found = [wire.answers.empty_table()]
        if mapped:
            parts, reduced = pa.Table.from_batches(mapped), reducing(self.step, asked, self.sides)
            shards = sorted(set(parts["shard"].to_pylist()))
            found += [reduced(parts.filter(pc.equal(parts["shard"], shard))) for shard in shards]
        return pa.concat_tables(found)

    def _rows(self, plan: CorrectionPlan) -> pa.Table:
        above = self.step.above
        more = () if above is None else above.keys
        names = dict.fromkeys(("block", *frame_of(self.step).columns(self.step), *more))
        rows = read_table(self.events, [*names], pc.field("arrival_seq") <= plan.through_seq)
        if above is None:
            return rows
        return newest_of(rows, revisions(self.events, above, plan.through_seq), above)


def _times(rows: pa.Table) -> np.ndarray:
    return np.asarray(pc.cast(rows["event_time"], pa.int64()))


def _inside(times: np.ndarray, spans: Spans) -> np.ndarray:
    inside = np.zeros(len(times), bool)
    for since, until in spans:
        inside |= (times >= since) & (times < until)
    return inside
