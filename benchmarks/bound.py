"""Does (epsilon, delta) hold? Every policy over streams that nobody tuned it for.

    python benchmarks/bound.py DATA_FOLDER [--only NAME ...] [--measures count sum ...]

DATA_FOLDER holds one folder per data set with a data.parquet in the order of arrival. Target
(0.05, 0.05), default settings, nothing said of a stream but its window and measure. An answer is
what a window held when its end was passed by the watermark, against all of its records; windows of
the warm-up (the first 400, or a third) are left out, those that a policy closed while it did not
know K yet, and those that a stream's end cuts off.
"""

import argparse
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import bound_streams as streams
import measuring
import numpy as np
import slack
from matplotlib.figure import Figure
from scipy import stats

from penstock.columns.marks import Marks
from penstock.columns.watermark import Steering
from penstock.config.slack import Pd, PdFinal, Quality, Quantile, Steered
from penstock.core.controllers import fresh
from penstock.core.expression import MeasureSpec, QuantileSpec
from penstock.core.feedback import room
from penstock.core.measure import ColumnType, Function
from penstock.core.slack import SlackPolicy, SlackSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.proof.figures import FED_BACK, LEAST_WINDOWS, SAMPLE, WINDOWS, Figures
from penstock.spark.measured import NOTICEABLE

WARM = 400
CORRECTED = 20
"""Windows from one correction to the next."""
MEASURES = {
    "count": MeasureSpec("n", Function.COUNT, None, ColumnType.LONG),
    "sum": MeasureSpec("x", Function.SUM, None, ColumnType.DOUBLE),
    "avg": MeasureSpec("x", Function.AVG, None, ColumnType.DOUBLE),
    "median": QuantileSpec("x", Function.QUANTILE, None, ColumnType.DOUBLE, 0.5),
    "p90": QuantileSpec("x", Function.QUANTILE, None, ColumnType.DOUBLE, 0.9),
}
PHI = {"median": 0.5, "p90": 0.9}
QUALITY = Quality(epsilon=slack.TARGET.epsilon, delta=slack.TARGET.delta)
STEERED: dict[str, tuple[SlackPolicy, Steered]] = {
    "pd": (SlackPolicy.PD, Pd()),
    "pd_final": (SlackPolicy.PD_FINAL, PdFinal()),
    "quantile": (SlackPolicy.QUANTILE, Quantile()),
}
COLORS = {"max_delay": "#e8590c", "pd": "#1971c2", "pd_final": "#7048e8", "quantile": "#2f9e44"}


@dataclass(frozen=True)
class Windows:
    """Windows with at least a record, in order: their records, and when each may still come.

    Attributes:
        starts: us.
        rows: of each window the places of its records in the order of arrival, ascending.
    """

    starts: np.ndarray
    rows: list[np.ndarray]


@dataclass(frozen=True)
class Row:
    """One policy over one stream.

    Attributes:
        off: of the windows after the warm-up, whether each was off by epsilon.
        slack: mean K after the warm-up, us.
        same: the fixed K that would have been off as often, in hindsight, us.
        recovery: windows after the change until the next hundred keep the bound; none: no change.
    """

    case: str
    measure: str
    policy: str
    off: np.ndarray
    slack: float
    same: float
    recovery: int | None

    @property
    def rate(self) -> float:
        return float(self.off.mean())

    @property
    def known(self) -> bool:
        """Whether K was, for any of the windows."""
        return len(self.off) > 0

    def limit(self, side: str) -> float:
        """Clopper-Pearson, 95 %, one-sided."""
        n, k = len(self.off), int(self.off.sum())
        if side == "upper":
            return 1.0 if k == n else float(stats.beta.ppf(0.95, k + 1, n - k))
        return 0.0 if k == 0 else float(stats.beta.ppf(0.05, k, n - k + 1))

    @property
    def kept(self) -> bool:
        """As the goal says: by the upper limit where a thousand windows follow."""
        side = "upper" if len(self.off) >= 1_000 else "lower"
        return self.limit(side) <= slack.TARGET.delta

    @property
    def told(self) -> str:
        return ("yes" if self.kept else "NO") if self.known else "K not known yet"


def windows_of(case: streams.Case, stream: slack.Stream) -> Windows:
    """All windows but those around the ends."""
    window, late = case.window, stream.lateness
    newest = int(stream.times.max())
    tail = newest - int(np.quantile(late, 0.999)) - window.size
    order = np.argsort(stream.times, kind="stable")
    times = stream.times[order]
    first = window.floor(int(stream.times[0])) + window.slide
    starts = np.arange(first, max(tail, first + 1), window.slide)
    lows, highs = np.searchsorted(times, starts), np.searchsorted(times, starts + window.size)
    held = np.flatnonzero(highs > lows)
    rows = [np.sort(order[low:high]) for low, high in zip(lows[held], highs[held], strict=True)]
    return Windows(starts[held], rows)


def errors_of(measure: str, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Errors of an answer over the first so many records of a window, in their order."""
    whole = len(values)
    phi = PHI.get(measure)
    if phi is not None:
        ranked = np.sort(values)
        return np.array([_rank_error(ranked, np.sort(values[:n]), phi) for n in counts])
    if measure == "count":
        return 1 - counts / whole
    sums = np.append(0.0, np.cumsum(values))
    if measure == "sum":
        return _relative(sums[counts], sums[-1])
    means = sums[counts] / np.maximum(counts, 1)
    return np.where(counts == 0, 1.0, _relative(means, sums[-1] / whole))


def _rank_error(ranked: np.ndarray, seen: np.ndarray, phi: float) -> float:
    """How far phi lies from the ranks of the answer among all; equal values share theirs."""
    if not len(seen):
        return 1.0
    answer = seen[int(np.ceil(phi * len(seen) - 1e-9)) - 1]
    low, high = np.searchsorted(ranked, answer), np.searchsorted(ranked, answer, side="right")
    return max(0.0, float(low / len(ranked) - phi), float(phi - high / len(ranked)))


def _relative(was: np.ndarray, true: float) -> np.ndarray:
    if true == 0:
        return np.where(was == 0, 0.0, 1.0)
    return np.abs(was - true) / abs(true)


def required(case: streams.Case, stream: slack.Stream, found: Windows, measure: str) -> np.ndarray:
    """Least fixed K from which each window's answer stays less than epsilon off, us."""
    newest = np.maximum.accumulate(stream.times)
    before = np.append(newest[0], newest[:-1])
    slacks = np.zeros(len(found.starts))
    for i, (start, rows) in enumerate(zip(found.starts, found.rows, strict=True)):
        waits = np.maximum(before[rows] - (start + case.window.size) + 1, 0)
        cuts = np.flatnonzero(np.diff(waits, append=np.inf)) + 1  # records there, by K
        errors = errors_of(measure, stream.values[rows], cuts)
        bad = np.flatnonzero(errors >= slack.TARGET.epsilon)
        first = bad[-1] + 1 if len(bad) else 0
        if first:
            slacks[i] = waits[cuts[first] - 1]
        elif waits[0] > 0 and slack.TARGET.epsilon < 1:  # empty is off
            slacks[i] = waits[cuts[0] - 1]
    return slacks


def judged(
    case: streams.Case, stream: slack.Stream, found: Windows, trace: slack.Trace, measure: str
) -> tuple[np.ndarray, np.ndarray]:
    """Of each window whether it was off, and K when it closed, us."""
    closing = np.searchsorted(trace.watermark, found.starts + case.window.size)
    off = np.zeros(len(found.starts), bool)
    for i, (at, rows) in enumerate(zip(closing, found.rows, strict=True)):
        there = np.searchsorted(rows, at, side="right")
        error = errors_of(measure, stream.values[rows], np.array([there]))[0]
        off[i] = error >= slack.TARGET.epsilon
    held = trace.slack
    each = len(held) == len(stream.times)  # max_delay: K of every record, not of every step
    at = np.minimum(closing if each else closing // slack.EVERY, len(held) - 1)
    return off, held[at]


def steered(
    case: streams.Case, stream: slack.Stream, found: Windows, name: str, measure: str
) -> tuple[slack.Trace, int]:
    """A policy with what corrections feed back: once 20 more windows are final, a threshold.

    Records, CV, rho and the room are measured as ``penstock.lake.proof.figures`` does, from final
    windows and the newest records.

    Returns:
        The trace, and the watermark from which on K was known, us.
    """
    policy, config = STEERED[name]
    spec = SlackSpec(policy, 0, config.tuning(QUALITY, [MEASURES[measure]], case.window.size))
    steering = Steering(fresh(case.window, spec), -1)
    held, marks, newest = [], [(0, BEGINNING)], int(stream.times[0])
    judged, shares, lags, began = 0, list[float](), stream.lateness, time.perf_counter()
    for first in range(0, len(stream.times), slack.EVERY):
        held.append(steering.controller.slack)
        times = stream.times[first : first + slack.EVERY]
        last = first + len(times) - 1
        marks += steering.take(np.arange(first, last + 1), times, newest, last)
        newest = max(newest, int(times.max()))
        passed = steering.controller.passed
        closed = steering.controller.watermark - case.window.size
        final = min(BEGINNING if passed is None else passed, closed)
        due = int(np.searchsorted(found.starts, final, "right"))
        if due >= judged + CORRECTED and due >= LEAST_WINDOWS:
            for i in range(judged, due):
                end = int(found.starts[i]) + case.window.size
                at = marks[bisect_left(marks, end, key=lambda mark: mark[1])][0] - 1
                there = np.array([np.searchsorted(found.rows[i], at, side="right")])
                error = errors_of(measure, stream.values[found.rows[i]], there)[0]
                shares.append(float(error >= slack.TARGET.epsilon))
            judged = due
            newest_ones = slice(max(0, last - SAMPLE), last)
            late = lags[newest_ones] > steering.controller.slack
            threshold = _measured(stream.values[newest_ones], late, found, shares, measure)
            tuning = replace(spec.tuning, threshold=threshold)
            if abs(threshold - steering.controller.tuning.threshold) > NOTICEABLE:
                steering.controller.turn(replace(spec, tuning=tuning))
    seconds = time.perf_counter() - began
    marks_at = Marks.of(marks).at(np.arange(1, len(stream.times) + 1))
    since = getattr(steering.controller, "since", BEGINNING)
    return slack.Trace(np.array(held), marks_at, seconds), FOREVER if since is None else since


def _measured(
    values: np.ndarray, late: np.ndarray, found: Windows, shares: list[float], measure: str
) -> float:
    """The threshold that final windows and the newest records ask for."""
    rows = found.rows[max(0, len(shares) - WINDOWS) : len(shares)]
    records = max(2, round(float(np.median([len(r) for r in rows]))))
    cv2, ratios = 0.0, dict[str, float]()
    if measure in ("sum", "avg"):
        mean = float(values.mean())
        if mean:
            cv2 = float(values.var()) / mean**2
            if late.any():
                ratios[measure] = float(values[late].mean()) / mean
    used = room(shares[-FED_BACK:], slack.TARGET.delta)
    figures = Figures(records, cv2, ratios, float(np.mean(shares[-WINDOWS:])), used)
    return figures.threshold(QUALITY, [MEASURES[measure]])


def rows_of(case: streams.Case, measures: list[str]) -> Iterator[Row]:
    """Every policy over one stream."""
    stream = case.read()
    found = windows_of(case, stream)
    warm = min(WARM, len(found.starts) // 3)
    greatest = slack.plain(stream, None)
    for measure in measures:
        slacks = required(case, stream, found, measure)
        for name in ("max_delay", *STEERED):
            trace, since = greatest, BEGINNING
            if name in STEERED:
                trace, since = steered(case, stream, found, name, measure)
            off, held = judged(case, stream, found, trace, measure)
            first = max(warm, int(np.searchsorted(found.starts, since - case.window.size, "right")))
            off, held, needed = off[first:], held[first:], slacks[first:]
            if not len(off):
                yield Row(case.name, measure, name, off, np.nan, np.nan, None)
                continue
            same = float(np.quantile(needed, 1 - off.mean(), method="inverted_cdf"))
            recovery = _recovery(case, found.starts[first:], off)
            yield Row(case.name, measure, name, off, float(held.mean()), same, recovery)


def _recovery(case: streams.Case, starts: np.ndarray, off: np.ndarray) -> int | None:
    if case.change is None:
        return None
    at = int(np.searchsorted(starts, case.change))
    for span in range(len(off) - at - 100):
        if off[at + span : at + span + 100].mean() <= slack.TARGET.delta:
            return span
    return len(off) - at


def table(rows: list[Row]) -> str:
    """Markdown, a row a policy, stream and measure."""
    headers = ("stream", "measure", "policy", "windows", "off", "lower 95 %", "upper 95 %",
               "mean K, s", "fixed K as often off, s", "times", "recovery, windows",
               "kept")  # fmt: skip
    return measuring.markdown(headers, [_cells(r) for r in rows])


def _cells(r: Row) -> tuple[str, ...]:
    if not r.known:
        return (r.case, r.measure, r.policy, "0", *[""] * 7, r.told)
    return (r.case, r.measure, r.policy, f"{len(r.off):,}", f"{r.rate:.2%}",
            f"{r.limit('lower'):.2%}", f"{r.limit('upper'):.2%}", f"{r.slack / 1e6:,.2f}",
            f"{r.same / 1e6:,.2f}", f"{r.slack / r.same:.2f}" if r.same > 0 else "",
            "" if r.recovery is None else f"{r.recovery:,}", r.told)  # fmt: skip


def draw(rows: list[Row]) -> Figure:
    """Rate of violations by stream and measure, a colour a policy."""
    names = list(dict.fromkeys((r.case, r.measure) for r in rows))
    places = {name: i for i, name in enumerate(reversed(names))}
    figure = Figure(figsize=(8, 0.5 + 0.17 * len(names)))
    axes = figure.add_subplot()
    for policy, color in COLORS.items():
        own = [r for r in rows if r.policy == policy and r.known]
        ys = [places[r.case, r.measure] for r in own]
        axes.plot([100 * r.rate for r in own], ys, "o", color=color, markersize=4, label=policy)
    axes.axvline(100 * slack.TARGET.delta, color="#868e96", linestyle="--", linewidth=1)
    axes.set_yticks([*places.values()], [f"{case}: {m}" for case, m in places], fontsize=7)
    axes.set_xscale("symlog", linthresh=5)
    axes.set_xlim(left=-0.2)
    axes.set_xlabel("windows off by epsilon after the warm-up, %")
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(y=0.01)
    return figure


def main() -> None:
    """Run, print Markdown tables and save the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--measures", nargs="*", default=[*MEASURES])
    args = parser.parse_args()
    print(measuring.machine() + "\n")
    cases = [*streams.real(args.folder), *streams.games(), *streams.adversarial(),
             *streams.others(args.folder)]  # fmt: skip
    rows: list[Row] = []
    for case in cases:
        if args.only and not any(each in case.name for each in args.only):
            continue
        new = [*rows_of(case, args.measures)]
        rows += new
        print(table(new) + "\n", flush=True)
    for policy in COLORS:
        own = [r for r in rows if r.policy == policy and r.known]
        times = [r.slack / r.same for r in own if r.same > 0]
        median = f"{np.median(times):.2f}" if times else "-"
        print(f"{policy}: kept in {sum(r.kept for r in own)} of {len(own)}; mean K against the"
              f" fixed K that is as often off, median {median}")  # fmt: skip
    if not args.only:
        draw(rows).savefig(measuring.PICTURES / "bound.svg", bbox_inches="tight",
                           metadata={"Date": None})  # fmt: skip


if __name__ == "__main__":
    main()
