"""Windows and the panes they are made of, in whole microseconds since the epoch (law 4).

Every instant here is an ``int``: microseconds, UTC. Intervals are [start, end).
Source: panes are Li et al. 2005, as used by Mars (pre-aggregation on small panes).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import gcd

from penstock.core.errors import ConfigError

MILLISECOND = 1_000
MAX_PANES = 1_000
"""More panes a window than this make every record cost more than its answer is worth."""

BEGINNING = -(2**62)
"""Before every event time: the watermark of a stream that has seen nothing."""
FOREVER = 2**62
"""After every event time: the watermark once a bounded source has ended."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(value: datetime | timedelta) -> int:
    """Microseconds since the epoch of an aware instant, or of a duration."""
    span = value - EPOCH if isinstance(value, datetime) else value
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def read_instant(text: str) -> datetime:
    """The aware instant of ISO 8601; one without a zone is UTC.

    Raises:
        ValueError: it is none.
    """
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def instant(us: int) -> datetime:
    """The aware instant of microseconds since the epoch; clamped to what a datetime holds."""
    low, high = micros(datetime(1, 1, 1, tzinfo=UTC)), micros(datetime(9999, 12, 31, tzinfo=UTC))
    return EPOCH + timedelta(microseconds=min(max(us, low), high))


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """Windows [origin + i slide, origin + i slide + size) for whole i; for a landmark i >= 0.

    Attributes:
        size: length of a window, us, a whole number of milliseconds.
        slide: from one start to the next, us; equal to ``size``: tumbling.
        origin: an instant at which a window starts, us.
        landmark: windows before ``origin`` do not exist, and a reader merges all from there on.
        pane: length of a pane, us: the greatest common divisor of size and slide.
        panes: panes a window.
    """

    size: int
    slide: int
    origin: int = 0
    landmark: bool = False
    pane: int = field(init=False, repr=False, compare=False)
    panes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.size <= 0 or self.slide <= 0:
            raise ConfigError("a window needs a size and a slide above zero")
        if self.slide > self.size:
            raise ConfigError(
                f"slide {timedelta(microseconds=self.slide)} is longer than size"
                f" {timedelta(microseconds=self.size)}: records in between would belong to no"
                f" window. Lower slide to at most {timedelta(microseconds=self.size)}."
            )
        pane = gcd(self.size, self.slide)
        object.__setattr__(self, "pane", pane)  # asked for with every step of a controller
        object.__setattr__(self, "panes", self.size // pane)
        if any(x % MILLISECOND for x in (self.size, self.slide, self.origin)):
            raise ConfigError("boundaries of windows are whole milliseconds: round them")
        if self.panes > MAX_PANES:
            raise ConfigError(
                f"a window of this size and slide has {self.panes:,} panes, at most {MAX_PANES:,}"
                " are allowed. Choose a slide that divides the size, or a longer slide."
            )

    def pane_of(self, event_time: int) -> int:
        """Start of the pane that holds an event time."""
        return (event_time - self.origin) // self.pane * self.pane + self.origin

    def first_window(self, pane_start: int) -> int:
        """Start of the earliest window that holds the pane (for a landmark: may not exist)."""
        past = pane_start + self.pane - self.size - self.origin
        return -(-past // self.slide) * self.slide + self.origin

    def last_window(self, pane_start: int) -> int:
        """Start of the latest window that holds the pane."""
        return (pane_start - self.origin) // self.slide * self.slide + self.origin

    def windows_of(self, event_time: int) -> Iterator[int]:
        """Starts of the windows that hold an event time, ascending; none before a landmark."""
        pane = self.pane_of(event_time)
        if self.landmark and event_time < self.origin:
            return
        yield from range(self.first_window(pane), self.last_window(pane) + 1, self.slide)

    def panes_of(self, window_start: int) -> Iterator[int]:
        """Starts of the panes of a window, ascending; their union is the window."""
        yield from range(window_start, window_start + self.size, self.pane)

    def closed_of(self, pane_start: int, watermark: int) -> int:
        """How many of the pane's windows have ended at or below the watermark.

        Windows close in the order of their ends, so the first ``closed_of`` ones are closed and
        the rest is open: a record of the pane is late exactly for the former.
        """
        first, last = self.first_window(pane_start), self.last_window(pane_start)
        count = (last - first) // self.slide + 1
        return min(max((watermark - self.size - first) // self.slide + 1, 0), count)

    def ends(self, us: int) -> int:
        """Numbers the last window that ends at or before an instant: it rises when one closes."""
        return (us - self.origin - self.size) // self.slide

    def floor(self, us: int) -> int:
        """The latest window start at or before an instant."""
        return (us - self.origin) // self.slide * self.slide + self.origin
