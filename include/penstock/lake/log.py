"""The log's sealed blocks, and the watermarks that follow from them.

Everything here is a function of ``blocks``, of the event times of ``events`` and of
``decisions``: a replay, another process or an auditor gets the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.slack import (
    BlockKind,
    BlockSummary,
    SlackChange,
    SlackPolicy,
    SlackSpec,
    WatermarkState,
    spec_at,
)
from penstock.core.window import BEGINNING
from penstock.lake.commit import Table
from penstock.lake.read import data_files, read_files, read_table
from penstock.lake.tables import Tables

SLACK = "slack"
LIVE, HISTORY = "live", "history"
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


def read_summaries(tables: Tables) -> list[BlockSummary]:
    """All sealed blocks."""
    return summaries(read_table(Table(tables.blocks())))


@dataclass
class BoundedLateness:
    """Greatest lateness of a block among records that count under a bound.

    ``blocks`` holds the greatest lateness without a bound; only where that exceeds the bound
    are the event times of the block read.
    """

    events: Table
    newest: int = BEGINNING

    def applied(self, block: BlockSummary, spec: SlackSpec) -> BlockSummary:
        """The block with its lateness under the policy's bound; call once a block, in order."""
        before = self.newest
        if block.live and block.t_max is not None:
            self.newest = max(self.newest, block.t_max)
        if spec.policy is not SlackPolicy.MAX_DELAY or block.lateness <= spec.span:
            return block
        times = self._times(block)
        lateness = lateness_of(times, before)
        counted = lateness[lateness <= spec.span]
        return replace(block, lateness=int(counted.max()) if len(counted) else 0)

    def _times(self, block: BlockSummary) -> np.ndarray:
        delta = self.events.refresh()
        files = data_files(delta, "arrival_seq")
        last = block.last_seq
        wanted = [f.path for f in files if f.holds(last - MOST + 1, last)]
        where = pc.field("block") == block.number
        names = ["arrival_seq", "event_time", "block"]
        rows = read_files(self.events.spec.uri, wanted, self.events.spec.schema, names, where)
        return np.asarray(pc.cast(rows.sort_by("arrival_seq")["event_time"], pa.int64()))


def watermarks(
    start: WatermarkState,
    blocks: Iterable[BlockSummary],
    changes: Sequence[SlackChange],
    bounded: BoundedLateness,
) -> Iterator[tuple[BlockSummary, WatermarkState, WatermarkState]]:
    """Each block with the state in force while it is judged and the state after it (law 0)."""
    state = start
    settled = max((change.block for change in changes), default=0)
    for block in blocks:
        spec = changes[-1].spec if block.number >= settled else spec_at(changes, block.number)
        after = state.after(bounded.applied(block, spec), spec)
        yield block, state, after
        state = after


def slack_changes(tables: Tables, step: str) -> list[SlackChange]:
    """Slack decisions of a step, in the order they were made."""
    table = Table(tables.decisions())
    rows = read_table(table).filter((pc.field("step") == step) & (pc.field("what") == SLACK))
    rows = rows.sort_by([("block", "ascending"), ("decided_at", "ascending")])
    return [SlackChange(r["block"], SlackSpec.from_text(r["value"])) for r in rows.to_pylist()]


def lateness_of(times: npt.NDArray[np.int64], t_max: int) -> npt.NDArray[np.int64]:
    """Lateness of records in arrival order, us; ``t_max``: the newest event time before them."""
    newest = np.maximum.accumulate(np.concatenate(([t_max], times)))[:-1]
    return np.where(newest == BEGINNING, 0, np.maximum(newest - times, 0))
