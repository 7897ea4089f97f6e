"""Steps whose name in SQL means something else already: one of the two would hide the other.

The views are made in ``lake/serve/views.py``; of its steps a kind says here how they end.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.config.problems import ConfigProblem, Loc, dots, line_in
from penstock.config.step import StepConfig

OF_THE_LOG = ("events", "quarantine")
"""Views that every pipeline has."""
INPUTS = "inputs"
"""Ending of a view of steps over answers that answer windows."""


def views_of(name: str, step: StepConfig, *, over_answers: bool) -> list[str]:
    """Names of the views that a step has beside that of its answers."""
    endings = [*step.views, *([INPUTS] if over_answers and not step.compares else [])]
    return [f"{name}_{ending}" for ending in endings]


def hidden_views(
    steps: Mapping[str, StepConfig], path: Path, lines: dict[Loc, int], *, over_answers: bool
) -> Iterator[ConfigProblem]:
    """Steps of a pipeline that are called as a view of the log or of another step, or have one so.

    Args:
        steps: of one pipeline: another floor of the file is asked by itself.
        path: the file.
        lines: where its keys stand.
        over_answers: whether they read answers.
    """
    owners = dict.fromkeys(OF_THE_LOG, "the log")
    for name, step in steps.items():
        for view in views_of(name, step, over_answers=over_answers):
            if owners.setdefault(view, name) != name:
                yield _hidden(name, view, owners[view], path, lines)
    for name in (name for name in steps if name in owners):
        yield _hidden(name, name, owners[name], path, lines)


def _hidden(step: str, view: str, owner: str, path: Path, lines: dict[Loc, int]) -> ConfigProblem:
    loc: Loc = ("steps", step)
    said = f"a view of {owner} is called {view}, too, and a query would get one of the two"
    return ConfigProblem(path, line_in(loc, lines), dots(loc), said, "Rename the step")
