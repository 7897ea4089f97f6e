"""What a soak leaves behind: a chart and a page of figures."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.soak.faults import CALM, Fault
from tests.soak.gauges import Sample
from tests.soak.truth import Balance

LONG_ENOUGH_MINUTES = 10.0
MOST_GROWTH = 1.6
"""What grows with the time that has passed doubles from one half of the run to the other."""
BOUNDED = {
    "memory_mib": "memory of the stream's processes, MiB",
    "live_files": "live data files",
    "kept": "records that are kept",
    "state_pairs": "open pairs",
    "state_mib": "Spark's checkpoints in use, MiB",
    "spark_files": "files of Spark's checkpoints",
}
"""What must not grow with the time that has passed."""


@dataclass(frozen=True)
class Told:
    """All that is to be told of one soak.

    Attributes:
        wrong: empty if all is well.
    """

    seed: int
    minutes: float
    balance: Balance
    samples: Sequence[Sample]
    faults: Sequence[Fault]
    jobs: Mapping[str, int]
    again: Mapping[str, int]
    errors: Mapping[str, int]
    recoveries: Sequence[float]
    wrong: Sequence[str]


def growth(samples: Sequence[Sample], name: str) -> tuple[float, float]:
    """What nine of ten samples stayed below, in the first half of the run and in the second."""
    values = [float(getattr(s, name)) for s in samples]
    halves = values[: len(values) // 2] or values, values[len(values) // 2 :]
    first, second = (sorted(half)[int(0.9 * (len(half) - 1))] for half in halves)
    return first, second


def unbounded(samples: Sequence[Sample]) -> list[str]:
    """What grew between the halves by more than it may."""
    if not samples or samples[-1].seconds < 60 * LONG_ENOUGH_MINUTES:
        return []
    found = []
    for name, words in BOUNDED.items():
        before, after = growth(samples, name)
        if after > MOST_GROWTH * before:
            found.append(f"{words}: {before:.0f} in the first half, {after:.0f} in the second")
    return found


def page(told: Told) -> str:
    """The summary in Markdown."""
    lines = [
        "# Soak",
        "",
        f"`make soak MINUTES={told.minutes:g} SEED={told.seed}`: random disorder and random faults"
        " under one pipeline of two steps, real processes, no Airflow; at the end DuckDB computes"
        " every answer again from what the feeder wrote down.",
        "",
        "![Memory, files and state over time](soak.svg)",
        "",
        f"**{'Clean' if not told.wrong else 'NOT CLEAN'}.** {told.balance.received:,} records"
        f" received = {told.balance.accepted:,} events + {told.balance.quarantined:,} quarantined.",
        "",
        *_table(["step", *next(iter(told.balance.steps.values()), {})],
                [[name, *row.values()] for name, row in told.balance.steps.items()]),
        "",
        f"{told.balance.frozen:,} records were frozen and went; {told.balance.too_old:,} came too"
        " late for what is kept, and were refused. Answers in force were merged"
        f" {told.balance.merges:,} times.",
        "",
        "`pairs` and `answers` are DuckDB's, `wrong` counts answers in force that are wrong,"
        " missing, extra or doubled.",
        "",
        *_table(["fault", "times"], sorted(Counter(f.name for f in told.faults).items())),
        "",
        *_table(["job", "ended well", "tried again"],
                [[job, n, told.again.get(job, 0)] for job, n in sorted(told.jobs.items())]),
        "",
        *_recovery(told.recoveries),
        "",
        *_table(["what must stay bounded", "first half", "second half"],
                [[words, *(round(v, 1) for v in growth(told.samples, name))]
                 for name, words in BOUNDED.items()]),
        "",
        "Nine of ten samples stayed below these figures.",
        "",
        f"Data files that compaction replaced stay a day: {told.samples[-1].dead_files:,} at the"
        f" end, besides {told.samples[-1].log_files:,} files of the tables' logs.",
    ]  # fmt: skip
    if told.wrong:
        lines += ["", "## Wrong", "", *(f"- {w}" for w in told.wrong)]
    if told.errors:
        lines += ["", "## What the stream said when it was hit", ""]
        lines += _table(["error", "times"], sorted(told.errors.items()))
    return "\n".join(lines) + "\n"


def _recovery(seconds: Sequence[float]) -> list[str]:
    if not seconds:
        return []
    middle, most = statistics.median(seconds), max(seconds)
    return [
        f"From a fault of the stream (or the first file after it) to the next seal: median"
        f" {middle:.1f} s, longest {most:.1f} s, {len(seconds)} faults (those that the next fault"
        " did not overtake)."
    ]


def _table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> list[str]:
    def line(cells: Sequence[object]) -> str:
        shown = (f"{c:,}" if isinstance(c, int | float) else str(c) for c in cells)
        return f"| {' | '.join(shown)} |"

    return [line(head), line(["---"] * len(head)), *map(line, rows)]


def draw(told: Told, began: float, path: Path) -> None:
    """The chart: memory, files, state and progress over minutes; faults as thin lines."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams |= {"svg.hashsalt": "soak", "font.size": 8}
    minutes = [s.seconds / 60 for s in told.samples]
    figure, axes = plt.subplots(4, 1, figsize=(9, 9), sharex=True, layout="constrained")
    panels = (
        ("MiB", {"memory of the stream's processes": "memory_mib"}),
        ("files", {"live data files": "live_files", "Spark's checkpoints": "spark_files",
                   "replaced, kept a day": "dead_files", "tables' logs": "log_files"}),
        ("state", {"open pairs": "state_pairs"}),
        ("records", {"sent": "sent", "sealed by every step": "sealed"}),
    )  # fmt: skip
    for axis, (unit, lines) in zip(axes, panels, strict=True):
        for label, name in lines.items():
            axis.plot(minutes, [getattr(s, name) for s in told.samples], label=label, lw=1.2)
        for fault in told.faults:
            if fault.stream:
                axis.axvline((fault.began - began) / 60, color="tab:red", lw=0.5, alpha=0.35)
        axis.axvspan(*(part * told.minutes for part in CALM), color="tab:green", alpha=0.08)
        axis.set_ylabel(unit)
        axis.set_ylim(bottom=0)
        axis.legend(loc="upper left", frameon=False)
    axes[0].set_title("Red: a fault of the stream. Green: none on purpose.", fontsize=8)
    axes[-1].set_xlabel("minutes")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
