"""Two pipelines beside each other: what their slack, coverage and corrections were."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text

from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.control.spoken import spoken
from penstock.core.errors import ConfigError
from penstock.core.step import StepSpec
from penstock.core.window import micros
from penstock.lake.history.position import LATE, position
from penstock.lake.history.view import answers_at
from penstock.lake.proof.covered import newest_rows
from penstock.lake.proof.observed import waited
from penstock.lake.proof.worth import Worth, worth
from penstock.lake.proof.worth_told import expected
from penstock.lake.serve.gaps import DOT, broken, gaps_between
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables
from penstock.runtime.terminal.words import NOTHING, head, put, share, table

COLORS = ("#868e96", "#0b7285")
HOUR = 3_600_000_000
DAY = 24 * HOUR


@dataclass(frozen=True)
class Side:
    """One of the two.

    Attributes:
        name: pipeline and slack.
        slack: K (us) by window, or where none steers it by micro-batch.
        slack_for: how long one of these holds, us: a window's slide; none: until the next.
        windows: rows of ``coverage``, in the order of their starts.
        corrected: answers appended by corrections, by day of their window.
        worth: of the slack.
    """

    name: str
    slack: Sequence[tuple[datetime, int]]
    slack_for: int | None
    windows: Sequence[dict[str, Any]]
    corrected: Counter[date]
    worth: Worth | None = None

    @property
    def days(self) -> dict[date, list[dict[str, Any]]]:
        """The windows by day."""
        found: dict[date, list[dict[str, Any]]] = {}
        for row in self.windows:
            found.setdefault(row["window_start"].date(), []).append(row)
        return found


def show_beside(
    settings: Settings, pipelines: Sequence[Pipeline], steps: Sequence[StepSpec], out: Console
) -> None:
    """A table for every step that both have, and a picture of each as a file.

    Raises:
        ConfigError: they have no step of the same name, or one has no coverage or no slack yet.
    """
    names = [s.name for s in steps if all(s.name in p.steps for p in pipelines)]
    if not names:
        both = " and ".join(p.name for p in pipelines)
        raise ConfigError(f"{both} have no step of the same name: nothing to put side by side")
    for name in names:
        sides = [_side(settings, pipeline, name) for pipeline in pipelines]
        head(f"Step {name}", out)
        columns = ("pipeline", "slack", "mean K", "wait", "windows", "mean coverage", "answers",
                   "off by epsilon", "expected", "answers corrected")  # fmt: skip
        shown = table(*columns, right=columns[2:])
        for pipeline, side in zip(pipelines, sides, strict=True):
            answers = sum(row["answers"] for row in side.windows)
            beyond = sum(row["answers_beyond"] for row in side.windows)
            shown.add_row(
                pipeline.name,
                str(pipeline.spec(name).slack.policy),
                spoken(round(mean(k for _, k in side.slack))),
                _waits(side.worth),
                f"{len(side.windows):,}",
                f"{mean(row['coverage'] for row in side.windows):.2%}",
                f"{answers:,}",
                share(beyond, answers),
                _expects(side.worth),
                f"{side.corrected.total():,}",
            )
        put(shown, out)
        first, second = pipelines
        path = settings.docs / first.name / f"beside-{second.name}-{name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        draw(name, sides, path)
        out.print(Text(f"  picture  {path}", style="dim"))


def _side(settings: Settings, pipeline: Pipeline, name: str) -> Side:
    tables, step = Tables(settings.lake_uri, pipeline.log), pipeline.spec(name)
    at = position(tables, step)
    windows = newest_rows(Table(tables.coverage(step))).to_pylist()
    if at is None or not windows:
        raise ConfigError(
            f"{pipeline.name}.{name} has no coverage yet: it is written by correct__{pipeline.name}"
        )
    answers = answers_at(tables, step, at)
    late = answers.filter(pc.equal(answers["reason"], LATE))["window_start"].to_pylist()
    corrected = Counter(start.date() for start in late)
    said = f"{pipeline.name}: {step.slack.policy}"
    slack = [(row["window_start"], row["slack_us"]) for row in windows]
    slack = [(start, k) for start, k in slack if k is not None]
    slack_for: int | None = step.window.slide
    if step.slack.tuning is None or not slack:
        slack_for = None
        moved = [(w.at, w.slack) for w in waited(tables, step, at)]
        if not moved:
            raise ConfigError(
                f"{pipeline.name}.{name} has sealed no live block yet since it was defined anew;"
                f" its slack shows when stream__{pipeline.name} has taken records"
            )
        first, last = (windows[i]["window_start"] for i in (0, -1))
        slack = sorted([(first, moved[0][1]), *moved, (last, moved[-1][1])])
    return Side(said, slack, slack_for, windows, corrected, worth(tables, pipeline, step))


def _waits(found: Worth | None) -> str:
    return NOTHING if found is None or found.wait is None else spoken(round(found.wait.half))


def _expects(found: Worth | None) -> str:
    """Of each target."""
    return NOTHING if found is None else "; ".join(expected(r, found) for r in found.rates)


def draw(step: str, sides: Sequence[Side], path: Path) -> None:
    """K over event time; by day, the mean coverage and the answers that were corrected."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "penstock"
    figure = Figure(figsize=(9, 6.5))
    rows = figure.subplots(3, 1, sharex=True)
    hours = max(k for side in sides for _, k in side.slack) > HOUR
    for side, color in zip(sides, COLORS, strict=True):
        when, slack = zip(*side.slack, strict=True)
        shown = [k / (HOUR if hours else 1e6) for k in slack]
        line = _line(when, shown, side.slack_for)
        rows[0].step(*line, where="post", color=color, label=side.name)
        days = sorted(side.days)
        at = [datetime(d.year, d.month, d.day, tzinfo=UTC) for d in days]
        covered = [100 * mean(row["coverage"] for row in side.days[day]) for day in days]
        rows[1].plot(*_line(at, covered, DAY), color=color, linewidth=1, **DOT)
        corrected = [float(side.corrected[day]) for day in days]
        rows[2].step(*_line(at, corrected, DAY), where="post", color=color, **DOT)
    rows[0].set_ylabel(f"slack K, {'hours' if hours else 's'}")
    rows[1].set_ylabel("coverage at the\nfirst answer, %")
    rows[2].set_ylabel("answers corrected\na day")
    rows[0].set_title(step, fontsize=10, loc="left")
    rows[0].legend(frameon=False, fontsize=8)
    for axes in rows:
        axes.spines[["top", "right"]].set_visible(False)
    figure.autofmt_xdate()
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None}, format="svg")


def _line(
    when: Sequence[datetime], values: Sequence[float], step: int | None
) -> tuple[Sequence[datetime], Any]:
    """The points, broken where more than a step (us) lies between two."""
    if step is None:
        return when, values
    starts = np.array([micros(w) for w in when], np.int64)
    return broken(when, values, gaps_between(starts, step))
