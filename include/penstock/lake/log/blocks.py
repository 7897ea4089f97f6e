"""The log's sealed blocks, and what was decided about slack."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.core.slack import BlockKind, BlockSummary, SlackChange, SlackSpec
from penstock.core.step import ONLY, STREAM
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.log.freezes import Freezes
from penstock.lake.storage.commit import Table
from penstock.lake.storage.damage import told
from penstock.lake.storage.read import (
    DataFile,
    Spans,
    data_files,
    greatest_first,
    of_streams,
    read_files,
    read_groups,
    read_table,
)
from penstock.lake.storage.tables import Tables

SLACK, SIDE, SHED = "slack", "side", "shed"
"""What is decided: the slack of a step, the content of a side table, what a step sheds."""
LIVE, HISTORY, REVISION = "live", "history", "revision"
"""Where records come from; a revision is an answer of a step once more, as a correction left it."""


def summaries(rows: pa.Table) -> list[BlockSummary]:
    """Rows of ``blocks`` as a slack policy sees them, in order."""
    rows = rows.sort_by("block")
    t_max = pc.cast(rows["t_max"], pa.int64()).to_pylist()
    names = ("block", "kind", "origin", "last_seq", "lateness_us", STREAM, "mark_us")
    columns = [rows[name].to_pylist() for name in names]
    return [
        BlockSummary(
            number, BlockKind(kind), origin == LIVE, last, newest, lateness, stream or ONLY, mark
        )
        for number, kind, origin, last, lateness, stream, mark, newest in zip(
            *columns, t_max, strict=True
        )
    ]


def seen_by(blocks: Sequence[BlockSummary], streams: Sequence[str]) -> list[BlockSummary]:
    """Blocks as a step over some streams sees them: those of others only pass their positions."""
    return [
        b if not streams or b.stream in streams
        else replace(b, kind=BlockKind.DATA, live=True, t_max=None, lateness=0)
        for b in blocks
    ]  # fmt: skip


def read_summaries(tables: Tables, first: int = 0, before: int | None = None) -> list[BlockSummary]:
    """Sealed blocks from one on, and before another; by default all."""
    last = FOREVER if before is None else before - 1
    return summaries(read_table(Table(tables.blocks()), within=Spans("block", ((first, last),))))


def next_block(tables: Tables) -> int:
    """Number of the block that is sealed next."""
    return 1 + _greatest(tables, "block")


def newest_seq(tables: Tables) -> int:
    """Number of the newest sealed record; -1: none is."""
    return _greatest(tables, "last_seq")


def _greatest(tables: Tables, column: str) -> int:
    """The greatest value of a whole-number column of ``blocks``, or -1; known from statistics."""
    table = Table(tables.blocks())
    delta = table.newest()
    if delta is None:
        return -1
    files = data_files(delta, column)
    newest = max((f.greatest for f in files if f.greatest is not None), default=-1)
    paths = [f.path for f in files if f.greatest is None]
    if not paths:
        return newest
    rows = read_files(table.spec.uri, paths, table.spec.schema, [column])
    found = pc.max(rows[column]).as_py()
    return newest if found is None else max(newest, found)


def accepted_upto(tables: Tables, seq: int) -> int:
    """Records that were accepted up to the end of a block; 0 before the first one."""
    asked = Spans("last_seq", ((seq, seq),))
    rows = read_table(Table(tables.blocks()), ["accepted_total"], within=asked)
    return pc.max(rows["accepted_total"]).as_py() or 0


def newest_live_before(tables: Tables, block: int, streams: tuple[str, ...] = ()) -> int:
    """The newest live event time before a block, us; only what may hold it is read.

    Args:
        tables: of the pipeline.
        block: number of the block.
        streams: whose; none: there is only one.
    """
    gone = (freeze.newest_of(streams) for freeze in Freezes(tables).all() if freeze.block <= block)
    table, newest = Table(tables.blocks()), max(gone, default=BEGINNING)
    delta = table.newest()
    if delta is None:
        return newest
    where = (pc.field("block") < block) & (pc.field("origin") == LIVE)
    if streams:
        where &= pc.field(STREAM).isin(pa.array(streams, pa.string()))
    both = zip(data_files(delta, "t_max"), data_files(delta, "block"), strict=True)
    some = [file for file, blocks in both if blocks.holds(0, block - 1)]
    for file in sorted(some, key=lambda f: (f.greatest is not None, -(f.greatest or 0))):
        if file.greatest is not None and file.greatest <= newest:
            break
        newest = _newest_live_in(table, file, where, newest)
    return newest


def _newest_live_in(table: Table, file: DataFile, where: pc.Expression, newest: int) -> int:
    """As ``newest_live_before`` in one file, or what was known before if that is newer."""
    uri, schema = table.spec.uri, table.spec.schema
    for greatest, rows in greatest_first(uri, file.path, schema, "t_max"):
        if greatest is not None and greatest <= newest:
            break
        with told(uri, [file.path]):
            times = rows.to_table(schema=schema, columns=["t_max"], filter=where)["t_max"]
        found = pc.max(pc.cast(times, pa.int64())).as_py()
        newest = newest if found is None else max(newest, found)
    return newest


def newest_live(blocks: Iterable[BlockSummary], newest: int) -> int:
    """The newest live event time after some blocks, us; ``newest``: before them."""
    return max([newest, *(b.t_max for b in blocks if b.live and b.t_max is not None)])


def event_times(events: Table, spans: Sequence[tuple[int, int]]) -> list[tuple[Longs, Longs]]:
    """Live records in the order of their arrival.

    Args:
        events: the table; of its spec's streams, if it names some.
        spans: first and last position of each run that is asked for.

    Returns:
        For each run the positions, and the event times, us, of its records, each of shape (n,).
    """
    within, delta = Spans("arrival_seq", tuple(spans)), events.refresh()
    files = [f for f in data_files(delta, "arrival_seq") if within.hold(f)]
    files = of_streams(delta, files, events.spec)
    paths = [f.path for f in sorted(files, key=lambda f: f.least or 0)]
    schema, mine = events.spec.schema, events.spec.mine
    names = ["arrival_seq", "event_time", *([] if mine is None else [STREAM])]
    where = within.where(schema) & (pc.field("origin") == LIVE)
    rows = read_groups(events.spec.uri, paths, schema, names, where)
    rows = rows if mine is None else rows.filter(mine)
    seqs = np.asarray(rows["arrival_seq"])
    times = np.asarray(pc.cast(rows["event_time"], pa.int64()))
    if (seqs[1:] < seqs[:-1]).any():  # a writer may swap row groups: few runs, each in order
        order = np.argsort(seqs, kind="stable")
        seqs, times = seqs[order], times[order]
    cuts = (slice(*np.searchsorted(seqs, [first, last + 1])) for first, last in spans)
    return [(seqs[cut], times[cut]) for cut in cuts]


class EventTimes:
    """``event_times`` of one table; remembers its last answer: steps that run together ask alike.

    What is sealed does not change.
    """

    def __init__(self, events: Table) -> None:
        self._events = events
        self._spans: tuple[tuple[int, int], ...] = ()
        self._found: list[tuple[Longs, Longs]] = []

    def __call__(self, spans: Sequence[tuple[int, int]]) -> list[tuple[Longs, Longs]]:
        """As ``event_times``; the arrays are not to be changed."""
        if tuple(spans) != self._spans:
            self._found = event_times(self._events, spans)
            self._spans = tuple(spans)
        return self._found


def decisions_of(table: Table, step: str) -> list[dict[str, Any]]:
    """All rows of a step, those for one block in the order they were decided."""
    rows = read_table(table).filter(pc.field("step") == step)
    return [*rows.sort_by([("block", "ascending"), ("decided_at", "ascending")]).to_pylist()]


def slack_changes(tables: Tables, step: str) -> list[SlackChange]:
    """Slack decisions of a step, in the order they were made."""
    return changes_in(decisions_of(Table(tables.decisions()), step))


def changes_in(rows: Iterable[Mapping[str, Any]]) -> list[SlackChange]:
    """The slack decisions among some rows."""
    return [
        SlackChange(row["block"], SlackSpec.from_text(row["value"]))
        for row in rows
        if row["what"] == SLACK
    ]
