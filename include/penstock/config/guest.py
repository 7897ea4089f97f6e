"""A pipeline on the log of another one, and what can be wrong with it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from penstock.config.answers import OverAnswers
from penstock.config.expression import NoColumn
from penstock.config.intake import Definition, History, Intake
from penstock.config.linked import LinkedPipeline, OfPipeline, nothing_called, problem
from penstock.config.model import digest_of
from penstock.config.pipeline import Pipeline
from penstock.config.problems import ConfigProblem, Loc, dots, line_in
from penstock.config.step import StepConfig, config_of, kind_of
from penstock.config.wrong_steps import wrong_steps
from penstock.config.yaml_file import lines_of
from penstock.core.floor import BETWEEN
from penstock.core.kinds import KINDS, USUAL
from penstock.core.measure import ColumnType
from penstock.core.step import StepSpec
from penstock.core.version import pipeline_of

SLACK = "slack"
OF_THE_LOG = ("load", "micro_batch", "keep")


class Guest(LinkedPipeline):
    """A pipeline with steps of its own over records that another pipeline takes in."""

    source: OfPipeline = Field(description="On whose log it stands.")
    columns: Literal[None] = Field(default=None, exclude=True)  # type: ignore[assignment]
    event_time: Literal[None] = Field(default=None, exclude=True)  # type: ignore[assignment]
    _waits: tuple[str, ...] = PrivateAttr(default=())

    @field_validator(*(Intake.model_fields.keys() - {"source"}), *OF_THE_LOG, mode="before")
    @classmethod
    def _is_of_the_log(cls, value: Any, info: ValidationInfo) -> Any:
        del value
        raise ValueError(
            f"{info.field_name} is said by the pipeline whose log it is, for all that stand there."
            " Delete it"
        )

    @model_validator(mode="after")
    def _columns_are_there(self) -> Self:
        return self  # the log has them

    @property
    def waits(self) -> tuple[str, ...]:
        """Steps that are yet to say how long they wait: with such it is no valid pipeline."""
        return self._waits

    def let_say(self, waits: Iterable[str]) -> None:
        """Remember which these are, until it is known whose log it is."""
        self._waits = tuple(waits)

    @property
    def log(self) -> str:
        """The pipeline whose log it stands on."""
        return self.other.log

    @property
    def intakes(self) -> Mapping[str, Intake]:
        """Those of the log."""
        return self.other.intakes

    @property
    def streams(self) -> tuple[str, ...]:
        """Those of the log."""
        return self.other.streams

    @property
    def types(self) -> dict[str, ColumnType]:
        """Those of the log."""
        return self.other.types

    @property
    def histories(self) -> dict[str, History]:
        """None: the pipeline whose log it is preloads for all."""
        return {}

    @property
    def definitions(self) -> dict[str, Definition]:
        """Those of the log: its keys alone are what no record may lack there."""
        return self.other.definitions

    def placed(self, step: StepSpec) -> StepSpec:
        """It is known on the log by the name of its pipeline."""
        return replace(self.other.placed(step), guest=pipeline_of(self.name))

    @cached_property
    def digest(self) -> str:
        """Names the content of the file, and what the log is."""
        content = self.model_dump_json(exclude={"snapshots": True}) + self.other.log_digest
        return digest_of(content)

    @property
    def log_digest(self) -> str:
        """That of the log."""
        return self.other.log_digest


def unsaid_slack(content: dict[Any, Any]) -> list[str]:
    """Let steps that do not say how long they wait be read nevertheless: these.

    Whether they are to say it is known once it is known whose log it is: over answers they are not.
    """
    steps, found = content.get("steps"), list[str]()
    for name, step in (steps if isinstance(steps, dict) else {}).items():
        if isinstance(step, dict) and SLACK not in step and _wants_slack(step):
            step[SLACK] = {"quantile": {}} if "quality" in step else {"fixed": "PT0S"}
            found.append(str(name))
    return found


def _wants_slack(step: dict[Any, Any]) -> bool:
    """Not where its kind says it, nor where there is no such kind: that is told by itself."""
    known = step.get("kind", USUAL) in KINDS
    return known and config_of(kind_of(step)).model_fields[SLACK].is_required()


def no_slack(steps: Iterable[str], path: Path, lines: dict[Loc, int]) -> Iterator[ConfigProblem]:
    """That these are to say how long they wait."""
    for name in steps:
        where: Loc = ("steps", name, SLACK)
        remedy = f"Add {SLACK}: {StepConfig.model_fields[SLACK].description}"
        yield ConfigProblem(path, line_in(where, lines), dots(where), "is missing", remedy)


def wrong_guest(
    pipeline: Guest, ready: Mapping[str, Pipeline], every: Iterable[str]
) -> Iterator[ConfigProblem]:
    """Link it to the pipeline whose log it is, and say what is wrong with that.

    Args:
        pipeline: not linked yet.
        ready: pipelines that are, or need not be.
        every: names of those that are read.
    """
    where, name = ("source", "pipeline"), pipeline.source.pipeline
    other, lines = ready.get(name), lines_of(pipeline.path)
    if isinstance(other, OverAnswers):
        above, step = other.source.pipeline, other.source.step
        said = f"{name} takes the answers of {above}.{step}, and has no records of its own"
        remedy = f"To take its answers add step: {' or '.join(other.steps)}; to take the same ones"
        yield problem(pipeline, where, said, f"{remedy} write pipeline: {above}, step: {step}")
        return
    if other is None:
        yield problem(pipeline, where, *nothing_called(name, pipeline.path, ready, every))
    if other is not None or BETWEEN not in name:  # over answers nothing waits
        yield from no_slack(pipeline.waits, pipeline.path, lines)
    if other is None:
        return
    pipeline.link(other)
    if other.keep is not None:
        said = f"{name} keeps its records for a while only, by what its own steps need"
        yield problem(pipeline, where, said, f"Delete keep in {other.path.name}")
    types = {stream: intake.types for stream, intake in pipeline.intakes.items()}
    yield from wrong_steps(
        pipeline.steps, types, {}, pipeline.path, lines, partial(_no_column, _file_of(other))
    )


def _file_of(pipeline: Pipeline) -> str:
    """The file that says what the log is on which one stands."""
    while isinstance(pipeline, Guest):
        pipeline = pipeline.other
    return pipeline.path.name


def _no_column(file: str, said: NoColumn) -> tuple[str, str]:
    """A guest declares none."""
    remedy = f"Add it under columns there (declared: {', '.join(said.known)})"
    if said.meant:
        remedy = f"Did you mean {said.meant}?"
    return f"column {said.column} is not declared in {file}, whose log it is", remedy
