"""The streams that a quality target is tried on: real ones, calibrated ones, adversarial ones.

Every stream is event times and values in the order of arrival. Nothing is said of one but its
window and its values.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import slack

from penstock.core.window import WindowSpec

SECOND = slack.SECOND
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
DAYS, EVERY = 10, 2 * SECOND
"""Of an adversarial stream: how long, and from one record to the next on average."""
CHANGE = 5 * DAY
"""When something happens in it."""


@dataclass(frozen=True)
class Case:
    """A stream under a window.

    Attributes:
        name: of the stream with its window.
        window: size and slide.
        read: gives the stream.
        change: event time at which its regime changes, us; none: it does not.
    """

    name: str
    window: WindowSpec
    read: Callable[[], slack.Stream]
    change: int | None = None


def tumbling(size: int) -> WindowSpec:
    """Windows one after the other."""
    return WindowSpec(size, size)


def real(folder: Path) -> Iterator[Case]:
    """Data sets below a folder, a data.parquet each in the order of arrival."""
    for name, data, column, sizes in (
        ("aircraft", "d1_aircraft_sites", "lat", (5 * MINUTE, 15 * MINUTE, HOUR)),
        ("Zeek DNS", "d4_zeek_dns", "rtt", (SECOND,)),
        ("Zeek SSL", "d4_zeek_ssl", "sport", (SECOND,)),
        ("UMTS", "d5_ooo_umts", "bytes", (SECOND,)),
        ("quakes", "x_usgs_quakes", "mag", (HOUR,)),
        ("edits", "d3_wiki_edits", "added", (10 * SECOND,)),
    ):
        for size in sizes:
            path = folder / data / "data.parquet"
            yield Case(
                f"{name} {spoken(size)}",
                tumbling(size),
                lambda path=path, column=column, lag=name == "edits": read(path, column, lag=lag),
            )


def spoken(us: int) -> str:
    """A span in short."""
    for unit, name in ((HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if us >= unit:
            return f"{us / unit:g} {name}"
    return f"{us / 1e6:g} s"


def read(path: Path, column: str, *, lag: bool) -> slack.Stream:
    """A data set; with a lag laid over it, if it has none of its own."""
    table = pq.read_table(path, columns=["arrival_seq", "event_time", column])
    table = table.sort_by("arrival_seq")
    times = np.asarray(table["event_time"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
    values = np.asarray(pc.fill_null(table[column].cast(pa.float64()), 0.0))
    if not lag:
        return slack.Stream(times, values)
    rng = np.random.default_rng(14)
    delay = rng.lognormal(np.log(4.0 * SECOND), 1.2, len(times))
    return arrived(times, values, np.where(rng.random(len(times)) < 0.4, delay, 0.0))


def arrived(times: np.ndarray, values: np.ndarray, delay: np.ndarray) -> slack.Stream:
    """Records in the order in which they come."""
    order = np.argsort(times + delay, kind="stable")
    return slack.Stream(times[order], values[order])


def games() -> Iterator[Case]:
    """The calibrated streams of ``slack.py``."""
    for game in slack.GAMES.values():
        yield Case(game.name, slack.WINDOW, lambda game=game: slack.calibrated(game))


def adversarial() -> Iterator[Case]:
    """Ten days of a record every 2 s in windows of 5 min, each with one thing that goes wrong."""
    for name, make, change in (
        ("polls of 10 min", polls, None),
        ("outage of 2 h", outage, CHANGE),
        ("lateness trebles", trebles, CHANGE),
        ("follows the hour", by_hour, None),
        ("values decide", by_value, None),
    ):
        yield Case(name, tumbling(5 * MINUTE), lambda make=make: made(make), change)
    yield Case("clocks 1 h off", tumbling(5 * MINUTE), clocks)


def others(folder: Path) -> Iterator[Case]:
    """Streams that came after ``quantile`` was done: nothing was chosen by them."""
    for name, data, column, window in (
        ("aircraft 1 h, each 15 min", "d1_aircraft_sites", "lat", WindowSpec(HOUR, HOUR // 4)),
        ("Zeek SSL 5 s, each 1 s", "d4_zeek_ssl", "sport", WindowSpec(5 * SECOND, SECOND)),
        ("edits 1 min", "d3_wiki_edits", "added", tumbling(MINUTE)),
    ):
        path, lag = folder / data / "data.parquet", name.startswith("edits")
        yield Case(name, window, lambda p=path, c=column, lag=lag: read(p, c, lag=lag))
    for number, (name, make, window) in enumerate((
        ("heavy tails 1 min", heavy, tumbling(MINUTE)),
        ("weekends 5 min", weekends, tumbling(5 * MINUTE)),
        ("an outage a day 5 min", outages, tumbling(5 * MINUTE)),
        ("polls 1 min", polls, tumbling(MINUTE)),
        ("values decide 1 min", by_value, tumbling(MINUTE)),
        ("follows the hour 10 min, each 2 min", by_hour, WindowSpec(10 * MINUTE, 2 * MINUTE)),
    )):  # fmt: skip
        yield Case(name, window, lambda make=make, seed=number: made(make, seed))


Delays = Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]


def made(delays: Delays, seed: int = 14) -> slack.Stream:
    """A stream whose records are late by so much, of their times and values."""
    rng, times, values = drawn(seed)
    return arrived(times, values, delays(rng, times, values))


def drawn(seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """Event times and values; the generator goes on."""
    rng = np.random.default_rng(seed)
    count = DAYS * DAY // EVERY
    times = np.sort(rng.integers(0, DAYS * DAY, count))
    return rng, times, rng.exponential(1.0, count)


def usual(rng: np.random.Generator, count: int, mean: float = 40.0 * SECOND) -> np.ndarray:
    """A log-normal delay of a third of the records."""
    delay = rng.lognormal(np.log(mean) - 0.5, 1.0, count)
    return np.where(rng.random(count) < 1 / 3, delay, 0.0)


def polls(rng: np.random.Generator, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A fifth of the sources hands its records over every ten minutes."""
    polled = rng.random(len(times)) < 0.2
    wait = -times % (10 * MINUTE)
    return np.where(polled, wait, usual(rng, len(times)))


def outage(rng: np.random.Generator, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """One of four sources is cut off for two hours, then brings all of it."""
    cut = (times >= CHANGE) & (times < CHANGE + 2 * HOUR) & (rng.random(len(times)) < 0.25)
    return np.where(cut, CHANGE + 2 * HOUR - times, usual(rng, len(times)))


def trebles(rng: np.random.Generator, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """From the middle on everything is three times as late."""
    return usual(rng, len(times)) * np.where(times >= CHANGE, 3.0, 1.0)


def by_hour(rng: np.random.Generator, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """By day ten times as late as by night."""
    height = 1 + 4.5 * (1 - np.cos(2 * np.pi * (times % DAY) / DAY))
    return usual(rng, len(times), 15.0 * SECOND) * height


def by_value(rng: np.random.Generator, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The greater the value, the later."""
    return usual(rng, len(times)) * values**2


def heavy(rng: np.random.Generator, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A third is late by a Pareto delay, whose variance is infinite; two days at most."""
    delay = 20.0 * SECOND * (1 + rng.pareto(1.1, len(times)))
    return np.where(rng.random(len(times)) < 1 / 3, np.minimum(delay, 2.0 * DAY), 0.0)


def weekends(rng: np.random.Generator, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """On two days of seven everything is eight times as late."""
    return usual(rng, len(times)) * np.where(times // DAY % 7 >= 5, 8.0, 1.0)


def outages(rng: np.random.Generator, times: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Each day half of the sources is cut off for half an hour."""
    cut = (times % DAY < HOUR // 2) & (rng.random(len(times)) < 0.5)
    return np.where(cut, HOUR // 2 - times % DAY, usual(rng, len(times)))


def clocks() -> slack.Stream:
    """One of twenty sources has a clock an hour slow, another an hour fast."""
    rng, times, values = drawn(14)
    order = np.argsort(times + usual(rng, len(times)), kind="stable")
    source = rng.integers(0, 20, len(times))
    off = np.where(source == 0, -HOUR, np.where(source == 1, HOUR, 0))
    return slack.Stream((times + off)[order], values[order])
