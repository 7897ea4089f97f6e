"""A query and the correction over the real tables, in this process: no JVM.

``LocalQuery`` runs the real source, mapper, reducer and sink of a query, and keeps a checkpoint
folder in Spark's form, so that the decision "go on or begin anew" reads real files.
"""

import json
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.packets import PACKET
from penstock.config.pipeline import Pipeline
from penstock.core.place import path_of
from penstock.core.slack import BlockSummary
from penstock.core.step import StepSpec
from penstock.lake.history.generation import Generation
from penstock.lake.history.plans import CorrectionPlan
from penstock.lake.history.registry import Registry
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from penstock.spark.chunks import Grid
from penstock.spark.corrector import Corrector
from penstock.spark.follow import StepStart
from penstock.spark.query import RUNS
from penstock.spark.recompute import mapping, reducing
from penstock.spark.results import Writer
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
        dies: called before each thing that lasts is written to the checkpoint.
        shards: into how many each step's state is to be cut; 0: as it is, or two.
    """

    def __init__(
        self,
        tables: Tables,
        pipeline: Pipeline,
        query: str,
        clock: Any,
        *,
        blocks: int = 1_000,
        dies: Callable[[], None] = lambda: None,
        shards: int = 0,
    ) -> None:
        self.steps, self.dies = pipeline.queries[query], dies
        begun = Registry(tables, clock, pipeline, shards).start(query, self.steps)
        self.generations = begun.generations
        events = tables.events(pipeline.types)
        starts = tuple(StepStart(s, begun.generations[s.name]) for s in self.steps)
        self.hand = Writer(tables, starts, clock).packets
        self.shards = begun.shards or 2
        ids = tuple(
            tuple(range(n, n + self.shards)) for n in range(0, 20 * self.shards, self.shards)
        )
        spec = SourceSpec(tables, events, starts, ids, 2, 1_000_000)
        self.reader = BlockReader(spec)
        self.reader.blocks = blocks
        self.folder = path_of(begun.checkpoint)
        self.stands_still: dict[str, str] = {}
        sinks = [StepSink(tables, step, begun.generations[step.name], clock)
                 for step in self.steps]  # fmt: skip
        self.sink = QuerySink(sinks, lambda *_: None, self.stands_still.__setitem__)
        for name in ("offsets", "commits", "state"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

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
        rows = reduce(self.steps, states, pa.concat_tables(incoming), hand=self.hand, folder=runs)
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


class LocalCorrector(Corrector):
    """The correction runner with its two Spark jobs done in this process."""

    def __init__(self, tables: Tables, pipeline: Pipeline, step: StepSpec, clock: Any) -> None:
        super().__init__(None, tables, pipeline, step, clock)

    def _range(self, plan: CorrectionPlan) -> tuple[int, int]:
        times = self._times(plan)
        if not len(times):
            return 0, 0
        size = self.step.window.size
        low, high = int(times.min()) - size, min(int(times.max()), plan.watermark - size) + 1
        low = low if plan.since is None else max(low, plan.since)
        return low, (high if plan.until is None else min(high, plan.until))

    def _counted(
        self, plan: CorrectionPlan, grid: Grid, spans: list[tuple[int, int]]
    ) -> tuple[Any, Any]:
        times = self._times(plan)
        inside = np.zeros(len(times), bool)
        for since, until in spans:
            inside |= (times >= since) & (times < until)
        return np.unique((times[inside] - grid.low) // grid.width, return_counts=True)

    def _times(self, plan: CorrectionPlan) -> Any:
        return np.asarray(pc.cast(self._events(plan)["event_time"], pa.int64()))

    def _panes_since(self, plan: CorrectionPlan) -> np.ndarray:
        events, window = self._events(plan), self.step.window
        times = np.asarray(pc.cast(events["event_time"], pa.int64()))
        new = np.asarray(events["arrival_seq"]) > plan.after_seq
        if plan.watermark > plan.answered:
            new |= times >= plan.answered - window.size
        return np.unique([window.pane_of(int(at)) for at in times[new]]).astype(np.int64)

    def _recompute(
        self, plan: CorrectionPlan, low: int, high: int, wanted: pa.Table | None
    ) -> pa.Table:
        asked, keys = self._asked(plan, low, high, wanted)
        events = self._events(plan)
        if not self.step.by_key:
            times = np.asarray(pc.cast(events["event_time"], pa.int64()))
            inside = np.zeros(len(times), bool)
            for since, until in self._spans(plan, low, high, asked.starts):
                inside |= (times >= since) & (times < until)
            events = events.filter(pa.array(inside))
        mapped = list(mapping(self.step, self.events.schema, 2, keys)(iter(events.to_batches())))
        found = [self.wire.answers.empty_table()]
        if mapped:
            parts = pa.Table.from_batches(mapped)
            reduced = reducing(self.step, asked)
            shards = sorted(set(parts["shard"].to_pylist()))
            found += [reduced(parts.filter(pc.equal(parts["shard"], shard))) for shard in shards]
        return self._of_the_plan(plan, pa.concat_tables(found), wanted)

    def _events(self, plan: CorrectionPlan) -> pa.Table:
        names = ["arrival_seq", "event_time", "block", *self.step.columns]
        upto = pc.field("arrival_seq") <= plan.through_seq
        return read_table(Table(self.events), names, upto)
