from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.runtime.demo.local_clocks import LocalClocks

ZONES = ["America/New_York", "America/Phoenix", "America/Puerto_Rico", "Pacific/Honolulu"]
CLOCKS = LocalClocks(ZONES, datetime(2012, 12, 20, tzinfo=UTC), datetime(2014, 1, 12, tzinfo=UTC))
MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def nearest(zone: str, reading: str, expected: str) -> str:
    hours, minutes = map(int, reading.split(":"))
    found = CLOCKS.nearest(
        np.array([ZONES.index(zone)]),
        np.array([hours * 60 + minutes]),
        np.array([(datetime.fromisoformat(expected) - EPOCH) // MINUTE]),
    )
    return (EPOCH + int(found[0]) * MINUTE).isoformat(timespec="minutes").removesuffix("+00:00")


@pytest.mark.parametrize(
    ("zone", "reading", "expected", "instant"),
    [
        # winter: UTC-5, summer: UTC-4
        ("America/New_York", "08:30", "2013-01-05T13:00Z", "2013-01-05T13:30"),
        ("America/New_York", "08:30", "2013-07-05T13:00Z", "2013-07-05T12:30"),
        # zones whose clocks never change
        ("America/Phoenix", "08:20", "2013-07-04T15:20Z", "2013-07-04T15:20"),
        ("America/Puerto_Rico", "09:52", "2013-07-04T13:50Z", "2013-07-04T13:52"),
        ("Pacific/Honolulu", "12:42", "2013-01-10T22:36Z", "2013-01-10T22:42"),
        # the day before or after is nearer than the same day
        ("America/New_York", "23:50", "2013-01-05T05:10Z", "2013-01-05T04:50"),
        ("America/New_York", "00:10", "2013-01-05T04:50Z", "2013-01-05T05:10"),
        # midnight has two names
        ("America/New_York", "24:00", "2013-01-02T04:50Z", "2013-01-02T05:00"),
        ("America/New_York", "00:00", "2013-01-02T04:50Z", "2013-01-02T05:00"),
        # 2013-11-03: 01:00 to 02:00 is shown from 05:00 to 06:00 UTC, and again until 07:00
        ("America/New_York", "01:20", "2013-11-03T05:15Z", "2013-11-03T05:20"),
        ("America/New_York", "01:15", "2013-11-03T06:10Z", "2013-11-03T06:15"),
        ("America/New_York", "01:30", "2013-11-03T06:00Z", "2013-11-03T05:30"),
        # around it
        ("America/New_York", "00:59", "2013-11-03T05:30Z", "2013-11-03T04:59"),
        ("America/New_York", "02:00", "2013-11-03T06:30Z", "2013-11-03T07:00"),
        # 2013-03-10: 02:00 to 03:00 is never shown; as if the clock had not been changed yet
        ("America/New_York", "01:59", "2013-03-10T06:42Z", "2013-03-10T06:59"),
        ("America/New_York", "02:03", "2013-03-10T06:42Z", "2013-03-10T07:03"),
        ("America/New_York", "03:00", "2013-03-10T06:42Z", "2013-03-10T07:00"),
    ],
)
def test_a_reading_is_taken_at_the_instant_nearest_to_the_expected_one(
    zone: str, reading: str, expected: str, instant: str
) -> None:
    assert nearest(zone, reading, expected) == instant


changes = [datetime(2013, 3, 10, 7, tzinfo=UTC), datetime(2013, 11, 3, 6, tzinfo=UTC)]


@settings(max_examples=40, deadline=None)
@given(
    zone=st.sampled_from(ZONES),
    minute_of_day=st.integers(0, 1439),
    change=st.sampled_from(changes),
    minutes_away=st.integers(-2000, 2000),
)
def test_no_other_instant_with_that_reading_is_nearer(
    zone: str, minute_of_day: int, change: datetime, minutes_away: int
) -> None:
    expected = (change - EPOCH) // MINUTE + minutes_away
    there = ZoneInfo(zone)
    shown = []
    for instant in range(expected - 1500, expected + 1500):
        local = (EPOCH + instant * MINUTE).astimezone(there)
        if local.hour * 60 + local.minute == minute_of_day:
            shown.append(instant)
    best = min(shown, key=lambda instant: (abs(instant - expected), instant))

    found = CLOCKS.nearest(
        np.array([ZONES.index(zone)]), np.array([minute_of_day]), np.array([expected])
    )

    local = (EPOCH + int(found[0]) * MINUTE).astimezone(there)
    skipped = local.hour * 60 + local.minute != minute_of_day
    if skipped:  # a reading of the skipped hour: nothing to compare it with
        assert zone == "America/New_York"
        assert 120 <= minute_of_day < 180
    else:
        assert found[0] == best
