"""What is wrong with the steps of a pipeline file, given what they are given."""

from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.config.expression import NoColumn
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
    no_column: Callable[[NoColumn], tuple[str, str]] = lambda said: (said, ""),
) -> list[ConfigProblem]:
    """What is wrong with steps.

    Args:
        steps: by name.
        types: of the declared columns, by stream.
        sides: side data by name; none: it is wrong itself.
        path: the file.
        lines: where its keys stand.
        no_column: problem and remedy where a column is not there; by default it is the file's own
            to declare it.
    """
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
            told = no_column(said) if isinstance(said, NoColumn) else (said, "")
            problems.append(ConfigProblem(path, line_in(loc, lines), dots(loc), *told))
    return problems
