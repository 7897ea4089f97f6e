"""A pipeline over the answers of another pipeline's step, and what can be wrong with it."""

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from penstock.config.model import Name
from penstock.config.pipeline import Intake, Mode, Pipeline, Source
from penstock.config.problems import ConfigProblem, Loc, dots, line_in
from penstock.config.yaml_file import read_yaml
from penstock.core.errors import ConfigError
from penstock.core.expression import columns_of
from penstock.core.measure import ColumnType
from penstock.core.step import Above, StepSpec

COUNT = "n_records"
OWN = {"source", "columns"}
"""Of what is said of a source that is read, what is said here, too."""
Lines = dict[Loc, int]


class Answers(Source):
    """Where records come from: the answers of a step, as they are given, and as they change."""

    pipeline: Name = Field(description="The other pipeline.")
    step: Name = Field(description="Its step, an aggregate.")
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


class OverAnswers(Pipeline):
    """A pipeline whose records are answers; its watermark is that of the step above."""

    source: Answers = Field(description="Whose answers its records are.")
    history: Literal[None] = Field(default=None, exclude=True)
    event_time: Literal["window_end"] = Field(default="window_end", exclude=True)
    _over: StepSpec | None = PrivateAttr(default=None)
    _above: Pipeline | None = PrivateAttr(default=None)

    @field_validator(*(Intake.model_fields.keys() - OWN), mode="before")
    @classmethod
    def _is_of_events(cls, value: Any, info: ValidationInfo) -> Any:
        del value
        raise ValueError(f"{info.field_name} says how events are read. Delete it")

    @property
    def over(self) -> StepSpec:
        """The step whose answers it takes.

        Raises:
            ConfigError: nobody has said which that is.
        """
        if self._over is None:
            raise ConfigError(f"{self.path}: {self.source.pipeline} is no valid pipeline")
        return self._over

    @property
    def above(self) -> Pipeline:
        """The pipeline of that step."""
        assert self._above is not None  # noqa: S101  with the step
        return self._above

    def link(self, above: Pipeline, step: StepSpec) -> None:
        """Say which step that is, and of which pipeline."""
        self._over, self._above = step, above
        object.__setattr__(self.source, "mode", Mode.LIVE if above.is_live() else Mode.BOUNDED)

    @property
    def types(self) -> dict[str, ColumnType]:
        """Type of each declared column, and of the keys, which tell answers apart."""
        keys = {} if self._over is None else {key.name: key.type for key in self._over.keys}
        return keys | {name: column.type for name, column in self.columns.items()}

    @cached_property
    def specs(self) -> tuple[StepSpec, ...]:
        """The steps, which know whose answers they take."""
        above = Above(self.over.fingerprint, self.over.key_names)
        every = self.steps.items()
        own = (step.whole(name, self.given_to(step)) for name, step in every)
        return tuple(replace(spec, above=above) for spec in own)

    @cached_property
    def digest(self) -> str:
        """Names the content of the file, and the definition above it."""
        content = self.model_dump_json(exclude={"snapshots": True}) + self.over.fingerprint
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def _kept(pipeline: Pipeline, above: Pipeline) -> Iterator[ConfigProblem]:
    """Audits compose what a step over answers must say from all events there were."""
    for one, who in ((pipeline, pipeline.name), (above, above.name)):
        if one.keep is not None:
            said = f"{who} keeps its records for a while only, and audits here go back to the first"
            where: Loc = ("keep",) if one is pipeline else ("source", "pipeline")
            yield _problem(pipeline, where, said, "Delete keep")


def stands_on(pipeline: Pipeline) -> tuple[str, ...]:
    """Names of the pipelines whose answers one is made of."""
    found = []
    while isinstance(pipeline, OverAnswers):
        found.append(pipeline.source.pipeline)
        pipeline = pipeline.above
    return tuple(found)


def is_over_answers(content: Mapping[Any, Any]) -> bool:
    """Whether a pipeline file names a step as its source."""
    source = content.get("source")
    return isinstance(source, dict) and bool({"pipeline", "step"} & source.keys())


def without_slack(content: dict[Any, Any], pipeline: Any, lines: Lines) -> list[ConfigProblem]:
    """Let the steps of a file wait for nobody; what they say of it is wrong."""
    steps, found = content.get("steps"), []
    for name, step in (steps if isinstance(steps, dict) else {}).items():
        if not isinstance(step, dict):
            continue
        if "slack" in step:
            where: Loc = ("steps", name, "slack")
            said = "answers come in the order of their windows, and nothing is waited for"
            found.append(ConfigProblem(pipeline, line_in(where, lines), dots(where), said,
                                       "Delete slack"))  # fmt: skip
        step["slack"] = {"fixed": "PT0S"}
    return found


def linked(pipelines: Iterable[Pipeline]) -> tuple[list[Pipeline], list[ConfigProblem]]:
    """Pipelines that know whose answers they take, and why others do not."""
    every, problems = {p.name: p for p in pipelines}, list[ConfigProblem]()
    ready = {name: p for name, p in every.items() if not isinstance(p, OverAnswers)}
    left = {name: p for name, p in every.items() if isinstance(p, OverAnswers)}
    while some := [p for p in left.values() if p.source.pipeline not in left]:
        for pipeline in some:
            del left[pipeline.name]
            found = [*_wrong(pipeline, ready)]
            problems += found
            if not found:
                ready[pipeline.name] = pipeline
    for pipeline in left.values():
        said = f"{pipeline.name} takes its own answers"
        problems.append(_problem(pipeline, ("source", "pipeline"), said, "Name another one"))
    return [every[name] for name in every if name in ready], problems


def _wrong(pipeline: OverAnswers, ready: Mapping[str, Pipeline]) -> Iterator[ConfigProblem]:
    source = pipeline.source
    above = ready.get(source.pipeline)
    if above is None:
        said = f"no valid pipeline is called {source.pipeline}"
        yield _problem(pipeline, ("source", "pipeline"), said, _near(source.pipeline, ready))
        return
    step = next((spec for spec in above.specs if spec.name == source.step), None)
    if step is None:
        said = f"{above.name} has no step {source.step}"
        yield _problem(pipeline, ("source", "step"), said, _near(source.step, above.steps))
        return
    if not step.composes or step.window.landmark:
        said = f"{step.name} is no aggregate over windows of a size, and only such a one is read"
        yield _problem(pipeline, ("source", "step"), said, "Name another step")
        return
    pipeline.link(above, step)
    yield from _kept(pipeline, above)
    yield from _wrong_columns(pipeline, step)
    for spec in pipeline.specs:
        yield from _wrong_step(pipeline, spec, step)


def _wrong_columns(pipeline: OverAnswers, step: StepSpec) -> Iterator[ConfigProblem]:
    known = {c.name: c.type for c in (*step.keys, *step.values)} | {COUNT: ColumnType.LONG}
    for name, column in pipeline.columns.items():
        where: Loc = ("columns", name)
        if name not in known or (column.source or name) != name:
            said = f"{column.source or name} is no column of the answers of {step.name}"
            yield _problem(pipeline, where, said, f"There are: {', '.join(known)}")
        elif column.type is not known[name]:
            said = f"is {known[name]} in the answers of {step.name}, not {column.type}"
            yield _problem(pipeline, where, said, f"Declare it as {known[name]}")


def _wrong_step(pipeline: OverAnswers, spec: StepSpec, step: StepSpec) -> Iterator[ConfigProblem]:
    """What a step over answers cannot be."""
    if not spec.composes or spec.window.landmark:
        said = "only an aggregate over windows of a size reads answers"
        yield _problem(pipeline, ("steps", spec.name, "kind"), said, "Make it one")
        return
    slide, own = step.window.slide, spec.window
    if own.size % slide or own.slide % slide or (own.origin - step.window.origin) % slide:
        said = f"windows of {step.name} would lie in two of its own: it moves by {slide / 1e6:g} s"
        yield _problem(pipeline, ("steps", spec.name, "window"), said, "Take multiples of that")
    for key in spec.key_names:
        if key not in step.key_names:
            said = f"{key} is no key of {step.name}, and may change when an answer is corrected"
            remedy = f"Its keys are: {', '.join(step.key_names) or 'none'}"
            yield _problem(pipeline, ("steps", spec.name, "keys"), said, remedy)
    for name in sorted(columns_of(spec.where) - {*step.key_names}):
        said = f"{name} is no key of {step.name}, and may change when an answer is corrected"
        yield _problem(pipeline, ("steps", spec.name, "where"), said, "Compare keys alone")


def _near(name: str, known: Iterable[str]) -> str:
    names = [*known]
    near = difflib.get_close_matches(name, names, 1, 0.5)
    return f"Did you mean {near[0]}?" if near else f"There are: {', '.join(names) or 'none'}"


def _problem(pipeline: Pipeline, where: Loc, said: str, remedy: str) -> ConfigProblem:
    lines = read_yaml(pipeline.path).lines
    return ConfigProblem(pipeline.path, line_in(where, lines), dots(where), said, remedy)
