"""Slack policies side by side on two calibrated streams: mean K against violations of the bound.

    python benchmarks/slack.py [--games 1 2]

Records come at 1,000 a second; some are prompt, the others late by a log-normal delay whose mean
trebles every other 30 s, and two in 10,000 by up to many seconds. The share of delayed records and
their mean delay are calibrated so that the share of late records and the mean lateness are those
published for two game servers; the greatest lateness is exactly theirs. Windows of 0.5 s sliding by
0.1 s, target (0.05, 0.05). Answers at close are held against all records, by numpy alone.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import measuring
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from penstock.columns.digest import lateness_of
from penstock.columns.marks import Marks
from penstock.columns.watermark import Steering, after_each
from penstock.core import coverage
from penstock.core.controller import EVERY
from penstock.core.controllers import fresh
from penstock.core.slack import SlackPolicy, SlackSpec, Tuning, WatermarkState
from penstock.core.window import BEGINNING, WindowSpec

SECOND = 1_000_000
WINDOW = WindowSpec(SECOND // 2, SECOND // 10)
TARGET = coverage.QualityTarget(0.05, 0.05)
HORIZON = 3 * SECOND
"""After which ``pd`` measures a window; the others find their own."""
RATE, SPELL, TREBLE = 1_000, 30.0, 3.0
OUTLIERS = 2e-4
PHI = {"MEDIAN": 0.5, "p90": 0.9}
RUNS = (
    ("max_delay", "SUM"), ("pd", "SUM"), ("pd recent", "SUM"), ("pd gentle", "SUM"),
    ("pd_final", "SUM"), ("quantile", "SUM"), ("quantile", "COUNT"), ("quantile", "AVG"),
    ("quantile", "MEDIAN"), ("quantile", "p90"),
    ("fixed 0.2 s", "SUM"), ("fixed 0.5 s", "SUM"), ("fixed 1 s", "SUM"),
)  # fmt: skip
TUNED = {
    "pd recent": {"recent": 60 * SECOND},
    "pd gentle": {"kd": 1.0, "horizon": SECOND},
    "pd_final": {"horizon": None},
    "quantile": {"horizon": None},
}
"""``pd recent``: k of the last 60 s; ``pd gentle``: a quarter of Kd, measured 1 s after the end;
``pd_final`` and ``quantile`` as by default."""


@dataclass(frozen=True)
class Game:
    """What is published of a stream: records, share late, mean and greatest lateness (us)."""

    name: str
    records: int
    late: float
    mean: float
    greatest: int


GAMES = {
    1: Game("Game 1", 544_223, 0.5758, 34_000, 14_200_000),
    2: Game("Game 2", 559_211, 0.6682, 64_000, 17_100_000),
}


@dataclass(frozen=True)
class Stream:
    """Event times in arrival order, us, with values."""

    times: np.ndarray
    values: np.ndarray

    @property
    def lateness(self) -> np.ndarray:
        return lateness_of(self.times, int(self.times[0]))


def generate(game: Game, share: float, mean: float) -> Stream:
    """A stream with so many delayed records, and their mean delay in calm spells, us."""
    rng = np.random.default_rng(20)
    n = game.records
    times = np.sort(rng.integers(0, n * SECOND // RATE, n))
    busy = (times / SECOND) % (2 * SPELL) >= SPELL
    delay = rng.lognormal(np.log(mean) - 0.5, 1.0, n) * np.where(busy, TREBLE, 1.0)
    delay = np.where(rng.random(n) < share, delay, 0.0)
    far = rng.lognormal(np.log(2.0 * SECOND), 0.8, n)
    delay = np.where(rng.random(n) < OUTLIERS, far, delay)
    times = times[np.argsort(times + np.minimum(delay, 0.95 * game.greatest), kind="stable")]
    at = n // 20  # one record is late by exactly the greatest lateness
    times[at] = times[:at].max() - game.greatest
    return Stream(times, rng.exponential(1.0, n))


def calibrated(game: Game) -> Stream:
    """Bisect the share of delayed records, and their mean delay."""
    share, mean = game.late, game.mean
    for _ in range(3):
        share = _bisect(
            lambda x, m=mean: float((generate(game, x, m).lateness > 0).mean()), game.late, 0.2, 1.0
        )
        mean = _bisect(
            lambda x, p=share: float(generate(game, p, x).lateness.mean()), game.mean, 1e3, 2e5
        )
    return generate(game, share, mean)


def _bisect(rising: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Trace:
    """K from step to step, and the watermark after each record, us."""

    slack: np.ndarray
    watermark: np.ndarray
    seconds: float


def spec_of(name: str, threshold: float) -> SlackSpec:
    """A controller for the games' target."""
    tuning = Tuning(threshold, TARGET.delta, HORIZON)
    policy = SlackPolicy(name.partition(" ")[0])
    return SlackSpec(policy, 0, replace(tuning, **TUNED.get(name, {})))


def steered(stream: Stream, spec: SlackSpec, window: WindowSpec = WINDOW) -> Trace:
    """A controller, record by record; the watermark as far as it closes windows."""
    count, newest = len(stream.times), int(stream.times[0])
    steering = Steering(fresh(window, spec), -1)
    slack, marks = [], [(0, BEGINNING)]
    began = time.perf_counter()
    for first in range(0, count, EVERY):
        slack.append(steering.controller.slack)
        times = stream.times[first : first + EVERY]
        seqs = np.arange(first, first + len(times))
        marks += steering.take(seqs, times, newest, first + len(times) - 1)
        newest = max(newest, int(times.max()))
    seconds = time.perf_counter() - began
    return Trace(np.array(slack), Marks.of(marks).at(np.arange(1, count + 1)), seconds)


def plain(stream: Stream, fixed: int | None) -> Trace:
    """``fixed``, or with none ``max_delay``."""
    policy = SlackPolicy.MAX_DELAY if fixed is None else SlackPolicy.FIXED
    spec = SlackSpec(policy, 2**60 if fixed is None else fixed)
    marks, _ = after_each(WatermarkState(), stream.times, int(stream.times[0]), spec)
    held = np.maximum.accumulate(stream.lateness) if fixed is None else np.array([fixed])
    return Trace(held, marks, 0.0)


def windows(
    stream: Stream, trace: Trace, window: WindowSpec = WINDOW, tail: int = 30 * SECOND
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Values of each closed window, and which of them were there when it closed.

    The last ``tail`` of event time is left out: not all of it has come.
    """
    order = np.argsort(stream.times, kind="stable")
    times, values = stream.times[order], stream.values[order]
    first = int(times[len(times) // 100]) // window.slide * window.slide
    starts = np.arange(first, int(stream.times.max()) - tail, window.slide)
    closing = np.searchsorted(trace.watermark, starts + window.size)
    lows = np.searchsorted(times, starts)
    highs = np.searchsorted(times, starts + window.size)
    for low, high, at in zip(lows, highs, closing, strict=True):
        yield values[low:high], order[low:high] <= at


ERRORS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "SUM": lambda v, there: abs(1 - v[there].sum() / v.sum()),
    "COUNT": lambda v, there: 1 - there.mean(),
    "AVG": lambda v, there: abs(v[there].mean() / v.mean() - 1) if there.any() else 1.0,
}


def rank_error(values: np.ndarray, there: np.ndarray, phi: float) -> float:
    """How far the rank of the answer among all is from phi."""
    if not there.any():
        return 1.0
    seen = np.sort(values[there])
    answer = seen[int(np.ceil(phi * len(seen) - 1e-9)) - 1]
    return abs((values <= answer).sum() / len(values) - phi) - 0.5 / len(values)


@dataclass
class Found:
    """What a trace made of a measure: windows, those off by epsilon, accuracy and coverage."""

    windows: int = 0
    beyond: int = 0
    error: float = 0.0
    covered: float = 0.0

    @property
    def upper(self) -> float:
        """Clopper-Pearson, 95 %, one-sided."""
        return float(stats.beta.ppf(0.95, self.beyond + 1, self.windows - self.beyond))


def violations(stream: Stream, trace: Trace, measure: str) -> Found:
    """Every closed window's answer against all of its records."""
    found = Found()
    phi = PHI.get(measure)
    for values, there in windows(stream, trace):
        error = ERRORS[measure](values, there) if phi is None else rank_error(values, there, phi)
        found.windows += 1
        found.beyond += error >= TARGET.epsilon
        found.error += max(error, 0.0)
        found.covered += there.mean()
    return found


def threshold_of(measure: str, n: int = 500, cv2: float = 1.0) -> float:
    """Realised coverage that is enough for a window of n records."""
    return {
        "SUM": lambda: coverage.of_sum(TARGET, n, cv2 - 1),
        "COUNT": lambda: coverage.of_count(TARGET) + 1 / n,
        "AVG": lambda: coverage.of_average(TARGET, n, cv2),
        "MEDIAN": lambda: coverage.of_quantile(TARGET, n, 0.5),
        "p90": lambda: coverage.of_quantile(TARGET, n, 0.9),
    }[measure]()


def main() -> None:
    """Run and print Markdown tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--games", type=int, nargs="*", default=[1, 2])
    args = parser.parse_args()
    state = measuring.machine()
    print(f"\n{state}\n")
    for game in (GAMES[g] for g in args.games):
        stream = calibrated(game)
        late = stream.lateness
        print(
            f"{game.name}: {len(late):,} records, {(late > 0).mean():.2%} late, mean"
            f" {late.mean() / 1e3:.1f} ms, max {late.max() / 1e6:.1f} s",
            flush=True,
        )
        rows, picture = [], {}
        for name, measure in RUNS:
            threshold = threshold_of(measure)
            policy, _, more = name.partition(" ")
            if policy == "max_delay":
                trace = plain(stream, None)
            elif policy == "fixed":
                trace = plain(stream, int(float(more.removesuffix(" s")) * SECOND))
            else:
                trace = steered(stream, spec_of(name, threshold))
            found = violations(stream, trace, measure)
            rate = found.beyond / found.windows
            rows.append(
                (name, measure, f"{threshold:.4f}", f"{trace.slack.mean() / 1e6:.3f}",
                 f"{found.covered / found.windows:.4f}", f"{1 - found.error / found.windows:.2%}",
                 f"{found.beyond:,} of {found.windows:,}", f"{rate:.2%}", f"{found.upper:.2%}",
                 f"{trace.seconds:.2f}")
            )  # fmt: skip
            if measure == "SUM":
                picture[name] = (trace.slack.mean() / 1e6, rate)
        headers = ("policy", "measure", "threshold", "mean K, s", "coverage", "accuracy",
                   "violations", "rate", "upper 95 %", "controller s")  # fmt: skip
        print("\n" + measuring.markdown(headers, rows) + "\n", flush=True)
        frontier(game, picture)
    print(f"load average after: {os.getloadavg()[0]:.1f}")


def frontier(game: Game, points: dict[str, tuple[float, float]]) -> None:
    """Mean K against the rate of violations, a point a policy."""
    figure = Figure(figsize=(7, 4))
    axes = figure.add_subplot()
    for name, (slack, rate) in points.items():
        axes.plot(slack, 100 * rate, "o")
        axes.annotate(f" {name}", (slack, 100 * rate), fontsize=8)
    axes.axhline(100 * TARGET.delta, color="#868e96", linestyle="--")
    axes.set_xscale("log")
    axes.margins(x=0.2)
    axes.set_xlabel("mean slack K, s")
    axes.set_ylabel("windows off by epsilon, %")
    axes.set_title(f"{game.name}: SUM, epsilon 0.05, delta 0.05", fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    name = f"slack-{game.name.lower().replace(' ', '-')}.svg"
    figure.savefig(measuring.PICTURES / name, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
