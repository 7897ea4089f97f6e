"""The speed layer over plain blocks, without any table: fold, mapper and state host."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.groups import hash_rows
from penstock.columns.marks import Marks, note
from penstock.columns.packets import (
    ANSWER,
    CLASSES,
    LATE,
    PACKET,
    PARTIAL,
    STATUS,
    STEP,
    TICK,
    message,
    messages_in,
    packets,
    table_in,
)
from penstock.columns.types import ARROW, INSTANT
from penstock.columns.watermark import after_each, closings
from penstock.core.measure import ColumnType
from penstock.core.shedding import between
from penstock.core.side import SideTable
from penstock.core.slack import BlockKind
from penstock.core.slack import WatermarkState as State
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.kinds.classes import Classes
from penstock.kinds.side import Sides, Version
from penstock.kinds.windowed.mapper import map_records
from penstock.kinds.windowed.wire import Wire
from penstock.lake.history.offset import StepOffset
from penstock.spark.follow import StepStart
from penstock.spark.state_host import Hand, StateHost
from penstock.spark.tick import Status, Tick
from tests import reference as ref
from tests.doubles import FakeHandle
from tests.steps import COLUMNS


def none(_: SideTable) -> tuple[Version, ...]:
    """No side data."""
    return ()


def as_rows(shard: int, kind: int, results: pa.Table, _: Tick, __: StepStart) -> pa.Table:
    """Results as they travel where nobody writes them before."""
    return packets(shard, kind, results)


def reduce(
    states: dict[int, Any],
    incoming: pa.Table,
    pieces: int = 1,
    hand: Hand = as_rows,
    folder: Path = Path(),
    sides: Sides = none,
) -> pa.Table:
    """What the state host gives for one micro-batch, all shards; changes ``states``."""
    found = [PACKET.empty_table()]
    for shard in sorted(set(incoming["shard"].to_pylist())):
        rows = incoming.filter(pc.equal(incoming["shard"], shard))
        host = StateHost(hand, folder, sides)
        host.init(FakeHandle(states.setdefault(shard, {})))
        cuts = np.linspace(0, rows.num_rows, pieces + 1).astype(int)
        frames = [rows.slice(a, b - a).to_pandas() for a, b in pairwise(cuts)]
        for out in host.handleInputRows(shard, iter(frames), None):
            assert isinstance(out, pd.DataFrame)
            found.append(pa.Table.from_pandas(out, schema=PACKET, preserve_index=False))
        host.close()
    return pa.concat_tables(found)


@dataclass
class Answered:
    """What a run gave, by (window start, key): measures, n_records, through or last position."""

    timely: dict[ref.Pair, dict[str, Any]] = field(default_factory=dict)
    late: dict[ref.Pair, list[pa.Table]] = field(default_factory=dict)
    shed: dict[ref.Pair, tuple[int, int]] = field(default_factory=dict)
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
    step: StepSpec,
    blocks: Sequence[ref.Block],
    cuts: Sequence[int],
    *,
    shards: int,
    pieces: int,
    sheds: Sequence[tuple[int, int]] = (),
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
        until = whole[hi - 1].first + len(blocks[hi - 1].records) - 1
        marks = Marks.of(found, between(sheds, first.first, until))
        ids = tuple(range(shards))
        at = StepOffset(0, number, hi, -1, last.after, "", ids, marks.to_text())
        tick = Tick(step.name, first.before.watermark, 0, at, 0, "")
        rows = events.filter(pa.array((of >= lo) & (of < hi)))
        _note(step, reduce(states, _incoming(step, rows, tick), pieces), out)
    return out


def _incoming(step: StepSpec, events: pa.Table, tick: Tick) -> pa.Table:
    wire, shards = Wire(step), tick.at.shards
    classes = Classes()
    partials = wire.to_inner(map_records(step, events, Marks.from_text(tick.at.marks), classes))
    keys = [partials[k] for k in wire.layout.keys]
    which = hash_rows(keys, partials.num_rows) % len(shards)
    text = StepStart(step, None).to_text()  # type: ignore[arg-type]  it is not asked for
    out = [message(shard, STEP, {"start": text}) for shard in shards]
    out += [message(shard, TICK, tick.to_json()) for shard in shards]
    out += [packets(n, PARTIAL, partials.filter(pa.array(which == n))) for n in shards]
    out.append(message(shards[-1], CLASSES, classes.message()))
    return pa.concat_tables(out)


def _note(step: StepSpec, found: pa.Table, out: Answered) -> None:
    wire = Wire(step)
    answers = table_in(found, ANSWER, wire.answers)
    measures = wire.layout.finish(answers)
    for i, row in enumerate(answers.to_pylist()):
        pair = (row["window_start"], tuple(row[k] for k in step.key_names))
        assert pair not in out.timely, f"two timely answers of {pair}"
        values = {name: column[i].as_py() for name, column in measures.items()}
        out.timely[pair] = values | {"n_records": row["n_records"], "seq": row["last_seq"]}
    late = table_in(found, LATE, wire.late)
    for i, row in enumerate(late.to_pylist()):
        pair = (row["window_start"], tuple(row[k] for k in step.key_names))
        if row["shed"]:
            count, last = out.shed.get(pair, (0, -1))
            out.shed[pair] = count + row["n_records"], max(last, row["last_seq"])
        else:
            out.late.setdefault(pair, []).append(late.slice(i, 1))
    told = [Status.from_json(content) for content in messages_in(found, STATUS)]
    out.open_pairs = sum(status.open_pairs for status in told)
    for status in told:
        out.classes.add(status.classes.message())
    out.batches += 1
