"""A pipeline whose records are another pipeline's: what all such files have in common."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from penstock.config.intake import Mode, Source
from penstock.config.model import SUFFIXES, PipelineName
from penstock.config.pipeline import Pipeline
from penstock.config.problems import ConfigProblem, Loc, dots, line_in
from penstock.config.yaml_file import lines_of
from penstock.core.errors import ConfigError
from penstock.core.floor import BETWEEN


class OfPipeline(Source):
    """Where records come from: another pipeline."""

    pipeline: PipelineName = Field(description="The other pipeline.")
    files: Literal[None] = Field(default=None, exclude=True)
    delta: Literal[None] = Field(default=None, exclude=True)
    mode: Mode = Field(default=Mode.LIVE, exclude=True)

    @field_validator(*Source.model_fields, mode="before")
    @classmethod
    def _is_of_files(cls, value: Any, info: ValidationInfo) -> Any:
        del value
        raise ValueError(f"{info.field_name} says how files are read. Delete it")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        return self  # none is read


class LinkedPipeline(Pipeline):
    """A pipeline that is linked to the other one once both files are read."""

    source: OfPipeline
    history: Literal[None] = Field(default=None, exclude=True)
    _other: Pipeline | None = PrivateAttr(default=None)

    @property
    def other(self) -> Pipeline:
        """The other pipeline.

        Raises:
            ConfigError: nobody has said which that is.
        """
        if self._other is None:
            raise ConfigError(f"{self.path}: {self.source.pipeline} is no valid pipeline")
        return self._other

    def link(self, other: Pipeline) -> None:
        """Say which pipeline the other one is; what was known by another one is forgotten."""
        self._other, self._specs = other, None
        for name in ("own_specs", "digest"):
            self.__dict__.pop(name, None)


def link_as(pipeline: Pipeline, former: Pipeline) -> None:
    """Link what was read from a file again as it was before, with the runs that it had."""
    if isinstance(pipeline, LinkedPipeline) and isinstance(former, LinkedPipeline):
        pipeline.link(former.other)
    pipeline.share({step.name: step.run for step in former.specs})


def near(name: str, known: Iterable[str]) -> str:
    """The remedy where no such thing is known."""
    names = [*known]
    found = difflib.get_close_matches(name, names, 1, 0.5)
    return f"Did you mean {found[0]}?" if found else f"There are: {', '.join(names) or 'none'}"


def nothing_called(
    name: str, path: Path, ready: Iterable[str], every: Iterable[str]
) -> tuple[str, str]:
    """What is wrong, and the remedy, where no pipeline can be stood on that is called so.

    Args:
        name: of the pipeline.
        path: the file that says so, beside which that of the other one is.
        ready: those that can be stood on.
        every: those that are read, whether they can be stood on or not.
    """
    stem, _, step = name.partition(BETWEEN)
    files = (path.with_name(f"{stem}{suffix}") for suffix in SUFFIXES)
    file = next((file for file in files if file.exists()), None)
    if file is not None and (name in every or stem not in ready):
        return f"{file.name} has problems", "Mend these first"
    said = f"no valid pipeline is called {name}"
    if stem in ready and step:
        remedy = f"To take the answers of {step} write pipeline: {stem}, step: {step}"
        return said, f"{remedy}; a pipeline {name} is there where steps of {stem} are from {step}"
    return said, near(name, ready)


def problem(pipeline: Pipeline, where: Loc, said: str, remedy: str) -> ConfigProblem:
    """With the line of its file."""
    line = line_in(where, lines_of(pipeline.path))
    return ConfigProblem(pipeline.path, line, dots(where), said, remedy)
