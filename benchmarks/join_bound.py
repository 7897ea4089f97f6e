"""Does (epsilon, delta) hold of joins? Pairs of records of streams that nobody tuned it for.

    python benchmarks/join_bound.py DATA_FOLDER [--only NAME ...]

DATA_FOLDER as of bound.py. Any two records of a stream at most a window's size apart are a pair,
under target (0.05, 0.05) and default settings, without what corrections feed back. A pair is in
time where the record that came before is still kept where the other stands. Of each window of the
join (by event time of the left record) the share of its pairs that were not in time is judged; left
out are the first third of the windows (at most 400), those before the policy knew K, and those that
the stream's end cuts off. With two streams, each record is of one by chance, the one late as it
is, the other never, and pairs have one of each.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bound
import bound_streams as streams
import measuring
import numpy as np
import slack

from penstock.columns.arrays import Longs
from penstock.columns.marks import Marks
from penstock.columns.watermark import Steering
from penstock.config.slack import Quality, Quantile
from penstock.core.controllers import fresh
from penstock.core.slack import SlackPolicy, SlackSpec
from penstock.core.window import BEGINNING, FOREVER, WindowSpec
from penstock.kinds.join.reach import counted
from penstock.kinds.join.spec import span_of

QUALITY = Quality(epsilon=slack.TARGET.epsilon, delta=slack.TARGET.delta, of="pairs")
AT_ONCE = 8_192


@dataclass(frozen=True)
class Log:
    """Records of one stream or two, in the order in which they came.

    Attributes:
        times: us.
        which: of which stream each is.
        marks: the watermark in force for each, us.
        since: windows that end after this instant closed while K was known, us.
        slack: mean K, us.
    """

    times: Longs
    which: Longs
    marks: Longs
    since: int
    slack: float


def steered(times: Longs, which: Longs, window: WindowSpec) -> Log:
    """Each stream by a controller of its own; the watermark is the least of theirs."""
    spec = SlackSpec(SlackPolicy.QUANTILE, 0, Quantile().tuning(QUALITY, (), window.size))
    each, since, held = list[Longs](), list[int](), list[float]()
    for stream in np.unique(which).tolist():
        seqs = np.flatnonzero(which == stream)
        steering, newest = Steering(fresh(window, spec), -1), int(times[seqs[0]])
        marks, slacks = [(0, BEGINNING)], list[int]()
        for first in range(0, len(seqs), AT_ONCE):
            some = seqs[first : first + AT_ONCE]
            marks += steering.take(some, times[some], newest, int(some[-1]))
            newest = max(newest, int(times[some].max()))
            slacks.append(steering.controller.slack)
        each.append(Marks.of(marks).at(np.arange(len(times))))
        known = getattr(steering.controller, "since", BEGINNING)
        since.append(FOREVER if known is None else known)
        held.append(float(np.mean(slacks[len(slacks) // 3 :])))
    return Log(times, which, np.min(each, axis=0), max(since), max(held))


def shares(log: Log, reach: int, window: WindowSpec) -> tuple[Longs, Longs, Longs]:
    """Starts of windows with pairs, how many each has, and how many of these were not in time."""
    order = np.argsort(log.times, kind="stable")
    by_time, marks = log.times[order], counted(window, log.marks)
    mine = [order[log.which[order] == stream] for stream in np.unique(log.which)]
    left, right = mine[0], mine[-1]
    others = log.times[right]
    low = np.searchsorted(others, log.times[left] - reach)
    high = np.searchsorted(others, log.times[left] + reach, "right")
    first = int(window.floor(int(by_time[0])))
    place = (log.times[left] - first) // window.size
    every = np.bincount(place, high - low - (len(mine) == 1))
    missing = np.zeros_like(every)
    of_left, of_right = set(left.tolist()), set(right.tolist())
    for late in np.flatnonzero(log.times < marks).tolist():
        time, mark = int(log.times[late]), int(marks[late])
        gone = min(time + reach, mark - reach - 1)  # what lies up to here is not kept any more
        for role, partners in ((of_left, right), (of_right, left)):
            if late not in role:
                continue
            there = log.times[partners]
            some = partners[np.searchsorted(there, time - reach) :
                            np.searchsorted(there, gone, "right")]  # fmt: skip
            some = some[some < late]
            lefts = np.full(len(some), time) if role is of_left else log.times[some]
            np.add.at(missing, (lefts - first) // window.size, 1)
    held = np.flatnonzero(every > 0)
    return first + held * window.size, every[held], missing[held]


def judged(name: str, times: Longs, which: Longs, reach: int) -> list[str]:
    """A row of the table."""
    span = span_of(2 * reach, targeted=True)
    window = WindowSpec(span, span)
    log = steered(times, which, window)
    starts, every, missing = shares(log, reach, window)
    tail = int(times.max()) - reach - span - int(np.quantile(slack.Stream(times, times).lateness,
                                                             0.999))  # fmt: skip
    warm = int(starts[min(bound.WARM, len(starts) // 3)])
    some = (starts >= max(warm, log.since)) & (starts < tail)
    head = [name, f"{reach / 1e6:,.0f}", f"{span / 1e6:g}"]
    if not some.any():
        return [*head, "0", "", "", "", "", "", "K not known yet"]
    off = missing[some] >= QUALITY.epsilon * every[some]
    row = bound.Row(name, "pairs", "quantile", off, log.slack, np.nan, None)
    return [*head, f"{len(off):,}", f"{np.median(every[some]):,.0f}",
            f"{missing[some].sum() / every[some].sum():.2%}", f"{row.rate:.2%}",
            f"{row.limit('upper'):.2%}", f"{row.slack / 1e6:,.1f}", row.told]  # fmt: skip


def rows_of(case: streams.Case) -> Iterator[list[str]]:
    """One stream with itself, and two of which one is never late."""
    stream, reach = case.read(), case.window.size
    yield judged(case.name, stream.times, np.zeros(len(stream.times), np.int64), reach)
    came = np.maximum.accumulate(stream.times)  # when each came, by the newest event time
    which = np.random.default_rng(3).integers(0, 2, len(came))
    arrival = np.where(which == 0, came, stream.times)
    order = np.lexsort((np.arange(len(came)), arrival))
    yield judged(f"{case.name}, two streams", stream.times[order], which[order], reach)


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    args = parser.parse_args()
    cases = [*streams.real(args.folder), *streams.games(), *streams.adversarial()]
    rows = list[list[str]]()
    for case in cases:
        if not args.only or case.name in args.only:
            rows += rows_of(case)
            print(*rows[-2], "\n", *rows[-1], file=sys.stderr, flush=True)
    head = ["stream", "reach, s", "window, s", "windows", "pairs in one, median", "not in time",
            "windows off", "at most, 95 %", "mean K, s", "kept"]  # fmt: skip
    print(measuring.markdown(head, rows))


if __name__ == "__main__":
    main()
