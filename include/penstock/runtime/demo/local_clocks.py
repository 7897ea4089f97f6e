"""Readings of local clocks, turned to UTC for many rows at once."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

Minutes = NDArray[np.int64]
"""Whole minutes since 1970-01-01T00:00, of UTC or of a local clock; shape (n,)."""
Indices = NDArray[np.int64]

DAY = 1440


class LocalClocks:
    """The clocks of some zones over a span of time.

    Keeps each zone's offset for every hour of UTC. That is exact where clocks change at whole
    hours of UTC, as all of the United States do.

    Args:
        zones: IANA names; methods refer to them by their index.
        first: start of the span, aware; readings must lie at least two days inside.
        last: end of the span, aware.
    """

    def __init__(self, zones: Sequence[str], first: datetime, last: datetime) -> None:
        start = first.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        hours = int((last - start) / timedelta(hours=1)) + 1
        instants = [start + timedelta(hours=hour) for hour in range(hours)]
        self._first_hour = int(start.timestamp()) // 3600
        self._offsets = np.array([_offsets(ZoneInfo(zone), instants) for zone in zones])

    def offset(self, zone: Indices, utc: Minutes) -> Minutes:
        """How far each clock is ahead of UTC, minutes."""
        offsets: Minutes = self._offsets[zone, utc // 60 - self._first_hour]
        return offsets

    def instants(self, zone: Indices, local: Minutes) -> tuple[Minutes, Minutes]:
        """The earlier and the later instant at which a clock shows a reading.

        They differ only in a repeated hour. A reading that a clock skips is taken as if the clock
        had not been changed yet.
        """
        before, after = (self.offset(zone, local + shift) for shift in (-DAY, DAY))
        old, new = local - before, local - after
        old_shown = self.offset(zone, old) == before
        new_shown = self.offset(zone, new) == after
        earlier = np.where(new_shown & ~old_shown, new, old)
        later = np.where(new_shown, new, old)
        return earlier, later

    def nearest(self, zone: Indices, minute_of_day: Indices, expected: Minutes) -> Minutes:
        """The instant nearest to an expected one at which a clock shows a minute of the day.

        Args:
            zone: index of the zone, shape (n,).
            minute_of_day: what the clock shows, 0 to 1440 (1440 is the midnight that ends a day).
            expected: roughly when, UTC.

        Returns:
            UTC, shape (n,); of two equally near instants the earlier one.
        """
        midnight = (expected + self.offset(zone, expected)) // DAY * DAY
        best, distance = expected, np.full(len(expected), np.iinfo(np.int64).max)
        for candidate in self._readings(zone, midnight + minute_of_day % DAY):
            nearer = np.abs(candidate - expected) < distance
            best = np.where(nearer, candidate, best)
            distance = np.where(nearer, np.abs(candidate - expected), distance)
        return best

    def _readings(self, zone: Indices, local: Minutes) -> Iterator[Minutes]:
        """Yield the day before, the day itself and the day after, in order of time."""
        for shift in (-DAY, 0, DAY):
            yield from self.instants(zone, local + shift)


def _offsets(zone: ZoneInfo, instants: Sequence[datetime]) -> list[int]:
    return [
        int((instant.astimezone(zone).utcoffset() or timedelta()).total_seconds()) // 60
        for instant in instants
    ]
