"""Pictures of how good timely answers were: K, coverage and errors over event time.

Drawn from ``coverage``, the newest row of each window; many windows are averaged into one point.
Of steps that say something of keys, without a target, what they said is drawn (``said``).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.config.pipeline import Pipeline
from penstock.config.slack import USUAL, Quality
from penstock.core.step import StepSpec
from penstock.core.window import instant
from penstock.lake.history.position import position
from penstock.lake.history.standing import standing
from penstock.lake.proof.covered import newest_rows
from penstock.lake.proof.worth import Worth
from penstock.lake.proof.worth_told import in_short
from penstock.lake.serve.effort import effort, in_words
from penstock.lake.serve.gaps import DOT, broken, gaps_between
from penstock.lake.serve.newest import said_over_time
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables
from penstock.quality.courses import Course, courses, titled
from penstock.quality.said import said_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Each = Callable[[str, Callable[[np.ndarray], float]], list[float]]
"""Points of one column."""
Line = Callable[[Sequence[float]], Any]
"""What to plot of points."""
POINTS = 200
HOUR, SECOND = 3_600_000_000, 1_000_000
LEAST, MEAN, WANTED, BEYOND = "#adb5bd", "#0b7285", "#e8590c", "#5f3dc4"


def pictures(tables: Tables, pipeline: Pipeline, worths: Mapping[str, Worth]) -> dict[str, str]:
    """SVG by file name, one a step that has said something; ``worths`` by step.

    Of a step of windows: one that is recorded.
    """
    drawn = {}
    for step in pipeline.specs:
        quality = pipeline.steps[step.name].quality
        if (step.by_key or step.above is not None) and quality is None:  # no coverage is recorded
            shown = standing(tables, step)
            rows = said_over_time(tables, shown) if shown else pa.table({})
            figure = partial(said_figure, rows, *_besides(tables, step))
        else:
            rows = newest_rows(Table(tables.coverage(step)))
            besides = _besides(tables, step)
            figure = partial(_figure, step, rows, quality, worths.get(step.name), besides)
        if rows.num_rows:
            drawn[f"timely-{step.name}.svg"] = svg(figure)
    return drawn


def _besides(tables: Tables, step: StepSpec) -> tuple[list[Course], list[str]]:
    """What a step looked at and left out: as courses, and in words."""
    at = position(tables, step)
    if at is None:
        return [], []
    rows = effort(tables, step, at)
    return courses(rows, step), in_words(tables, step, at, rows)


def svg(figure: "Callable[[], Figure]") -> str:
    """A figure; the same one always gives the same text."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "penstock", "svg.fonttype": "none"}):
        out = StringIO()
        figure().savefig(out, metadata={"Date": None}, format="svg", transparent=True)
    return out.getvalue()


def _figure(
    step: StepSpec,
    rows: pa.Table,
    quality: Quality | None,
    worth: Worth | None,
    besides: tuple[list[Course], list[str]],
) -> "Figure":
    """Of one step of windows.

    Args:
        step: the step.
        rows: of ``coverage``, in the order of window starts; at least one.
        quality: its target, if it has one.
        worth: of its slack, if it is known.
        besides: what is drawn below, and said besides.
    """
    from matplotlib.figure import Figure

    steered = rows["slack_us"].null_count < rows.num_rows
    below, notes = besides
    may_be_off = bool(step.judged) or quality is not None  # others have no size that could be off
    count = 1 + steered + may_be_off + len(below)
    figure = Figure(figsize=(9, 0.6 + 1.6 * count), layout="constrained")
    panels = list(np.atleast_1d(figure.subplots(count, 1, sharex=True)))
    if worth is not None:
        panels[0].set_title(in_short(worth), fontsize=8, loc="left", wrap=True)
    starts = np.asarray(pc.cast(rows["window_start"], pa.int64()))
    runs = _runs(starts, step.window.slide)
    parts = [part for run in runs for part in run]
    when = [instant(int(starts[part[0]])) for part in parts]
    gaps = np.cumsum([len(run) for run in runs])[:-1]
    line = partial(broken, when, gaps=gaps)

    def each(name: str, over: Callable[[np.ndarray], float]) -> list[float]:
        values = np.asarray(pc.cast(rows[name], pa.float64()), float)
        return [over(values[part]) for part in parts]

    if steered:
        slack = each("slack_us", _mean)
        unit, name = (HOUR, "hours") if np.nanmax(slack) > HOUR else (SECOND, "s")
        axes = panels.pop(0)
        axes.step(*line([k / unit for k in slack]), where="post", color=MEAN, **DOT)
        axes.set_ylabel(f"slack K, {name}")
    covered = panels.pop(0)
    covered.plot(when, each("coverage", np.min), ".", markersize=3, color=LEAST, label="least")
    covered.plot(*line(each("coverage", _mean)), color=MEAN, label="mean", **DOT)
    if steered and not step.by_reach:  # of pairs it is a share of what pairs are made of
        covered.plot(*line(each("threshold", _mean)), "--", color=WANTED, label="needed")
    covered.set_ylim(top=1.0)  # of a share there is no more
    covered.set_ylabel(f"share of {'pairs' if step.by_reach else 'records'}\nin time")
    covered.legend(frameon=False, fontsize=8, loc="lower right")
    said = [f"slack {step.slack.policy}"]
    if may_be_off:
        said.append(_errors(panels.pop(0), quality, line, each, [len(part) for part in parts]))
    for course, axes in zip(below, panels, strict=True):
        course.draw(axes)
    figure.suptitle(titled(said, notes), fontsize=10, x=0.01, ha="left")
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _errors(
    beyond: "Axes", quality: Quality | None, line: Line, each: Each, windows: Sequence[int]
) -> str:
    """Draw how many timely answers were off; says so, too."""
    target = quality or USUAL
    what, answers, off = "timely answers", each("answers", np.sum), each("answers_beyond", np.sum)
    if target.of != "answer":
        what, answers = target.counted, [*map(float, windows)]
        off = each("error_observed", lambda errors: float((errors >= target.epsilon).sum()))
    share = [100 * b / a if a else np.nan for a, b in zip(answers, off, strict=True)]
    beyond.plot(*line(share), color=BEYOND, **DOT)
    beyond.set_ylim(0, min(100.0, max(1.0, 1.05 * np.nanmax([*share, 100 * target.delta]))))
    beyond.set_ylabel(f"{what}\noff, %")
    if quality is not None:
        beyond.axhline(100 * target.delta, linestyle="--", color=WANTED, label="at most wanted")
        beyond.legend(frameon=False, fontsize=8, loc="upper right")
    epsilon = "epsilon" if target.measures else f"{target.epsilon:.3g}"
    return f"{sum(off):,.0f} of {sum(answers):,.0f} {what} were off by {epsilon} or more"


def _runs(starts: np.ndarray, slide: int) -> list[list[np.ndarray]]:
    """Places of windows that follow each other, in parts for about ``POINTS`` points altogether.

    Where there are very many gaps, the widest ones count.
    """
    gaps = gaps_between(starts, slide)
    if len(gaps) > POINTS // 4:
        widths = starts[gaps] - starts[gaps - 1]
        gaps = np.sort(gaps[np.argsort(widths, kind="stable")[-POINTS // 4 :]])
    runs = np.split(np.arange(len(starts)), gaps)
    points = min(POINTS, len(starts))
    return [np.array_split(run, max(1, points * len(run) // len(starts))) for run in runs]


def _mean(values: np.ndarray) -> float:
    """Of those that are known; none is: not a number."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
