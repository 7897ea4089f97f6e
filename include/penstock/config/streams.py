"""A pipeline over several sources, and what can be wrong with it beyond each of them."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from penstock.config.intake import RESERVED, Intake
from penstock.config.model import Name
from penstock.config.pipeline import Pipeline
from penstock.config.problems import ConfigProblem, Loc, dots, line_in
from penstock.config.step import StepConfig
from penstock.core.measure import ColumnType
from penstock.core.step import ONLY, STREAM


class StreamIntake(Intake):
    """One of several sources: the keys that a file of one source has at its top."""

    @classmethod
    def reserved(cls) -> Sequence[str]:
        """With the name of the stream, which stands beside each record."""
        return (*RESERVED, STREAM)


class SeveralSources(Pipeline):
    """A pipeline over several sources; a step says which one it reads by ``stream``."""

    sources: dict[Name, StreamIntake] = Field(
        min_length=1,
        description="In place of source, columns, event_time and so on: these, for each stream,"
        " by its name.",
    )
    source: Literal[None] = Field(default=None, exclude=True)  # type: ignore[assignment]
    history: Literal[None] = Field(default=None, exclude=True)
    columns: Literal[None] = Field(default=None, exclude=True)  # type: ignore[assignment]
    event_time: Literal[None] = Field(default=None, exclude=True)  # type: ignore[assignment]
    arrival_time: Literal[None] = Field(default=None, exclude=True)
    zone: Literal["UTC"] = Field(default="UTC", exclude=True)
    ambiguous: Literal[None] = Field(default=None, exclude=True)
    formats: Literal[None] = Field(default=None, exclude=True)  # type: ignore[assignment]
    skew: Literal[None] = Field(default=None, exclude=True)  # type: ignore[assignment]
    not_before: Literal[None] = Field(default=None, exclude=True)
    id: Literal[None] = Field(default=None, exclude=True)

    @field_validator(*Intake.model_fields, mode="before")
    @classmethod
    def _is_of_one_source(cls, value: Any, info: ValidationInfo) -> Any:
        del value
        said = f"with sources, {info.field_name} belongs to each of them"
        raise ValueError(f"{said}. Move it below sources.NAME")

    @model_validator(mode="after")
    def _columns_are_there(self) -> Self:
        return self  # each source has its own

    @property
    def intakes(self) -> Mapping[str, Intake]:
        """By the names of their streams."""
        return self.sources

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams, in the file's order."""
        return tuple(self.sources)

    @cached_property
    def types(self) -> dict[str, ColumnType]:
        """Type of each column that some stream declares, and of the stream's name."""
        every = {n: kind for each in self.sources.values() for n, kind in each.types.items()}
        return {STREAM: ColumnType.STRING, **every}


def wrong_stream(step: StepConfig, streams: Sequence[str]) -> tuple[str, str] | None:
    """What is wrong with the streams that a step names, and the remedy; none: nothing.

    Args:
        step: of a pipeline file.
        streams: that the file has; one without a name: it has one source.
    """
    if [*streams] == [ONLY]:
        said = "the pipeline has one source, and every step reads that"
        named = "stream" if step.stream is not None else "left and right"
        return (said, f"Delete {named}") if step.streams else None
    names = ", ".join(streams) or "none"
    if not step.streams:
        return "is missing: there are several sources", f"Add stream: one of {names}"
    for stream in step.streams:
        if stream not in streams:
            near = difflib.get_close_matches(stream, streams, 1, 0.5)
            remedy = f"Did you mean {near[0]}?" if near else f"There are: {names}"
            return f"no source is called {stream}", remedy
    return None


def several(pipeline: Pipeline, lines: dict[Loc, int]) -> Iterator[ConfigProblem]:
    """What the sources of a pipeline cannot have together."""
    if not pipeline.streams:
        return
    known = dict[str, tuple[str, str, ColumnType]]()
    for stream, intake in pipeline.intakes.items():
        for column, kind in intake.types.items():
            first, name, other = known.setdefault(column.lower(), (stream, column, kind))
            where: Loc = ("sources", stream, "columns", column)
            remedy = f"Declare one of them as my_{column}: {{type: ..., from: {column}}}"
            if name != column:
                said = f"{first} declares {name}: the names differ only in case"
                yield _problem(pipeline, where, said, remedy, lines)
            elif kind is not other:
                said = f"is {kind} here and {other} in {first}, and all records share one table"
                yield _problem(pipeline, where, said, remedy, lines)


def _problem(
    pipeline: Pipeline, where: Loc, said: str, remedy: str, lines: dict[Loc, int]
) -> ConfigProblem:
    return ConfigProblem(pipeline.path, line_in(where, lines), dots(where), said, remedy)
