"""Intervals of a file: event times, rows or bytes, and what of them no plan has taken."""

from collections.abc import Sequence

from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.ingest.item import Item

Span = tuple[int, int]


def is_span(item: Item) -> bool:
    """Whether it is a part by event time."""
    return item.since is not None or item.until is not None


def span_of(item: Item) -> Span:
    """Event times of a part, us."""
    low = BEGINNING if item.since is None else item.since
    return low, FOREVER if item.until is None else item.until


def wanted(since: int | None, until: int | None) -> Span:
    """Event times that are asked for, us; none: all."""
    return BEGINNING if since is None else since, FOREVER if until is None else until


def extent_of(item: Item) -> Span:
    """Rows or bytes of a part."""
    return item.first, item.end if item.end >= 0 else FOREVER


def is_stopped(taken: Sequence[Item], since: int | None, until: int | None) -> bool:
    """Whether an interval is asked for of a file of which only some rows or bytes were taken."""
    if not taken or (since is None and until is None) or any(map(is_span, taken)):
        return False
    return bool(minus((0, FOREVER), [*map(extent_of, taken)]))


def minus(whole: Span, taken: Sequence[Span]) -> list[Span]:
    """What of an interval no other covers, ascending."""
    left = [whole]
    for low, high in taken:
        left = [
            part
            for a, b in left
            for part in ((a, min(b, low)), (max(a, high), b))
            if part[0] < part[1]
        ]
    return sorted(left)


def is_whole(items: Sequence[Item]) -> bool:
    """Whether parts are all rows, or bytes, of a file."""
    return not any(map(is_span, items)) and not minus((0, FOREVER), [*map(extent_of, items)])
