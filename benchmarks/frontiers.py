"""Mean slack against violations of a quality target on real streams, for every policy.

    python benchmarks/frontiers.py DATA_FOLDER

DATA_FOLDER holds one folder per data set with a data.parquet in the order of arrival. The target is
(0.05, 0.05) for counts: in 5 % of the windows 5 % of the records or more may come too late. A curve
is a policy with several settings; its marked point is the target's own.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import measuring
import numpy as np
import pyarrow.parquet as pq
import slack
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from penstock.core import coverage
from penstock.core.coverage import QualityTarget
from penstock.core.slack import SlackPolicy, SlackSpec, Tuning
from penstock.core.window import WindowSpec

SECOND = slack.SECOND
MINUTE, HOUR = 60 * SECOND, 3_600 * SECOND
EPSILONS = (0.2, 0.1, 0.05, 0.02)
COLORS = {"fixed": "#868e96", "max_delay": "#e8590c", "pd": "#1971c2",
          "pd_final": "#9c36b5", "quantile": "#2f9e44"}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One data set's windows; after what ``pd`` measures them, us: the others find their own."""

    name: str
    window: WindowSpec
    measure_after: int


SETTINGS = (
    Setting("d5_ooo_umts", WindowSpec(5 * SECOND, SECOND), 10 * SECOND),
    Setting("d4_zeek_dns", WindowSpec(MINUTE, 10 * SECOND), 2 * MINUTE),
    Setting("d4_zeek_ssl", WindowSpec(MINUTE, 10 * SECOND), 2 * MINUTE),
    Setting("d1_aircraft_sites", WindowSpec(HOUR, HOUR // 4), 12 * HOUR),
)


@dataclass(frozen=True)
class Point:
    """A policy with a setting, mean K (us), windows, those off, and the mean coverage."""

    policy: str
    setting: str
    slack: float
    windows: int
    beyond: int
    covered: float

    @property
    def rate(self) -> float:
        return self.beyond / self.windows


def points(setting: Setting, stream: slack.Stream) -> Iterator[Point]:
    """Every policy over one stream."""
    late = stream.lateness
    for share in (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999):
        span = int(np.quantile(late, share))
        yield _point("fixed", f"{span / SECOND:g} s", setting, stream,
                     slack.plain(stream, span))  # fmt: skip
    yield _point("max_delay", "", setting, stream, slack.plain(stream, None))
    for policy in (SlackPolicy.PD, SlackPolicy.PD_FINAL, SlackPolicy.QUANTILE):
        for epsilon in EPSILONS:
            threshold = coverage.of_count(QualityTarget(epsilon, 0.05)) + 1e-9
            horizon = setting.measure_after if policy is SlackPolicy.PD else None
            tuning = Tuning(threshold, 0.05, horizon)
            trace = slack.steered(stream, SlackSpec(policy, 0, tuning), setting.window)
            yield _point(policy.value, f"{epsilon:g}", setting, stream, trace)


def _point(
    policy: str,
    setting_text: str,
    setting: Setting,
    stream: slack.Stream,
    trace: slack.Trace,
) -> Point:
    found = slack.Found()
    tail = int(np.quantile(stream.lateness, 0.999))
    for values, there in slack.windows(stream, trace, setting.window, tail):
        if len(values):
            found.windows += 1
            found.covered += there.mean()
            found.beyond += 1 - there.mean() >= slack.TARGET.epsilon
    mean = float(trace.slack.mean())
    covered = found.covered / found.windows
    return Point(policy, setting_text, mean, found.windows, found.beyond, covered)


def draw(axes: Axes, setting: Setting, found: list[Point]) -> None:
    """One data set's frontier."""
    for policy, color in COLORS.items():
        own = sorted((p for p in found if p.policy == policy), key=lambda p: p.slack)
        xs = [max(p.slack / SECOND, 1e-3) for p in own]
        ys = [100 * p.rate for p in own]
        axes.plot(xs, ys, "o-", color=color, markersize=3, linewidth=1, label=policy)
        for x, y, p in zip(xs, ys, own, strict=True):
            if p.setting == "0.05":
                axes.plot(x, y, "o", color=color, markersize=8, fillstyle="none")
    axes.axhline(5, color="#adb5bd", linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_title(setting.name, fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Print Markdown tables and save the picture."""
    folder = Path(sys.argv[1])
    print(f"\n{measuring.machine()}\n")
    figure = Figure(figsize=(9, 6.5))
    grid = figure.subplots(2, 2).ravel()
    for axes, setting in zip(grid, SETTINGS, strict=True):
        column = pq.read_table(folder / setting.name / "data.parquet", columns=["event_time"])
        times = column["event_time"].cast("timestamp[us]").cast("int64").to_numpy()
        found = list(points(setting, slack.Stream(times, np.ones(len(times)))))
        rows = [
            (p.policy, p.setting, f"{p.slack / SECOND:,.3f}", f"{p.covered:.4f}",
             f"{p.beyond:,} of {p.windows:,}", f"{p.rate:.2%}") for p in found
        ]  # fmt: skip
        headers = ("policy", "setting", "mean K, s", "coverage", "windows off", "rate")
        print(f"{setting.name}\n\n{measuring.markdown(headers, rows)}\n", flush=True)
        draw(axes, setting, found)
    grid[0].legend(fontsize=8, frameon=False)
    figure.supxlabel("mean slack K, s", fontsize=9)
    figure.supylabel("windows that miss 5 % of their records or more, %", fontsize=9)
    figure.tight_layout()
    figure.savefig(measuring.PICTURES / "slack-frontiers.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
