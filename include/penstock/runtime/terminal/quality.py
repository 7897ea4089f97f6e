"""Prints and draws what ``penstock show --quality`` says: K, coverage, and observed errors."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.config.slack import USUAL
from penstock.control.spoken import spoken
from penstock.core.controller import Measured
from penstock.core.step import StepSpec
from penstock.core.window import instant
from penstock.lake.history.position import position
from penstock.lake.history.standing import standing
from penstock.lake.proof.doubts import doubts
from penstock.lake.proof.observed import Observed, Waited, classes, measured, observed, waited
from penstock.lake.proof.worth import Worth, worth
from penstock.lake.proof.worth_told import cost, expected, present, verdict
from penstock.lake.serve.effort import effort, in_words
from penstock.lake.serve.gaps import DOT, broken, gaps_between
from penstock.lake.serve.newest import AGAIN, AT_ONCE, GONE, HISTORY, said_over_time
from penstock.lake.storage.tables import Tables
from penstock.runtime.terminal.words import NOTHING, at, head, put, share, table

LINES = 12
HOUR = 3_600_000_000


def show_quality(
    settings: Settings, pipeline: Pipeline, steps: Sequence[StepSpec], out: Console
) -> None:
    """Show how good the timely answers of some steps were, and draw it."""
    tables = Tables(settings.lake_uri, pipeline.log)
    for step in steps:
        head(f"Step {step.name}", out)
        quality = pipeline.steps[step.name].quality or USUAL
        sealed = position(tables, step)
        told = [] if sealed is None else waited(tables, step, sealed)
        if sealed is None or not told:
            out.print(Text("  No live block is sealed yet."))
            continue
        _show_steering(step, told, out)
        if step.by_key:
            _show_said(tables, step, out)
        else:
            _show_classes(classes(tables, step, sealed), out)
            _show_errors(observed(tables, step, sealed, quality), quality.least, out)
        for said in in_words(tables, step, sealed, effort(tables, step, sealed)):
            out.print(Text(f"  {said}."))
        if (found := worth(tables, pipeline, step)) is not None:
            show_worth(found, out)
        for said in doubts(tables, pipeline, step):
            out.print(Text(f"  {said}.", style="yellow"))
        path = settings.docs / pipeline.name / f"quality-{step.name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        windows, _ = measured(tables, step, sealed, tables.events(pipeline.types, step.streams))
        draw(step, told, windows, path)
        out.print(Text(f"  picture  {path}", style="dim"))


def _show_steering(step: StepSpec, told: Sequence[Waited], out: Console) -> None:
    every = [w for w in told if w.steering is not None]
    columns = ("newest event time", "slack K")
    columns += ("coverage", "least", "needed", "windows", "below") if every else ()
    shown = table(*columns, right=columns[1:], title=f"Slack {step.slack.policy}, newest first")
    for one in reversed((every or told)[-LINES:]):
        cells, found = [at(one.at), spoken(one.slack)], one.steering
        if found is not None:
            cells += [f"{found[n]:.2%}" for n in ("coverage", "coverage_least", "threshold")]
            cells += [f"{found[n]:,.0f}" for n in ("windows_measured", "windows_below")]
        shown.add_row(*cells)
    put(shown, out)
    if every:
        windows, below = (
            int(sum(w.steering[name] for w in every if w.steering is not None))
            for name in ("windows_measured", "windows_below")
        )
        said = (
            f"  {windows:,} windows measured once they were final,"
            f" {share(below, windows)} held less than needed."
        )
        out.print(Text(said))


def _show_classes(found: dict[str, int], out: Console) -> None:
    total = sum(found.values())
    words = ("above the watermark", "up to a window's size behind it", "further behind")
    parts = [
        f"{count:,} came {word} ({share(count, total)})"
        for count, word in zip(found.values(), words, strict=True)
    ]
    if total:
        out.print(Text("  Records: " + ", ".join(parts) + "."))


def _show_said(tables: Tables, step: StepSpec, out: Console) -> None:
    """How pairs, or other answers that hang on a key, were said last."""
    if (shown := standing(tables, step)) is None:
        return
    rows = said_over_time(tables, shown).group_by("how").aggregate([("n", "sum")])
    counts = {row["how"]: row["n_sum"] for row in rows.to_pylist()}
    live = counts.get(AT_ONCE, 0) + counts.get(AGAIN, 0)
    columns = ("said", "answers", "of those of live records")
    found = table(*columns, right=columns[1:], title="How answers were said last")
    for how in (HISTORY, AT_ONCE, AGAIN, GONE):
        if how in counts:
            of = share(counts[how], live) if how in {AT_ONCE, AGAIN} else ""
            found.add_row(how, f"{counts[how]:,}", of)
    put(found, out)


def _show_errors(found: Sequence[Observed], least: int, out: Console) -> None:
    columns = ("measure", "epsilon", "answers", "off by it", "share", "mean error", "greatest")
    of = "" if least <= 1 else f", answers of {least} records or more"
    title = f"Timely answers against those in force{of}"
    shown = table(*columns, right=columns[1:], title=title)
    for one in found:
        part = share(one.beyond, one.answers) if one.answers else "-"
        shown.add_row(one.measure, f"{one.epsilon:g}", f"{one.answers:,}", f"{one.beyond:,}", part,
                      f"{one.mean:.3%}", f"{one.greatest:.2%}")  # fmt: skip
    put(shown, out)


def show_worth(found: Worth, out: Console) -> None:
    """What the slack costs, and what it brings for each target."""
    said = cost(found)
    out.print(Text(f"  {said[:1].upper()}{said[1:]}."))
    if not found.rates:
        return
    columns = (found.counts, "off by", "target", "expected", "judged", "off", "observed",
               "at most, 95 %")  # fmt: skip
    title = f"Off by epsilon: target, expected, observed {present(found)}"
    shown = table(*columns, "", right=columns[1:], title=title)
    for rate in found.rates:
        colour = {"kept": "green", "missed": "red"}.get(said := verdict(rate, found), "")
        shown.add_row(
            rate.name.partition(": ")[2] or "all",
            f"{rate.target.epsilon:g}",
            f"{rate.target.delta:.2%}" if found.targeted else NOTHING,
            expected(rate, found),
            f"{rate.of:,}",
            f"{rate.off:,}",
            f"{rate.share:.2%}" if rate.of else NOTHING,
            f"{rate.upper:.2%}" if rate.of else NOTHING,
            Text(said, style=colour),
        )
    put(shown, out)


def draw(step: StepSpec, told: Sequence[Waited], windows: Sequence[Measured], path: Path) -> None:
    """K over event time, and the coverage of measured windows; without those, by micro-batch."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "penstock"
    figure = Figure(figsize=(9, 5 if windows else 2.8))
    found = figure.subplots(2 if windows else 1, 1, sharex=True, squeeze=False)[:, 0]
    when = [instant(w.window_start) for w in windows] or [w.at for w in told]
    slack = [w.slack for w in windows or told]
    starts = np.array([w.window_start for w in windows], np.int64)
    line = partial(broken, when, gaps=gaps_between(starts, step.window.slide))
    name, unit = ("hours", HOUR) if max(slack) > HOUR else ("s", 1e6)
    found[0].step(*line([k / unit for k in slack]), where="post", color="#0b7285", **DOT)
    found[0].set_ylabel(f"slack K, {name}")
    found[0].set_title(f"{step.name}: slack {step.slack.policy}", fontsize=10, loc="left")
    if windows:
        found[1].plot(when, [w.coverage for w in windows], ".", markersize=2, color="#adb5bd")
        needed = line([w.threshold for w in windows])
        found[1].plot(*needed, "--", color="#e8590c", label="needed", **DOT)
        found[1].set_ylabel("coverage of a window")
        found[1].legend(frameon=False, fontsize=8, loc="lower right")
    for axes in found:
        axes.spines[["top", "right"]].set_visible(False)
    figure.autofmt_xdate()
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None}, format="svg")
