"""Durations and schedules as people say them."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from cron_descriptor import Options, get_description
from croniter import croniter

from penstock.core.window import micros


def in_words(cron: str) -> str:
    """A cron line as people say it: ``every 15 minutes``."""
    options = Options()
    options.use_24hour_time_format = True
    options.locale_code = "en_US"
    said = str(get_description(cron, options))
    return said[:1].lower() + said[1:]


def next_run(cron: str, now: datetime) -> datetime:
    """When a cron line, read in UTC, is due after an instant."""
    due: datetime = croniter(cron, now.astimezone(UTC)).get_next(datetime)
    return due


SECOND, MINUTE = 1_000_000, 60_000_000
UNITS = (("d", 24 * 60 * MINUTE), ("h", 60 * MINUTE), ("min", MINUTE), ("s", SECOND))


def spoken(span: timedelta | int) -> str:
    """A duration as people write it: ``1 h 30 min``, ``500 ms``; at most two units.

    Args:
        span: a duration, or its microseconds.
    """
    whole = span if isinstance(span, int) else micros(span)
    left, sign = abs(whole), "-" if whole < 0 else ""
    if left < MINUTE:
        small = f"{left / 1_000:g} ms" if left else "0 s"
        return sign + (small if left < SECOND else f"{left / SECOND:.3g} s")
    last = next(low for (_, high), (_, low) in pairwise(UNITS) if left >= high)
    left = round(left / last) * last
    parts: list[str] = []
    for unit, length in UNITS:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {unit}")
    return sign + " ".join(parts)
