"""The log's sealed blocks, and the watermarks that follow from them.

Everything here is a function of ``blocks``, of the event times of ``events`` and of
``decisions``: a replay, another process or an auditor gets the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.controller import Arrivals, Controller, Measured
from penstock.core.slack import (
    BlockKind,
    BlockSummary,
    SlackChange,
    SlackPolicy,
    SlackSpec,
    WatermarkState,
    spec_at,
)
from penstock.core.window import BEGINNING, FOREVER, WindowSpec
from penstock.lake.commit import Table
from penstock.lake.digest import digests, lateness_of
from penstock.lake.read import Spans, data_files, read_files, read_table
from penstock.lake.tables import Tables

SLACK = "slack"
LIVE, HISTORY = "live", "history"
LOOK_AHEAD = 4_096
"""Blocks whose event times are read at once."""
MOST = 4_096
"""No block was ever larger, whatever the door's limit was when it was sealed."""


def summaries(rows: pa.Table) -> list[BlockSummary]:
    """Rows of ``blocks`` as a slack policy sees them, in order."""
    rows = rows.sort_by("block")
    t_max = pc.cast(rows["t_max"], pa.int64()).to_pylist()
    names = ("block", "kind", "origin", "last_seq", "lateness_us")
    columns = [rows[name].to_pylist() for name in names]
    return [
        BlockSummary(number, BlockKind(kind), origin == LIVE, last, newest, lateness)
        for number, kind, origin, last, lateness, newest in zip(*columns, t_max, strict=True)
    ]


def read_summaries(tables: Tables, first: int = 0, before: int | None = None) -> list[BlockSummary]:
    """Sealed blocks from one on, and before another; by default all."""
    last = FOREVER if before is None else before - 1
    return summaries(read_table(Table(tables.blocks()), within=Spans("block", ((first, last),))))


def next_block(tables: Tables) -> int:
    """Number of the block that is sealed next; only the newest file is read."""
    table = Table(tables.blocks())
    if not table.exists():
        return 0
    files = data_files(table.refresh(), "block")
    newest = max((f.greatest for f in files if f.greatest is not None), default=-1)
    paths = [f.path for f in files if f.greatest is None or f.greatest == newest]
    rows = read_files(table.spec.uri, paths, table.spec.schema, ["block"])
    return 1 + max(rows["block"].to_pylist(), default=-1)


def newest_live_before(tables: Tables, block: int) -> int:
    """The newest live event time before a block, us; only files that may hold it are read."""
    table, newest = Table(tables.blocks()), BEGINNING
    if not table.exists():
        return newest
    delta, schema = table.refresh(), table.spec.schema
    where = (pc.field("block") < block) & (pc.field("origin") == LIVE)
    both = zip(data_files(delta, "t_max"), data_files(delta, "block"), strict=True)
    some = [file for file, blocks in both if blocks.holds(0, block - 1)]
    for file in sorted(some, key=lambda f: (f.greatest is not None, -(f.greatest or 0))):
        if file.greatest is not None and file.greatest <= newest:
            break
        rows = read_files(table.spec.uri, [file.path], schema, ["t_max"], where)
        found = pc.max(pc.cast(rows["t_max"], pa.int64())).as_py()
        newest = newest if found is None else max(newest, found)
    return newest


def newest_live(blocks: Iterable[BlockSummary], newest: int) -> int:
    """The newest live event time after some blocks, us; ``newest``: before them."""
    return max([newest, *(b.t_max for b in blocks if b.live and b.t_max is not None)])


@dataclass
class Seen:
    """What slack policies see of the log beyond the summaries of its blocks.

    Attributes:
        events: the table of events.
        window: the step's windows.
        newest: the newest live event time so far, us.
        text: the controller that was written down at the position the fold starts from.
        measured: windows whose coverage the fold has measured, in the order of their ends.
    """

    events: Table
    window: WindowSpec
    newest: int = BEGINNING
    text: str = ""
    measured: list[Measured] = field(default_factory=list)
    _controller: Controller | None = None
    _ahead: dict[int, Arrivals] = field(default_factory=dict)

    def go_on(self, text: str, newest: int) -> None:
        """Start a fold.

        Args:
            text: the controller there, gone on with where it is the one at hand.
            newest: newest live event time before it, us.
        """
        self.measured, self.newest, self._ahead = [], newest, {}
        if text != self.text:
            self.text, self._controller = text, None

    def controller(self) -> str:
        """To be written down; empty: the slack in force needs none."""
        if self._controller is not None:
            self.text = self._controller.to_text()
        return self.text

    def after(
        self, state: WatermarkState, blocks: Sequence[BlockSummary], at: int, spec: SlackSpec
    ) -> WatermarkState:
        """The state after block ``at``; call once a block, in order."""
        block = blocks[at]
        if spec.tuning is None:
            self._controller, self.text = None, ""
            after = state.after(self._bounded(block, spec), spec)
        else:
            after = self._steered(state, blocks, at, spec)
        self.newest = newest_live([block], self.newest)
        return after

    def _bounded(self, block: BlockSummary, spec: SlackSpec) -> BlockSummary:
        """With the greatest lateness that counts: only beyond the bound are event times read."""
        if spec.policy is not SlackPolicy.MAX_DELAY or block.lateness <= spec.span:
            return block
        lateness = lateness_of(self._times([block])[0], self.newest)
        counted = lateness[lateness <= spec.span]
        return replace(block, lateness=int(counted.max()) if len(counted) else 0)

    def _steered(
        self, state: WatermarkState, blocks: Sequence[BlockSummary], at: int, spec: SlackSpec
    ) -> WatermarkState:
        if self._controller is None and self.text:
            self._controller = Controller.from_text(self.window, spec, self.text)
        self._controller = Controller.under(self._controller, self.window, spec, state)
        block, arrivals = blocks[at], None
        if block.live and block.t_max is not None:
            if block.number not in self._ahead:
                self._look_ahead(blocks[at : at + LOOK_AHEAD])
            arrivals = self._ahead.pop(block.number)
        after, measured = self._controller.fold(state, block.kind, arrivals)
        self.measured += measured
        return after

    def _look_ahead(self, blocks: Sequence[BlockSummary]) -> None:
        wanted = [b for b in blocks if b.live and b.t_max is not None]
        times = self._times(wanted)
        ends = np.cumsum([len(some) for some in times])
        found = digests(np.concatenate(times), ends, self.newest, self.window)
        self._ahead = dict(zip((b.number for b in wanted), found, strict=True))

    def _times(self, blocks: Sequence[BlockSummary]) -> list[npt.NDArray[np.int64]]:
        """Event times of blocks in arrival order, us."""
        delta = self.events.refresh()
        first, last = blocks[0].last_seq - MOST + 1, blocks[-1].last_seq
        files = sorted(data_files(delta, "arrival_seq"), key=lambda f: f.least or 0)
        wanted = [f.path for f in files if f.holds(first, last)]
        low, high = blocks[0].number, blocks[-1].number
        where = (pc.field("block") >= low) & (pc.field("block") <= high)
        names = ["arrival_seq", "event_time", "block"]
        rows = read_files(self.events.spec.uri, wanted, self.events.spec.schema, names, where)
        seqs, numbers = np.asarray(rows["arrival_seq"]), np.asarray(rows["block"])
        times = np.asarray(pc.cast(rows["event_time"], pa.int64()))
        if (seqs[1:] < seqs[:-1]).any():  # a writer may swap row groups: few runs, each in order
            order = np.argsort(seqs, kind="stable")
            times, numbers = times[order], numbers[order]
        cuts = np.searchsorted(numbers, [[b.number, b.number + 1] for b in blocks])
        return [times[a:b] for a, b in cuts]


def watermarks(
    start: WatermarkState,
    blocks: Iterable[BlockSummary],
    changes: Sequence[SlackChange],
    seen: Seen,
) -> Iterator[tuple[BlockSummary, WatermarkState, WatermarkState]]:
    """Each block with the state in force while it is judged and the state after it (law 0)."""
    state, taken = start, [*blocks]
    settled = max((change.block for change in changes), default=0)
    for at, block in enumerate(taken):
        spec = changes[-1].spec if block.number >= settled else spec_at(changes, block.number)
        after = seen.after(state, taken, at, spec)
        yield block, state, after
        state = after


def decisions_of(table: Table, step: str) -> list[dict[str, Any]]:
    """All rows of a step, those for one block in the order they were decided."""
    rows = read_table(table).filter(pc.field("step") == step)
    return [*rows.sort_by([("block", "ascending"), ("decided_at", "ascending")]).to_pylist()]


def slack_changes(tables: Tables, step: str) -> list[SlackChange]:
    """Slack decisions of a step, in the order they were made."""
    rows = decisions_of(Table(tables.decisions()), step)
    return [
        SlackChange(row["block"], SlackSpec.from_text(row["value"]))
        for row in rows
        if row["what"] == SLACK
    ]
