"""Map: records to partials, and partials of panes to partials of windows.

Lateness is decided here and nowhere else: ``closed`` is how many of a pane's windows the
watermark in force for the record's block had closed (docs/concepts/timely-answers.md).
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.step import StepSpec
from penstock.core.window import WindowSpec
from penstock.lake.tables import CLASSES
from penstock.spark.evaluate import rows_where
from penstock.spark.kernel import Longs
from penstock.spark.layout import Layout

READ = ("arrival_seq", "event_time")


@dataclass(frozen=True, slots=True)
class Marks:
    """Watermarks in force: ``watermarks[i]`` from position ``seqs[i]`` on; both ascending."""

    seqs: tuple[int, ...]
    watermarks: tuple[int, ...]

    @staticmethod
    def add(marks: list[tuple[int, int]], seq: int, watermark: int, window: WindowSpec) -> None:
        """Note the watermark in force from a position on, if a window ended since the last noted.

        No other can change how many windows of a pane are closed.
        """
        if not marks or window.ends(marks[-1][1]) != window.ends(watermark):
            marks.append((seq, watermark))

    @classmethod
    def of(cls, marks: Sequence[tuple[int, int]]) -> "Marks":
        """From pairs (position, watermark)."""
        return cls(tuple(seq for seq, _ in marks), tuple(mark for _, mark in marks))

    def to_text(self) -> str:
        """For an offset: of 15,000 blocks about 60 kilobytes."""
        steps = np.diff(np.array([self.seqs, self.watermarks], np.int64), prepend=0)
        return b64encode(zlib.compress(steps.tobytes(), 1)).decode()

    @classmethod
    def from_text(cls, text: str) -> "Marks":
        """Read back what ``to_text`` wrote."""
        steps = np.frombuffer(zlib.decompress(b64decode(text)), np.int64).reshape(2, -1)
        seqs, watermarks = np.cumsum(steps, axis=1).tolist()
        return cls(tuple(seqs), tuple(watermarks))

    def at(self, seqs: Longs) -> Longs:
        """Watermark in force for the records at these positions, us."""
        watermarks = np.array(self.watermarks, np.int64)
        if len(seqs) and bool((seqs[1:] >= seqs[:-1]).all()):
            cuts = np.searchsorted(seqs, np.array(self.seqs[1:], np.int64))
            return np.repeat(watermarks, np.diff(cuts, prepend=0, append=len(seqs)))
        position = np.searchsorted(np.array(self.seqs), seqs, side="right") - 1
        return watermarks[np.maximum(position, 0)]


@dataclass(slots=True)
class Classes:
    """Records by class, and the event times of those that missed a window.

    A record of class 1 waits in the buffer: its event time is above the watermark. One of class
    2 is up to a window's size behind it: some of its windows may have closed. One of class 3 is
    further behind: all have. Source: HPM, with its boundary points.

    Attributes:
        class_1, class_2, class_3: records.
        late_from_us, late_to_us: of records that missed a window; none: there was none.
    """

    class_1: int = 0
    class_2: int = 0
    class_3: int = 0
    late_from_us: int | None = None
    late_to_us: int | None = None

    def count(self, times: Longs, watermarks: Longs, closed: Longs, size: int) -> None:
        """Add records: event times, the watermarks they met, how many windows each missed."""
        waiting = int(np.count_nonzero(times > watermarks))
        passed = int(np.count_nonzero(times < watermarks - size))
        self.class_1 += waiting
        self.class_2 += len(times) - waiting - passed
        self.class_3 += passed
        if closed.any():
            late = times[closed > 0]
            self._spread(int(late.min()), int(late.max()))

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
    """Pre-aggregate records by (key, pane, closed).

    Args:
        step: the step.
        events: the columns of ``columns_of``.
        marks: the watermark in force at each position.
        classes: counts the records.

    Returns:
        A partials table grouped by ``pane`` (start, us) and ``closed``.
    """
    layout, spec = Layout(step), step.window
    events = _with_keys(step, rows_where(step.where, events))
    times = np.asarray(pc.cast(events["event_time"], pa.int64()))
    if spec.landmark:
        events = events.filter(pa.array(times >= spec.origin))
        times = times[times >= spec.origin]
    pane = (times - spec.origin) // spec.pane * spec.pane + spec.origin
    watermarks = marks.at(np.asarray(events["arrival_seq"]))
    closed = closed_of(spec, pane, watermarks)
    if classes is not None:
        classes.count(times, watermarks, closed, spec.size)
    return layout.of_records(events, {"pane": pane, "closed": closed})


def _with_keys(step: StepSpec, events: pa.Table) -> pa.Table:
    """Without records that lack a key: they came before its column was declared.

    The door refuses such a record from then on; the audit leaves it out likewise.
    """
    for key in step.key_names:
        if events[key].null_count:
            events = events.filter(pc.is_valid(events[key]))
    return events


def first_window(spec: WindowSpec, panes: Longs) -> Longs:
    """Start of the earliest window that holds each pane (``WindowSpec.first_window``)."""
    past = panes + spec.pane - spec.size - spec.origin
    return -(-past // spec.slide) * spec.slide + spec.origin


def windows_a_pane(spec: WindowSpec, panes: Longs) -> Longs:
    """How many windows hold each pane."""
    last = (panes - spec.origin) // spec.slide * spec.slide + spec.origin
    return (last - first_window(spec, panes)) // spec.slide + 1


def closed_of(spec: WindowSpec, panes: Longs, watermarks: Longs | int) -> Longs:
    """How many windows of each pane have closed (``WindowSpec.closed_of``)."""
    first = panes if spec.slide == spec.size else first_window(spec, panes)
    past = watermarks - spec.size - first
    closed = np.zeros(len(panes), np.int64)
    some = np.flatnonzero(past >= 0)  # of a stream's newest records: few
    if len(some):
        count = windows_a_pane(spec, panes[some])
        closed[some] = np.minimum(past[some] // spec.slide + 1, count)
    return closed


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
    layout, spec = Layout(step), step.window
    copies = np.maximum(highs - lows, 0)
    rows = np.repeat(np.arange(panes.num_rows), copies)
    offset = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
    first = first_window(spec, np.asarray(panes["pane"]))
    start = first[rows] + (lows[rows] + offset) * spec.slide
    spread = panes.take(pa.array(rows)).append_column("window_start", pa.array(start))
    return layout.merge(spread, "window_start")
