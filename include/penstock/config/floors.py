"""Steps over steps of one file: a pipeline's own steps, and floors above them.

A floor is a pipeline over the answers of a step: of all steps of the file that are ``from`` it.
So a file with such steps is several pipelines, each with its log, as if each had a file of its own.
Source: EMR (routes between steps); docs/decisions/0060-floors-of-a-file.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from penstock.config.answers import OverAnswers, columns_of_answers, of_every_log
from penstock.config.columns import ColumnConfig
from penstock.config.expression import NoColumn
from penstock.config.linked import near, problem
from penstock.config.model import ColumnName, PipelineName
from penstock.config.problems import ConfigProblem, Loc, dots, line_in
from penstock.config.wrong_steps import wrong_steps
from penstock.config.yaml_file import lines_of
from penstock.core.floor import floor_of
from penstock.core.measure import ColumnType
from penstock.core.step import ONLY

FROM = "from"
COMMON = ("description", "correction", "audit")
"""What a file says for its floors, too."""
Content = dict[Any, Any]


class Floor(OverAnswers):
    """The steps of a file that are over the answers of one of its steps."""

    name: PipelineName
    columns: dict[ColumnName, ColumnConfig] = Field(default_factory=dict, exclude=True)

    @property
    def types(self) -> dict[str, ColumnType]:
        """All that an answer has; none before that is known."""
        return {} if self._other is None else columns_of_answers(self.over)

    def unread(self) -> list[ConfigProblem]:
        """The columns of its steps are those of the answers, all of which its log has."""
        if doubled := of_every_log(self.types):
            return [self._doubled(name) for name in doubled]
        types = {ONLY: self.types}
        lines = lines_of(self.path)
        return wrong_steps(self.steps, types, {}, self.path, lines, self._no_column)

    def _no_column(self, said: NoColumn) -> tuple[str, str]:
        """A floor declares none."""
        name, known = self.over.name, ", ".join(said.known)
        remedy = f"There are: {known}. Take one of these, or add one to {name}"
        if said.meant:
            remedy = f"Did you mean {said.meant}?"
        return f"{said.column} is no column of the answers of {name}", remedy

    def _doubled(self, name: str) -> ConfigProblem:
        """A measure whose name the log of its answers has for itself."""
        where: Loc = ("steps", self.over.name, "measures", name)
        said = f"every log has a column {name} itself, and {', '.join(self.steps)} takes these"
        return problem(self, where, f"{said} answers into one", "Rename the measure")

    def nothing_above(self, ready: Iterable[str], every: Iterable[str]) -> tuple[str, str]:
        """What is wrong, and the remedy, where what it takes the answers of is not there."""
        del ready, every
        return f"{self.source.step} has problems itself", "Mend these first"

    def said_at(self, part: str) -> Loc:
        """Where the file says whose answers it takes."""
        del part
        return ("steps", next(iter(self.steps)), FROM)


def parts(
    content: Content, path: Path, lines: dict[Loc, int]
) -> tuple[dict[str, Content], list[ConfigProblem]]:
    """What a file says of each of its floors, by name; ``content`` keeps its own steps.

    Floors come after what they are over. With problems there are none.
    """
    steps = content.get("steps")
    if not isinstance(steps, dict):
        return {}, []
    over = {name: "" if step[FROM] is None else str(step[FROM]) for name, step in steps.items()
            if isinstance(step, dict) and FROM in step}  # fmt: skip
    content["steps"] = {name: step for name, step in steps.items() if name not in over}
    if problems := [*_astray(over, steps, path, lines)]:
        return {}, problems
    stem, found = path.stem, dict[str, Content]()
    for below in sorted(set(over.values()), key=lambda step: len(_way(step, over))):
        holds = floor_of(stem, over[below]) if below in over else stem
        found[floor_of(stem, below)] = {
            "source": {"pipeline": holds, "step": below},
            "steps": {name: steps[name] for name in over if over[name] == below},
            **{key: content[key] for key in COMMON if key in content},
        }
    return found, []


def _astray(
    over: Mapping[str, str], steps: Mapping[str, Any], path: Path, lines: dict[Loc, int]
) -> Iterator[ConfigProblem]:
    """Steps that are from what is no step, or from themselves: of a ring one is told."""
    seen = set[str]()
    for name, below in over.items():
        said, remedy = "", "Delete from, or name another step"
        way = _way(name, over)
        if not below:
            said = "is empty"
        elif below not in steps:
            said, remedy = f"{below} is no step of this file", near(below, steps.keys() - {name})
        elif over.get(way[-1]) == name and name not in seen:
            seen |= {*way}
            ring = ", ".join(f"{each} is from {over[each]}" for each in way)
            said = f"{name} is from itself" + (f": {ring}" if name != below else "")
        if said:
            loc: Loc = ("steps", name, FROM)
            yield ConfigProblem(path, line_in(loc, lines), dots(loc), said, remedy)


def _way(step: str, over: Mapping[str, str]) -> list[str]:
    """A step, and those below it down to one over events; once around where there is none."""
    found = [step]
    while (step := over.get(step, "")) and step not in found:
        found.append(step)
    return found
