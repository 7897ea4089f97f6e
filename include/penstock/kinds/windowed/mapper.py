"""Map: records to partials, and partials of panes to partials of windows.

Lateness is decided here and nowhere else: ``closed`` is how many of a pane's windows the
watermark in force for the record had closed (docs/concepts/timely-answers.md).
"""

from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.expressions import rows_where
from penstock.columns.marks import Marks
from penstock.columns.windows import closed_of, first_window, panes_of, windows_a_pane
from penstock.core.lateness import CLASSES
from penstock.core.step import StepSpec
from penstock.core.window import WindowSpec
from penstock.kinds.windowed.layout import layout_of

READ = ("arrival_seq", "event_time")


@dataclass(slots=True)
class Classes:
    """Records by class, and the event times of those that missed a window.

    A record of class 1 has missed none of its windows: the stream answers it. One of class 2 has
    missed some, so that both layers do; one of class 3 has missed all, and is the correction's
    alone. Source: HPM, whose bounds t_max - K and t_max - K - size say the same of the windows that
    could have closed; these are the windows that did [D].

    Attributes:
        class_1, class_2, class_3: records.
        late_from_us, late_to_us: of records that missed a window; none: there was none.
    """

    class_1: int = 0
    class_2: int = 0
    class_3: int = 0
    late_from_us: int | None = None
    late_to_us: int | None = None

    def count(self, times: Longs, missed: Longs, panes: Longs, spec: WindowSpec) -> None:
        """Add records: event times, how many windows each missed, and their panes."""
        late = np.flatnonzero(missed)
        alone = int(np.count_nonzero(missed[late] == windows_a_pane(spec, panes[late])))
        self.class_1 += len(times) - len(late)
        self.class_2 += len(late) - alone
        self.class_3 += alone
        if len(late):
            self._spread(int(times[late].min()), int(times[late].max()))

    def add(self, told: dict[str, int | None]) -> None:
        """Add what ``message`` told of other records."""
        for name in CLASSES:
            setattr(self, name, getattr(self, name) + told[name])
        if told["late_from_us"] is not None and told["late_to_us"] is not None:
            self._spread(told["late_from_us"], told["late_to_us"])

    def message(self) -> dict[str, int | None]:
        """For ``add``, elsewhere."""
        return asdict(self)

    def _spread(self, low: int, high: int) -> None:
        self.late_from_us = low if self.late_from_us is None else min(low, self.late_from_us)
        self.late_to_us = high if self.late_to_us is None else max(high, self.late_to_us)


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
        A partials table grouped by ``pane`` (start, us) and ``closed``.
    """
    layout, spec = layout_of(step), step.window
    events = _with_keys(step, rows_where(step.where, events))
    times = np.asarray(pc.cast(events["event_time"], pa.int64()))
    if spec.landmark:
        events = events.filter(pa.array(times >= spec.origin))
        times = times[times >= spec.origin]
    pane = panes_of(spec, times)
    closed = closed_of(spec, pane, marks.at(np.asarray(events["arrival_seq"])))
    if classes is not None:
        classes.count(times, closed, pane, spec)
    return layout.of_records(events, {"pane": pane, "closed": closed})


def _with_keys(step: StepSpec, events: pa.Table) -> pa.Table:
    """Without records that lack a key: they came before its column was declared.

    The door refuses such a record from then on; the audit leaves it out likewise.
    """
    for key in step.key_names:
        if events[key].null_count:
            events = events.filter(pc.is_valid(events[key]))
    return events


def to_windows(step: StepSpec, panes: pa.Table, lows: Longs, highs: Longs) -> pa.Table:
    """Give the partials of panes to windows number ``lows`` to ``highs`` of their panes.

    Args:
        step: the step.
        panes: a partials table with ``pane``.
        lows: per row, the first window, counted from the pane's earliest.
        highs: per row, one past the last window; none where high <= low.

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
    return layout.merge(spread, "window_start")
