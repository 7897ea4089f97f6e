"""Windows and panes over columns: the vectorised form of ``penstock.core.window.WindowSpec``."""

import numpy as np

from penstock.columns.arrays import Longs
from penstock.core.window import WindowSpec


def panes_of(spec: WindowSpec, times: Longs) -> Longs:
    """Start of the pane that holds each event time (``WindowSpec.pane_of``)."""
    return (times - spec.origin) // spec.pane * spec.pane + spec.origin


def ends_of(spec: WindowSpec, watermarks: Longs) -> Longs:
    """Number of the last window that ends at or before each (``WindowSpec.ends``)."""
    return (watermarks - spec.origin - spec.size) // spec.slide


def first_window(spec: WindowSpec, panes: Longs) -> Longs:
    """Start of the earliest window that holds each pane (``WindowSpec.first_window``)."""
    past = panes + spec.pane - spec.size - spec.origin
    return -(-past // spec.slide) * spec.slide + spec.origin


def windows_a_pane(spec: WindowSpec, panes: Longs) -> Longs:
    """How many windows hold each pane."""
    last = (panes - spec.origin) // spec.slide * spec.slide + spec.origin
    return (last - first_window(spec, panes)) // spec.slide + 1


def each_window(spec: WindowSpec, panes: Longs) -> tuple[Longs, Longs]:
    """Each pane once for each window that holds it: its place among the panes, and the start."""
    counts = windows_a_pane(spec, panes)
    which = np.repeat(np.arange(len(panes)), counts)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    return which, first_window(spec, panes)[which] + nth * spec.slide


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
