"""What is wrong with the steps of a pipeline file, given what they are given."""

from collections.abc import Mapping
from pathlib import Path

from penstock.config.problems import ConfigProblem, Loc, dots, line_in
from penstock.config.step import Given, StepConfig, code_of
from penstock.config.streams import wrong_stream
from penstock.core.measure import ColumnType
from penstock.core.side import SideTable


def wrong_steps(
    steps: Mapping[str, StepConfig],
    types: Mapping[str, Mapping[str, ColumnType]],
    sides: Mapping[str, SideTable | None],
    path: Path,
    lines: dict[Loc, int],
) -> list[ConfigProblem]:
    """What is wrong with steps; ``types``: of the declared columns, by stream."""
    problems = []
    wrong = {f"load.{name}" for name, side in sides.items() if side is None}
    right = {name: side for name, side in sides.items() if side is not None}
    for name, step in steps.items():
        if astray := wrong_stream(step, [*types]):
            loc: Loc = ("steps", name, "stream")
            problems.append(ConfigProblem(path, line_in(loc, lines), dots(loc), *astray))
            continue
        some = tuple(types[one] for one in step.streams or types)
        known = {n: kind for one in some for n, kind in one.items()}
        for part, said in step.problems(Given(known, right, code_of(path), some)):
            if part in wrong:  # once is enough
                continue
            loc = ("steps", name, *part.split("."))
            problems.append(ConfigProblem(path, line_in(loc, lines), dots(loc), said))
    return problems
