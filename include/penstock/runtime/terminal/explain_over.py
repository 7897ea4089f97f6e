"""What a pipeline over the answers of another one's step does, for people."""

from rich.console import Console
from rich.padding import Padding
from rich.tree import Tree

from penstock.config.answers import OverAnswers
from penstock.config.pipeline import Pipeline
from penstock.control.explanation import Explanation
from penstock.control.spoken import spoken
from penstock.core.step import StepSpec
from penstock.core.version import pipeline_of
from penstock.runtime.terminal.explain_step import show_step
from penstock.runtime.terminal.words import head, pairs, put, table

FIRST = "what is in force when it starts is its history; then each answer as it is given in time"
REVISED = "an answer that a correction changes comes once more, and is repaired here the same way"
WATERMARK = "that of the step above: no answer comes late, and nothing is waited for"
SHARED = "it has these answers for all who take them, and steps of equal meaning run there once"


def show_over(pipeline: OverAnswers, plan: Explanation, out: Console) -> None:
    """Say whose answers it takes, how, and what it makes of them."""
    head("Source", out)
    source = pipeline.source
    said = [
        ("answers of", f"step {source.step} of {source.pipeline}"),
        ("in order", FIRST),
        ("corrected", REVISED),
        ("watermark", WATERMARK),
    ]
    if pipeline.log != pipeline_of(pipeline.name):
        said.append(("log", f"{pipeline.log}: {SHARED}"))
    out.print(pairs(*said))
    out.print(Padding(tree(pipeline), (1, 0, 0, 2), expand=False))
    head("Records", out)
    out.print(pairs(("event time", "the last instant of the answer's window")))
    shown = table("column", "type", "used by")
    for name, kind in pipeline.types.items():
        using = (spec.name for spec in pipeline.specs if name in spec.columns)
        shown.add_row(name, kind.value, ", ".join(using) or "no step")
    put(shown, out)
    for step in plan.steps:
        show_step(step, out)


def tree(pipeline: Pipeline) -> Tree:
    """Which step stands over which, from the events down."""
    way, below = list[str](), pipeline
    while isinstance(below, OverAnswers):
        way.append(_named(below.source.pipeline, below.over))
        below = below.other
    top = at = Tree(f"events of {below.name}")
    for named in reversed(way):
        at = at.add(named)
    for step in pipeline.specs:
        at.add(_named(pipeline.name, step))
    return top


def _named(pipeline: str, step: StepSpec) -> str:
    each = step.kind if step.by_key else f"windows of {spoken(step.window.size)}"
    return f"{pipeline}.{step.name}: {each}"
