"""Spark's way into the log: a streaming source that takes whole sealed blocks, for several steps.

``latestOffset`` folds each step's slack policy over the records of the new blocks, and the
watermarks at which windows close become part of the offset: a replay never recomputes them.
Source: Spark 4.2 admission control for Python sources.
"""

import pickle
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.columns.marks import NO_MARKS, Marks
from penstock.columns.packets import PACKET
from penstock.config.settings import Settings
from penstock.core.batch_size import BatchSize, Bounds, Measured
from penstock.core.crash import reached
from penstock.core.shedding import between
from penstock.core.slack import BlockSummary
from penstock.lake.history.generation import numbered
from penstock.lake.history.offset import Offset, StepOffset
from penstock.lake.history.spans import marks_before
from penstock.lake.log.blocks import EventTimes
from penstock.lake.log.revisions import revisions
from penstock.lake.log.sheds import sheds_of
from penstock.lake.log.side import SideReader
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import DataFile, data_files, of_streams
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables
from penstock.spark.follow import Follower, StepStart, Waiting
from penstock.spark.moved import moved_file
from penstock.spark.nodes import Tasks
from penstock.spark.roster import Roster
from penstock.spark.scan import Gets, Part, Work, cut, scan
from penstock.spark.shards import Shards
from penstock.spark.tick import Tick

FORMAT = "penstock_log"


@dataclass(frozen=True)
class SourceSpec:
    """All the source has to know.

    Attributes:
        tables: where the log lies.
        events: the table of events as the pipeline file declares it.
        roster: file that says which steps there are.
        shards: ids for shards, enough for every step; those of a row lie in different tasks.
        tasks: into how many tasks a micro-batch is cut, where no cluster tells of its nodes.
        bounds: of the records at which a micro-batch takes no further block.
    """

    tables: Tables
    events: TableSpec
    roster: Path
    shards: tuple[tuple[int, ...], ...]
    tasks: int
    bounds: Bounds

    @staticmethod
    def read(path: Path) -> "SourceSpec":
        """What this application has told."""
        spec = pickle.loads(path.read_bytes())  # noqa: S301  written by this application
        assert isinstance(spec, SourceSpec)  # noqa: S101
        return spec


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
        return LogReader(SourceSpec.read(Path(self.options["spec"])))


class LogReader(DataSourceStreamReader):
    """Takes sealed blocks from the log."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self._events: Table | None = None
        self._roster = Roster(spec.roster)
        self._times: dict[tuple[str, ...], EventTimes] = {}
        self._followers: list[Follower] = []
        self._waiting: Waiting | None = None
        self._tasks: Tasks | None = None
        self._given: tuple[Offset, int, float] | None = None
        self._found: tuple[Offset, BatchSize, str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Only what the tasks need: a table must not cross into a forked worker."""
        return {"spec": replace(self.spec, shards=())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["spec"])  # type: ignore[misc]

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        """Before the first micro-batch no step stands anywhere."""
        reached("speed begin")
        return Offset().to_json()

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: ARG002, N802
        """The end of the next micro-batch; of a step that has nothing to do, where it stands."""
        self._look()
        begins, asked = Offset.from_json(start), time.monotonic()
        if not self._followers:
            return start
        former = begins.size or BatchSize.first(self.spec.bounds)
        before = self._before(begins)
        waiting = self._blocks(min(at.block for at in before.values()))
        first = max(at.seq for at in before.values())
        if waiting.last < first + former.records:
            waiting.look()
        self._found = self._sized(begins, former, asked, waiting.last - first)
        shards = Shards(self.spec.shards, before)
        after = {f.start.step.id: self._next(f, before[f.start.step.id], waiting, shards)
                 for f in self._followers}  # fmt: skip
        if after == before:
            return start
        ends = Offset(after, *self._found[1:], shards.usual)
        taken = max(after[name].seq - at.seq for name, at in before.items())
        self._given = ends, taken, time.monotonic()
        return ends.to_json()

    @staticmethod
    def _next(
        follower: Follower, before: StepOffset, waiting: Waiting, shards: "Shards"
    ) -> StepOffset:
        """Where a step's part of the micro-batch ends."""
        wanted = follower.start.shards or shards.usual
        if before.number < 0 or before.moves or len(before.shards) == wanted:
            return follower.next(before, waiting)
        return follower.giving(before, shards.take(wanted, before.shards))

    def _sized(
        self, begins: Offset, former: BatchSize, now: float, waiting: int
    ) -> tuple[Offset, BatchSize, str]:
        """The size of the micro-batch that begins there, by how long the former one took.

        That had ended when this was first asked: since then Spark may have waited for records.
        """
        if self._found is not None and self._found[0] == begins:
            return self._found
        last = Measured(0, 0.0, waiting)  # another process began it
        if self._given is not None and self._given[0] == begins:
            _, records, since = self._given
            last = Measured(records, now - since, waiting)
        return begins, *former.after(last, self.spec.bounds)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Part]:  # type: ignore[override]
        """The tasks of a micro-batch; the first also tells what the whole is about."""
        self._look()
        assert self._events is not None  # noqa: S101
        reached("speed cut")
        delta = self._events.refresh()
        files = data_files(delta, "arrival_seq")
        read = {name for f in self._followers for name in f.start.step.streams}
        files = of_streams(delta, files, replace(self.spec.events, streams=tuple(read)))
        ends = Offset.from_json(end)
        moves = [*self._moves(Offset.from_json(start), ends)]
        wanted: dict[tuple[int, int], list[Work]] = {}
        for begun, before, after in moves:
            step, shards = begun.step, after.shards
            own = Work(step, shards, Marks.from_text(after.marks))
            wanted.setdefault((before.seq + 1, after.seq), []).append(own)
            if after.number == 0:
                seed = Work(step, shards, self._past(begun), seed=before.state.watermark,
                            revised=self._revised(begun))  # fmt: skip
                wanted.setdefault((-1, before.seq), []).append(seed)
        parts = [part for span, works in wanted.items() for part in self._cut(span, works, files)]
        ticks = tuple((_tick(*move, ends), move[0].to_text()) for move in moves)
        gets = tuple(
            Gets(str(moved_file(self.spec.roster.parent, step.id, before)), step, after.shards)
            for step, before, after in ((begun.step, *at) for begun, *at in moves)
            if before.moves
        )
        first, *rest = parts or [Part(0, -1, (), ())]
        return [replace(first, ticks=ticks, gets=gets), *rest]

    def _past(self, begun: StepStart) -> Marks:
        """Of the records before a generation, as far as its state hangs on them."""
        tables, step, start = self.spec.tables, begun.step, begun.generation
        epoch, decisions = numbered(tables, step, start.epoch), Table(tables.decisions())
        sheds = between(sheds_of(decisions, step, epoch.seq), 0, start.seq)
        if not step.by_span:
            return replace(NO_MARKS, sheds=sheds)
        return marks_before(tables, self._log(step.streams), step, start)

    def _revised(self, begun: StepStart) -> pa.Table | None:
        """What was revised in the history of a step over answers."""
        step = begun.step
        if step.above is None:
            return None
        epoch = numbered(self.spec.tables, step, begun.generation.epoch)
        return revisions(self._log(step.streams), step.above, epoch.seq)

    def read(self, partition: Part) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """Partials of one part; the first part's begin with a message to each shard."""
        return scan(partition, self.spec.events, SideReader(self.spec.tables))

    def _log(self, streams: tuple[str, ...]) -> Table:
        """The events of some streams; none: of the only one."""
        assert self._events is not None  # noqa: S101
        return Table(replace(self.spec.events, streams=streams)) if streams else self._events

    def _look(self) -> None:
        """See which steps there are.

        Tables are opened in the process that uses them: deltalake does not survive a fork.
        """
        if self._events is None:
            self._events = Table(self.spec.events)
            self._tasks = Tasks(self.spec.tasks, Settings())
        if (starts := self._roster.news()) is None:
            return
        known = {follower.start.run: follower for follower in self._followers}
        self._followers = [known.get(start.run) or self._follower(start) for start in starts]

    def _follower(self, start: StepStart) -> Follower:
        streams, tables = start.step.streams, self.spec.tables
        if streams not in self._times:
            self._times[streams] = EventTimes(self._log(streams))
        times, decisions = self._times[streams], Table(tables.decisions())
        return Follower(start, tables, times, decisions, self._take)

    def _before(self, offset: Offset) -> dict[str, StepOffset]:
        """Where each step stands; one that has just begun gets shards that nobody uses."""
        found: dict[str, StepOffset] = {}
        shards = Shards(self.spec.shards, offset.steps)
        for start in (follower.start for follower in self._followers):
            name = start.step.id
            at = offset.of(name, start.generation.number)
            if at is None:
                at = start.offset(shards.take(start.shards or shards.usual))
            found[name] = at
        return found

    def _blocks(self, first: int) -> Waiting:
        """Spark repeats a logged micro-batch without asking: blocks may have been passed."""
        if self._waiting is None or not self._waiting.holds(first):  # a step came that is behind
            self._waiting = Waiting(self.spec.tables, first)
        self._waiting.forget(first)
        return self._waiting

    def _take(self, blocks: Sequence[BlockSummary], seq: int) -> Sequence[BlockSummary]:
        """Blocks of the next micro-batch: as many records as it may have, or one block more."""
        assert self._found is not None  # noqa: S101  the size is known before the blocks are
        most = self._found[1].records
        whole = (at for at, b in enumerate(blocks) if b.last_seq >= seq + most)
        return blocks[: next(whole, len(blocks)) + 1]

    def _moves(
        self, before: Offset, after: Offset
    ) -> Iterator[tuple[StepStart, StepOffset, StepOffset]]:
        """The steps for which a micro-batch does something, with where it begins and ends.

        What is repeated for a generation that was replaced since does nothing.
        """
        for start in (follower.start for follower in self._followers):
            name, number = start.step.id, start.generation.number
            at = after.of(name, number)
            if at is not None and at != (was := before.of(name, number)):
                yield start, was or start.offset(at.shards), at

    def _cut(
        self, span: tuple[int, int], works: list[Work], files: Sequence[DataFile]
    ) -> Iterator[Part]:
        assert self._tasks is not None  # noqa: S101
        for a, b in cut(max(span[0], 0), span[1], self._tasks.now):
            yield Part(a, b, tuple(f.path for f in files if f.holds(a, b)), tuple(works))


def _tick(start: StepStart, before: StepOffset, after: StepOffset, ends: Offset) -> Tick:
    name, records = start.step.id, after.seq - before.seq
    size = 0 if ends.size is None else ends.size.records
    fresh = tuple(set(after.shards) - set(before.shards)) if before.moves else ()
    return Tick(name, before.state.watermark, records, after, size, ends.reason, fresh)
