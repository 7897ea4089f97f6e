"""Doubles that work and remember: clocks, Spark's state and query without a JVM, and death.

``LocalQuery`` runs a step's real source, mapper, reducer and sink, and keeps a checkpoint folder
in Spark's form, so that the decision "go on or begin a new generation" reads real files.
"""

import json
import pickle
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.columns.groups import hash_rows
from penstock.columns.marks import Marks, note
from penstock.columns.types import ARROW, INSTANT
from penstock.columns.watermark import after_each, closings
from penstock.config.pipeline import Pipeline
from penstock.core.measure import ColumnType
from penstock.core.place import path_of
from penstock.core.slack import BlockKind, BlockSummary
from penstock.core.slack import WatermarkState as State
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.lake.commit import Table
from penstock.lake.correction import CorrectionPlan
from penstock.lake.generation import Generation
from penstock.lake.offset import StepOffset
from penstock.lake.read import read_table
from penstock.lake.registry import Registry
from penstock.lake.tables import Tables
from penstock.spark.chunks import Grid
from penstock.spark.correct import Corrector, _mapping, _reducing, starts_of
from penstock.spark.mapper import Classes, map_records
from penstock.spark.query import step_start
from penstock.spark.sink import QuerySink, StepSink
from penstock.spark.source import LogReader, SourceSpec
from penstock.spark.state_host import StateHost
from penstock.spark.tick import Status, Tick
from penstock.spark.wire import (
    ANSWER,
    CLASSES,
    LATE,
    PACKET,
    PARTIAL,
    STATUS,
    TICK,
    Wire,
    message,
    messages_in,
    packets,
    table_in,
)
from tests import reference as ref
from tests.steps import COLUMNS

NOON = datetime(2024, 3, 2, 12, tzinfo=UTC)


@dataclass
class FixedClock:
    """Stands still until it is moved."""

    instant: datetime = NOON

    def now(self) -> datetime:
        return self.instant

    def move(self, span: timedelta) -> None:
        self.instant += span


@dataclass
class RisingClock:
    """Every look is a millisecond after the one before."""

    instant: datetime = NOON

    def now(self) -> datetime:
        self.instant += timedelta(milliseconds=1)
        return self.instant


@dataclass
class RecordingPulse:
    """What a stream host tells its supervisor, and whether it is to stop."""

    stop_when: Callable[["RecordingPulse"], bool] = lambda _: False
    figures: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)

    def beat(self, *, step: str | None = None, **figures: Any) -> None:
        (self.figures if step is None else self.steps.setdefault(step, {})).update(figures)

    def works(self, sealed: int) -> None:
        self.figures["sealed"] = sealed

    def fail(self, error: str) -> None:
        self.figures["error"] = error

    def should_stop(self) -> bool:
        return self.stop_when(self)


# ---- Spark's state, as far as the reducer uses it -------------------------------------------


def _plain(value: Any) -> Any:
    """Values cross to the JVM by pickle: only plain Python values survive that."""
    for part in value:
        assert type(part) in {int, bytes, str, float, bool}, f"{type(part)} is not plain"
    return pickle.loads(pickle.dumps(value))  # noqa: S301


class FakeValue:
    """A value state."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    def get(self) -> Any:
        return self._content.get("value")

    def update(self, value: Any) -> None:
        self._content["value"] = _plain(value)


class FakeMap:
    """A map state; removing what is not there is an error of the caller."""

    def __init__(self, content: dict[Any, Any]) -> None:
        self._content = content

    def getValue(self, key: Any) -> Any:  # noqa: N802  Spark's name
        return self._content.get(_plain(key))

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self._content[_plain(key)] = _plain(value)

    def removeKey(self, key: Any) -> None:  # noqa: N802
        del self._content[_plain(key)]

    def clear(self) -> None:
        self._content.clear()


class FakeHandle:
    """The states of one key, by name; ``content`` is all there is to keep."""

    def __init__(self, content: dict[str, dict[Any, Any]]) -> None:
        self.content = content

    def getValueState(self, name: str, schema: str) -> FakeValue:  # noqa: N802
        return FakeValue(self.content.setdefault(name, {}))

    def getMapState(self, name: str, key: str, value: str) -> FakeMap:  # noqa: N802
        return FakeMap(self.content.setdefault(name, {}))


def reduce(
    steps: Sequence[StepSpec], states: dict[int, Any], incoming: pa.Table, pieces: int = 1
) -> pa.Table:
    """What the state host gives for one micro-batch, all shards; changes ``states``."""
    found = [PACKET.empty_table()]
    for shard in sorted(set(incoming["shard"].to_pylist())):
        rows = incoming.filter(pc.equal(incoming["shard"], shard))
        host = StateHost(steps)
        host.init(FakeHandle(states.setdefault(shard, {})))
        cuts = np.linspace(0, rows.num_rows, pieces + 1).astype(int)
        frames = [rows.slice(a, b - a).to_pandas() for a, b in pairwise(cuts)]
        for out in host.handleInputRows(shard, iter(frames), None):
            assert isinstance(out, pd.DataFrame)
            found.append(pa.Table.from_pandas(out, schema=PACKET, preserve_index=False))
        host.close()
    return pa.concat_tables(found)


# ---- one step without any table -------------------------------------------------------------


@dataclass
class Answered:
    """What a run gave, by (window start, key): measures, n_records, through or last position."""

    timely: dict[ref.Pair, dict[str, Any]] = field(default_factory=dict)
    late: dict[ref.Pair, list[pa.Table]] = field(default_factory=dict)
    open_pairs: int = 0
    batches: int = 0
    classes: Classes = field(default_factory=Classes)


@dataclass(frozen=True)
class Folded:
    """A block: its first position, the states around it, and the watermarks that close windows."""

    first: int
    before: State
    after: State
    marks: list[tuple[int, int]]


def events_of(step: StepSpec, blocks: Sequence[ref.Block]) -> pa.Table:
    """The accepted records of some blocks as the mapper reads them."""
    rows, seq = [], -1
    for number, block in enumerate(blocks):
        for record in block.records:
            seq += 1
            if record is not None:
                rows.append({**record, "arrival_seq": seq, "block": number})
    types = {c: ARROW[t] for c, t in _types(step).items()}
    fields = {"arrival_seq": pa.int64(), "event_time": pa.int64(), "block": pa.int64(), **types}
    table = pa.Table.from_pylist(rows, schema=pa.schema(fields.items()))
    return table.set_column(1, "event_time", table["event_time"].cast(INSTANT))


def _types(step: StepSpec) -> dict[str, ColumnType]:
    return {name: ColumnType(COLUMNS[name]) for name in step.columns}


def folded(step: StepSpec, blocks: Sequence[ref.Block], state: State) -> Iterator[Folded]:
    """The fold of a slack without a controller over blocks, as the product's columns do it."""
    newest, seq = BEGINNING, 0
    for block in blocks:
        rows = [(seq + i, r["event_time"]) for i, r in enumerate(block.records) if r is not None]
        seqs, times = (
            (np.array(each, np.int64) for each in zip(*rows, strict=True)) if rows else ([], [])
        )
        before, found = state, list[tuple[int, int]]()
        if block.live and block.kind == ref.DATA and rows:
            marks, state = after_each(before, times, newest, step.slack)
            some = closings(step.window, before.watermark, marks)
            found = [(int(seqs[i]) + 1, int(marks[i])) for i in some]
            newest = max(newest, int(times.max()))
        else:
            state = state.silent(BlockKind(block.kind))
        first, seq = seq, seq + len(block.records)
        yield Folded(first, before, state, found)


def answer(
    step: StepSpec, blocks: Sequence[ref.Block], cuts: Sequence[int], *, shards: int, pieces: int
) -> Answered:
    """The speed layer over blocks, cut into micro-batches before the blocks ``cuts``."""
    events, out, states = events_of(step, blocks), Answered(), dict[int, Any]()
    of, whole = np.asarray(events["block"]), [*folded(step, blocks, State())]
    for number, (lo, hi) in enumerate(pairwise(sorted({0, len(blocks), *cuts}))):
        first, last = whole[lo], whole[hi - 1]
        found = [(first.first, first.before.watermark)]
        for n in range(lo, hi):
            found += whole[n].marks
            at = whole[n].first + len(blocks[n].records)
            note(found, at, whole[n].after.watermark, step.window)
        marks = Marks.of(found)
        ids = tuple(range(shards))
        at = StepOffset(0, number, hi, -1, last.after, "", ids, marks.to_text())
        tick = Tick(step.name, first.before.watermark, 0, at)
        rows = events.filter(pa.array((of >= lo) & (of < hi)))
        _note(step, reduce([step], states, _incoming(step, rows, tick), pieces), out)
    return out


def _incoming(step: StepSpec, events: pa.Table, tick: Tick) -> pa.Table:
    wire, shards = Wire(step), tick.at.shards
    classes = Classes()
    partials = wire.to_inner(map_records(step, events, Marks.from_text(tick.at.marks), classes))
    keys = [partials[k] for k in wire.layout.keys]
    which = hash_rows(keys, partials.num_rows) % len(shards)
    out = [message(shard, TICK, tick.to_json()) for shard in shards]
    out += [packets(n, PARTIAL, partials.filter(pa.array(which == n))) for n in shards]
    out.append(message(shards[-1], CLASSES, classes.message()))
    return pa.concat_tables(out)


def _note(step: StepSpec, found: pa.Table, out: Answered) -> None:
    wire = Wire(step)
    answers = table_in(found, ANSWER, wire.windows)
    measures = wire.layout.finish(answers)
    for i, row in enumerate(answers.to_pylist()):
        pair = (row["window_start"], tuple(row[k] for k in step.key_names))
        assert pair not in out.timely, f"two timely answers of {pair}"
        values = {name: column[i].as_py() for name, column in measures.items()}
        out.timely[pair] = values | {"n_records": row["n_records"], "seq": row["last_seq"]}
    late = table_in(found, LATE, wire.windows)
    for i, row in enumerate(late.to_pylist()):
        pair = (row["window_start"], tuple(row[k] for k in step.key_names))
        out.late.setdefault(pair, []).append(late.slice(i, 1))
    told = [Status.from_json(content) for content in messages_in(found, STATUS)]
    out.open_pairs = sum(status.open_pairs for status in told)
    for status in told:
        out.classes.add(status.classes.message())
    out.batches += 1


def late_sums(step: StepSpec, found: dict[ref.Pair, list[pa.Table]]) -> dict[ref.Pair, Any]:
    """Late pairs summed over micro-batches: law 0 speaks of these sums."""
    layout, out = Wire(step).layout, {}
    for pair, parts in found.items():
        total = layout.merge(pa.concat_tables(parts), "window_start")
        values = {name: column[0].as_py() for name, column in layout.finish(total).items()}
        counts = {"n_records": total["n_records"][0].as_py(), "seq": total["last_seq"][0].as_py()}
        out[pair] = values | counts
    return out


def assert_same(
    expected: dict[ref.Pair, ref.Answer],
    found: dict[ref.Pair, dict[str, Any]],
    tolerance: float = 1e-15,
    *,
    position: bool = True,
) -> None:
    """Same windows and keys, every measure the same, counts and positions exactly."""
    missing, extra = expected.keys() - found.keys(), found.keys() - expected.keys()
    assert not missing, f"missing answers: {sorted(missing, key=str)[:5]} of {len(missing)}"
    assert not extra, f"answers too many: {sorted(extra, key=str)[:5]} of {len(extra)}"
    for pair, wanted in expected.items():
        got = found[pair]
        assert got["n_records"] == wanted.n_records, (pair, wanted, got)
        if position:
            assert got["seq"] == wanted.through_seq, (pair, wanted, got)
        for name, value in wanted.values.items():
            assert value.equals(got[name], tolerance), (pair, name, value, got[name])


def rows_by_pair(step: StepSpec, rows: pa.Table, position: str) -> dict[ref.Pair, dict[str, Any]]:
    """Rows of ``answers`` by window start and key, which must be unique."""
    starts = pc.cast(rows["window_start"], pa.int64()).to_pylist()
    out: dict[ref.Pair, dict[str, Any]] = {}
    for start, row in zip(starts, rows.to_pylist(), strict=True):
        pair = (start, tuple(row[k] for k in step.key_names))
        assert pair not in out, f"two answers of {pair}"
        out[pair] = row | {"seq": row[position]}
    return out


def late_by_pair(step: StepSpec, rows: pa.Table) -> dict[ref.Pair, dict[str, Any]]:
    """Rows of ``late`` summed by window start and key."""
    layout = Wire(step).layout
    at = rows.schema.get_field_index("window_start")
    plain = rows.set_column(at, "window_start", pc.cast(rows["window_start"], pa.int64()))
    wanted = layout.schema("window_start")
    merged = layout.merge(plain.select(wanted.names).cast(wanted), "window_start")
    measures = layout.finish(merged)
    out = {}
    for i, row in enumerate(merged.to_pylist()):
        pair = (row["window_start"], tuple(row[k] for k in step.key_names))
        values = {name: column[i].as_py() for name, column in measures.items()}
        out[pair] = values | {"n_records": row["n_records"], "seq": row["last_seq"]}
    return out


def blocks_of(tables: Tables, pipeline: Pipeline) -> list[ref.Block]:
    """The sealed log as the oracle takes it; every number must stand exactly once."""
    names = ["arrival_seq", "event_time", *pipeline.types]
    events = read_table(Table(tables.events(pipeline.types)), names)
    at = events.schema.get_field_index("event_time")
    events = events.set_column(at, "event_time", pc.cast(events["event_time"], pa.int64()))
    records: dict[int, Any] = {}
    for row in events.to_pylist():
        assert row["arrival_seq"] not in records, f"number {row['arrival_seq']} stands twice"
        records[row["arrival_seq"]] = row
    for seq in read_table(Table(tables.quarantine()), ["arrival_seq"])["arrival_seq"].to_pylist():
        assert seq not in records, f"number {seq} stands twice"
        records[seq] = None
    sealed = read_table(Table(tables.blocks())).sort_by("block").to_pylist()
    out, next_seq = [], 0
    for number, row in enumerate(sealed):
        assert (row["block"], row["first_seq"]) == (number, next_seq), f"a gap before {row}"
        next_seq = row["last_seq"] + 1
        rows = tuple(records[s] for s in range(row["first_seq"], next_seq))
        accepted = sum(r is not None for r in rows)
        assert (row["accepted"], row["quarantined"]) == (accepted, len(rows) - accepted), row
        out.append(ref.Block(rows, row["kind"], row["origin"] == "live"))
    return out


# ---- one step over the real tables, without a JVM -------------------------------------------


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
    ) -> None:
        self.steps, self.dies = pipeline.queries[query], dies
        begun = Registry(tables, clock, pipeline).start(query, self.steps)
        self.generations = begun.generations
        events = tables.events(pipeline.types)
        starts = [step_start(tables, events, s, begun.generations[s.name]) for s in self.steps]
        shards = tuple((2 * n, 2 * n + 1) for n in range(20))
        spec = SourceSpec(tables, events, tuple(starts), shards, 2, 1_000_000)
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
        rows = reduce(self.steps, states, pa.concat_tables(incoming))
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
        starts = None if wanted is None else np.unique(starts_of(wanted))
        events = self._events(plan)
        times = np.asarray(pc.cast(events["event_time"], pa.int64()))
        inside = np.zeros(len(times), bool)
        for since, until in self._spans(plan, low, high, starts):
            inside |= (times >= since) & (times < until)
        events = events.filter(pa.array(inside))
        mapped = list(_mapping(self.step, self.events.schema, 2)(iter(events.to_batches())))
        found = [self.wire.windows.empty_table()]
        if mapped:
            panes = pa.Table.from_batches(mapped)
            reduced = _reducing(self.step, plan, low, high, starts)
            shards = sorted(set(panes["shard"].to_pylist()))
            found += [reduced(panes.filter(pc.equal(panes["shard"], shard))) for shard in shards]
        table = pa.concat_tables(found)
        return self._semi_join(table, wanted) if self._by_touch(plan) else table

    def _events(self, plan: CorrectionPlan) -> pa.Table:
        names = ["arrival_seq", "event_time", "block", *self.step.columns]
        upto = pc.field("arrival_seq") <= plan.through_seq
        return read_table(Table(self.events), names, upto)


# ---- death ----------------------------------------------------------------------------------


class Killed(BaseException):
    """The process died; nothing may catch it on the way out."""


@dataclass
class Death:
    """Kills before or after a commit, by chance; ``share`` 0 spares."""

    draw: random.Random
    share: float = 0.0
    kills: int = 0

    def __call__(self) -> None:
        if self.draw.random() < self.share:
            self.kills += 1
            raise Killed


def dies_at(moment: int) -> Callable[[], None]:
    """Kills at its so manieth call, counted from one; 0 spares."""
    calls = count(1)

    def death() -> None:
        if next(calls) == moment:
            raise Killed

    return death


@contextmanager
def deadly_commits(death: Callable[[], None]) -> Iterator[None]:
    """Every commit to a table may be the last thing a process does, or the first it does not."""
    swap = Table.swap

    def wrapped(self: Table, rows: pa.Table, application: str, number: int) -> None:
        death()
        swap(self, rows, application, number)
        death()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "swap", wrapped)
        yield


def lose_memory(folder: Path, how: str) -> None:
    """Lose Spark's offset log or its newest entry, its commits and state, or a checkpoint."""
    if how == "newest":
        numbered = (path for path in (folder / "offsets").glob("*") if path.name.isdigit())
        logged = sorted(numbered, key=lambda path: int(path.name))
        for path in logged[-1:]:
            path.unlink()
        return
    names = {"offsets": ["offsets"], "commits": ["commits", "state"], "all": [""]}[how]
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
