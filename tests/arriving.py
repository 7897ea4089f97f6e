"""What a controller of slack sees of records, in plain Python."""

from collections import Counter

from penstock.core.controller import Arrivals
from penstock.core.lateness import bin_of
from penstock.core.overdue import key_of
from penstock.core.window import BEGINNING, WindowSpec


def arrivals(times: list[int], before: int, window: WindowSpec) -> Arrivals:
    """What a controller sees of records in arrival order; ``before``: newest event time so far."""
    lags: dict[int, int] = {}
    panes: dict[int, int] = {}
    overdue: Counter[tuple[int, int]] = Counter()
    newest, greatest = before, 0
    for time in times:
        late = 0 if newest == BEGINNING else max(0, newest - time)
        past = newest - window.pane_of(time) - window.pane + 1
        if late and past > 0:
            overdue[window.pane_of(time), key_of(past, window)] += 1
        newest, greatest = max(newest, time), max(greatest, late)
        lags[bin_of(late)] = lags.get(bin_of(late), 0) + 1
        pane = window.pane_of(time)
        panes[pane] = panes.get(pane, 0) + 1
    return Arrivals(max(times), greatest, lags, panes, overdue)
