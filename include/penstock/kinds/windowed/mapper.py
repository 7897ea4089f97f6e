"""Map: records to partials, and partials of panes to partials of windows.

Lateness is decided here and nowhere else: ``closed`` is how many of a pane's windows the
watermark in force for the record had closed (docs/concepts/timely-answers.md).
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.expressions import rows_where, rows_with
from penstock.columns.marks import Marks
from penstock.columns.windows import closed_of, first_window, panes_of, windows_a_pane
from penstock.core.step import StepSpec
from penstock.core.window import WindowSpec
from penstock.kinds.classes import Classes
from penstock.kinds.frame import NONE_EXCLUDED
from penstock.kinds.side import Sides
from penstock.kinds.windowed.layout import layout_of
from penstock.kinds.windowed.wire import Wire

READ = ("arrival_seq", "event_time")


def columns_of(step: StepSpec) -> list[str]:
    """Columns of ``events`` the mapper reads."""
    return [*READ, *step.columns]


def map_records(
    step: StepSpec, events: pa.Table, marks: Marks, classes: Classes | None = None
) -> pa.Table:
    """Gather records by (key, pane, closed).

    Args:
        step: the step.
        events: the columns of ``columns_of``.
        marks: the watermark in force at each position.
        classes: counts the records.

    Returns:
        A partials table grouped by ``pane`` (start, us) and ``closed``; of shed records that is
        one more than a pane has windows, and they are only counted.
    """
    layout, spec = layout_of(step), step.window
    events = rows_with(step.key_names, rows_where(step.where, events))
    times = np.asarray(pc.cast(events["event_time"], pa.int64()))
    if spec.landmark:
        events = events.filter(pa.array(times >= spec.origin))
        times = times[times >= spec.origin]
    pane = panes_of(spec, times)
    seqs = np.asarray(events["arrival_seq"])
    closed = closed_of(spec, pane, marks.at(seqs))
    if classes is not None:
        _count(classes, times, closed, pane, spec)
    shed = marks.is_shed(seqs)
    if not shed.any():
        return layout.of_records(events, {"pane": pane, "closed": closed})
    closed = np.where(shed, windows_a_pane(spec, pane) + 1, closed)
    found = []
    for bare, mine in ((False, ~shed), (True, shed)):
        by, some = {"pane": pane[mine], "closed": closed[mine]}, events.filter(pa.array(mine))
        found.append(layout.of_records(some, by, bare=bare))
    return pa.concat_tables(found)


def told_apart(step: StepSpec, partials: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Of partials by pane those that came, and those that were shed, which have no parts."""
    whole = windows_a_pane(step.window, np.asarray(partials["pane"]))
    shed = pa.array(np.asarray(partials["closed"]) > whole)
    return partials.filter(pc.invert(shed)), partials.filter(shed)


def _count(classes: Classes, times: Longs, missed: Longs, panes: Longs, spec: WindowSpec) -> None:
    """Records by event times, by how many windows each missed, and by their panes."""
    late = np.flatnonzero(missed)
    alone = int(np.count_nonzero(missed[late] == windows_a_pane(spec, panes[late])))
    classes.count(len(times), times[late], alone)


def to_windows(
    step: StepSpec, panes: pa.Table, lows: Longs, highs: Longs, *, bare: bool = False
) -> pa.Table:
    """Give the partials of panes to windows number ``lows`` to ``highs`` of their panes.

    Args:
        step: the step.
        panes: a partials table with ``pane``.
        lows: per row, the first window, counted from the pane's earliest.
        highs: per row, one past the last window; none where high <= low.
        bare: they have no parts.

    Returns:
        A partials table grouped by ``window_start``.
    """
    layout, spec = layout_of(step), step.window
    copies = np.maximum(highs - lows, 0)
    rows = np.repeat(np.arange(panes.num_rows), copies)
    offset = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
    first = first_window(spec, np.asarray(panes["pane"]))
    start = first[rows] + (lows[rows] + offset) * spec.slide
    spread = panes.take(pa.array(rows)).append_column("window_start", pa.array(start))
    return layout.merge(spread, "window_start", bare=bare)


class Mapper:
    """One step's partials of some records."""

    excluded = NONE_EXCLUDED

    def __init__(self, step: StepSpec, marks: Marks, seed: int | None, sides: Sides) -> None:
        del sides
        self.step, self.marks, self.seed, self.classes = step, marks, seed, Classes()
        self.layout, self.mapped = layout_of(step), list[pa.Table]()

    def take(self, records: pa.Table) -> None:
        """Add records."""
        own = records.select(columns_of(self.step))
        self.mapped.append(map_records(self.step, own, self.marks, self.classes))

    def parts(self) -> pa.Table:
        """Partials by pane; of a state that is rebuilt without what is answered already."""
        by = ("pane", "closed")
        partials = pa.concat_tables([self.layout.schema(*by).empty_table(), *self.mapped])
        if len(self.mapped) > 1:
            came, shed = told_apart(self.step, partials)
            merged = self.layout.merge(came, *by), self.layout.merge(shed, *by, bare=True)
            partials = pa.concat_tables(merged)
        if self.seed is not None:
            window, panes = self.step.window, np.asarray(partials["pane"])
            low = np.maximum(closed_of(window, panes, self.seed), np.asarray(partials["closed"]))
            partials = partials.filter(pa.array(low < windows_a_pane(window, panes)))
        return Wire(self.step).to_inner(partials)
