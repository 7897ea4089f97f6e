"""Prints and draws what ``penstock show --quality`` says: K, coverage, and observed errors."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.control.explain import spoken
from penstock.core.slack import SlackPolicy
from penstock.core.step import StepSpec
from penstock.lake.observed import Observed, Waited, observed, waited
from penstock.lake.tables import Tables
from penstock.runtime.terminal_words import at, head, put, share, table

LINES = 12
EPSILON = 0.05
"""Where the file names no target."""


def show_quality(
    settings: Settings, pipeline: Pipeline, steps: Sequence[StepSpec], out: Console
) -> None:
    """Show how good the timely answers of some steps were, and draw it."""
    tables = Tables(settings.lake_uri, pipeline.name)
    for step in steps:
        head(f"Step {step.name}", out)
        target = pipeline.steps[step.name].quality
        epsilon, least = (target.epsilon, target.least) if target else (EPSILON, 1)
        told = waited(tables, step)
        if not told:
            out.print(Text("  Nothing is sealed yet."))
            continue
        _show_steering(step, told, out)
        _show_errors(observed(tables, step, epsilon, least), epsilon, least, out)
        path = settings.docs / pipeline.name / f"quality-{step.name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        draw({f"{step.name}, {step.slack.policy}": told}, path)
        out.print(Text(f"  picture  {path}", style="dim"))


def _show_steering(step: StepSpec, told: Sequence[Waited], out: Console) -> None:
    columns = ("newest event time", "slack K", "coverage", "least", "needed", "windows", "below")
    shown = table(*columns, right=columns[1:], title=f"Slack {step.slack.policy}, newest first")
    every = [w for w in told if w.steering is not None] or list(told)
    for one in reversed(every[-LINES:]):
        held = one.steering
        shown.add_row(
            at(one.at),
            spoken(one.slack),
            *(("",) * 5 if held is None else (
                f"{held['coverage']:.2%}", f"{held['coverage_least']:.2%}",
                f"{held['threshold']:.2%}", f"{held['windows_measured']:,.0f}",
                f"{held['windows_below']:,.0f}",
            )),
        )  # fmt: skip
    put(shown, out)
    measured = [w.steering for w in told if w.steering is not None]
    if step.slack.policy in {SlackPolicy.PD, SlackPolicy.QUANTILE} and measured:
        windows = int(sum(m["windows_measured"] for m in measured))
        below = int(sum(m["windows_below"] for m in measured))
        said = f"  {windows:,} windows measured, {share(below, windows)} held less than needed."
        out.print(Text(said))


def _show_errors(found: Sequence[Observed], epsilon: float, least: int, out: Console) -> None:
    columns = ("measure", "answers", "off by epsilon", "share", "mean error", "greatest")
    of = "" if least <= 1 else f", answers of {least} records or more"
    title = f"Timely answers against those in force, epsilon {epsilon:g}{of}"
    shown = table(*columns, right=columns[1:], title=title)
    for one in found:
        part = share(one.beyond, one.answers) if one.answers else "-"
        shown.add_row(one.measure, f"{one.answers:,}", f"{one.beyond:,}", part,
                      f"{one.mean:.3%}", f"{one.greatest:.2%}")  # fmt: skip
    put(shown, out)


def draw(every: dict[str, Sequence[Waited]], path: Path) -> None:
    """K over event time, and the coverage of measured windows; one line a step."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "penstock"
    figure = Figure(figsize=(9, 5))
    slack, coverage = figure.subplots(2, 1, sharex=True)
    for name, told in every.items():
        slack.step([w.at for w in told], [w.slack / 1e6 for w in told], where="post", label=name)
        measured = [(w.at, w.steering) for w in told if w.steering is not None]
        if measured:
            when = [at for at, _ in measured]
            coverage.plot(when, [s["coverage"] for _, s in measured], label=name)
            coverage.plot(when, [s["threshold"] for _, s in measured], "--", color="#868e96")
    slack.set_ylabel("slack K, s")
    coverage.set_ylabel("coverage of a window")
    for axes in (slack, coverage):
        axes.spines[["top", "right"]].set_visible(False)
    slack.legend(frameon=False, fontsize=8)
    figure.autofmt_xdate()
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None}, format="svg")
