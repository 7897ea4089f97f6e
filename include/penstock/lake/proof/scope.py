"""What an audit covers beside what is new: a stretch of older ground, and windows that changed.

A window that had closed at the footing is compared again where a record, a late row or an answer
came to it since, or where it waited then. What it held before was compared then, and is again when
the round comes by.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.watermark import Mark
from penstock.columns.windows import each_window, panes_of
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER, WindowSpec
from penstock.lake.history.position import Position, rows_of
from penstock.lake.log.sheds import shed_windows
from penstock.lake.proof.footing import Footing
from penstock.lake.proof.ground import Ground
from penstock.lake.proof.retrace import Plans, Span, Stretch, Trace
from penstock.lake.proof.waypoint import BEGIN
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

LEAST = 1 << 20
"""Records of older ground that an audit covers again, if there are so many: about a second."""
MOST_RUNS = 64

Run = tuple[int, int]
WHOLE = Ground()


@dataclass(frozen=True, slots=True)
class Scope:
    """Which windows an audit compares, and by what.

    Attributes:
        marks: positions from which on a watermark is in force that closes one of them, and it, us.
        watermark: at the position, us.
        spans: of micro-batches since the footing.
        again: of those of the stretch of older ground.
        seq: what came up to here stands in the footing; -1: nothing.
        closed: windows that end up to here had closed at the footing, us.
        old: of them, those that end after the first and up to the second closed in the stretch.
        starts: first and last start of the windows to compare, us; empty: all.
        cuts: positions at which watermarks become dense, or rare; each begins a run.
        lowest: windows that start earlier are frozen, us.
        gone: so are records up to here; -1: none.
    """

    marks: list[Mark]
    watermark: int
    spans: list[Span]
    again: list[Span]
    seq: int = -1
    closed: int = BEGINNING
    old: Run = (BEGINNING, BEGINNING)
    starts: tuple[Run, ...] = ()
    cuts: tuple[int, ...] = (0,)
    lowest: int = BEGINNING
    gone: int = -1

    @property
    def whole(self) -> bool:
        """Whether it is everything."""
        return not self.starts

    def reach(self, more: int = 0) -> tuple[Run, ...]:
        """Runs of window starts that are compared; ``more``: added to their ends, us."""
        every = self.starts or ((self.lowest, FOREVER),)
        return tuple((first, min(last + more, FOREVER)) for first, last in every)


def everything(trace: Trace, ground: Ground = WHOLE) -> Scope:
    """All windows of a log that was gone through as a whole, as far as it is left."""
    seq = -1 if ground.footing is None else ground.begin.seq
    return Scope(trace.marks, trace.watermark, trace.spans, [], seq=seq, lowest=ground.window_from,
                 gone=ground.begin.seq)  # fmt: skip


def older(tables: Tables, step: StepSpec, at: Position, footing: Footing) -> Stretch:
    """The stretch of older ground that is next: as much as is new, at least ``LEAST`` records.

    It ends with a micro-batch, and some window closes in it, so that an audit has something to
    compare. What was there before the epoch is one stretch with what follows.
    """
    since, head, ends = footing.old or BEGIN, footing.head, step.window.ends
    begin = max(since.seq, at.epoch.seq)
    least = room = max(at.sealed.seq - head.seq, LEAST)
    while True:
        limit = min(begin + room, head.seq)
        found = rows_of(tables, step, at, Spans("through_seq", ((begin, limit),)))
        mine = [s for s in found if since.block < s.block <= head.block]
        closing = [s for s in mine if ends(s.state.watermark) > ends(since.state.watermark)]
        if closing:
            last = mine[-1] if room == least else closing[0]
            if ends(last.state.watermark) < ends(head.state.watermark):
                return Stretch(since, last.block, last.seq)
        if closing or limit == head.seq:  # nothing closes in what is left
            return Stretch(since, head.block, head.seq)
        room *= 2


def scoped(
    step: StepSpec,
    at: Position,
    footing: Footing,
    new: Trace,
    old: Trace,
    touched: Longs,
    lowest: int = BEGINNING,
) -> Scope:
    """What is new, a stretch of older ground, and windows that changed.

    A record before, between or after these stretches is given a watermark that was in force
    earlier: it tells the windows that closed in them from others all the same.

    Args:
        step: the step.
        at: the position.
        footing: what the audit goes on from.
        new: of what came since.
        old: of the stretch of older ground.
        touched: starts of windows that had closed and changed, us.
        lowest: windows that start earlier are frozen, us.
    """
    size, head, since = step.window.size, footing.head, footing.old or BEGIN
    first = BEGINNING if since.begins else old.marks[0][1]
    before = max(at.epoch.seq, since.seq) + 1
    cuts = (0, before, old.end.seq + 1, head.seq + 1)
    marks = [
        (BEGINNING, footing.start),
        (at.epoch.seq + 1, old.marks[0][1]),
        (before, old.marks[0][1]),
        *old.marks[1:],
        (old.end.seq + 1, old.watermark),
        (head.seq + 1, head.state.watermark),
        *new.marks[1:],
    ]
    closed, last = head.state.watermark, old.watermark
    starts = [(max(first - size + 1, BEGINNING), last - size)] if last > first else []
    if closed < FOREVER:
        starts.append((max(closed - size + 1, BEGINNING), FOREVER))
    some = touched[(touched + size <= first) | (touched + size > last)]
    starts += runs(some[some + size <= closed], step.window.slide)
    kept = ((max(low, lowest), high) for low, high in sorted(starts) if high >= lowest)
    return Scope(marks, new.watermark, new.spans, old.spans, head.seq, closed, (first, last),
                 tuple(kept), cuts, lowest)  # fmt: skip


def changed(
    tables: Tables, events: TableSpec, step: StepSpec, at: Position, footing: Footing, plans: Plans
) -> Longs:
    """Starts of windows to which something came since the footing, or that waited then, us."""
    head, name = footing.head, ["window_start"]
    waits = Spans("last_seq", ((min(footing.settled, head.seq) + 1, FOREVER),))
    late = read_table(Table(tables.late(step, [])), name, within=waits)
    least = step.open_after(footing.settled_us) - step.window.size + 1  # met while it was open
    shed = shed_windows(tables, step, max(least, BEGINNING))
    done = {n: p["through_seq"] for n, p in plans.planned.items() if n in plans.done}
    said = Spans("through_seq", ((min([head.seq, *done.values()]), FOREVER),))
    new = pc.field("plan").isin(pa.array(sorted(done), pa.int64()))
    new = new | (pc.field("through_seq") >= head.seq)
    answers = read_table(Table(tables.answers(step)), name, new, said)
    closed = pa.scalar(head.state.watermark, pa.int64()).cast(pa.timestamp("us", "UTC"))
    came = Spans("arrival_seq", ((head.seq + 1, at.sealed.seq),))
    before = pc.field("event_time") < closed
    times = read_table(Table(events), ["event_time"], before, came)["event_time"]
    starts = map(_long, (late["window_start"], shed, answers["window_start"]))
    return np.unique(np.concatenate([*starts, windows_of(step.window, _long(times))]))


def windows_of(window: WindowSpec, times: Longs) -> Longs:
    """Starts of the windows that hold some event times, us."""
    _, starts = each_window(window, np.unique(panes_of(window, times)))
    return np.unique(starts)


def runs(starts: Longs, slide: int) -> list[Run]:
    """Few runs that hold all starts, ascending: where there are many, the nearest are joined."""
    if not len(starts):
        return []
    gaps = np.diff(starts)
    widest = np.argsort(-gaps, kind="stable")[: MOST_RUNS - 1]
    cuts = np.sort(widest[gaps[widest] > slide])
    first = starts[np.append(0, cuts + 1)].tolist()
    return [*zip(first, starts[np.append(cuts, len(starts) - 1)].tolist(), strict=True)]


def _long(column: pa.ChunkedArray) -> Longs:
    return np.asarray(pc.cast(column, pa.int64()), np.int64)
