"""A pipeline on the log of another one, and what can be wrong with it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from penstock.config.answers import OverAnswers
from penstock.config.intake import Definition, History, Intake
from penstock.config.linked import LinkedPipeline, OfPipeline, near, problem
from penstock.config.model import digest_of
from penstock.config.pipeline import Pipeline
from penstock.config.problems import ConfigProblem
from penstock.config.wrong_steps import wrong_steps
from penstock.config.yaml_file import lines_of
from penstock.core.measure import ColumnType
from penstock.core.step import StepSpec
from penstock.core.version import pipeline_of

OF_THE_LOG = ("load", "micro_batch", "keep")


class Guest(LinkedPipeline):
    """A pipeline with steps of its own over records that another pipeline takes in."""

    source: OfPipeline = Field(description="On whose log it stands.")
    columns: Literal[None] = Field(default=None, exclude=True)  # type: ignore[assignment]
    event_time: Literal[None] = Field(default=None, exclude=True)  # type: ignore[assignment]

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


def wrong_guest(pipeline: Guest, ready: Mapping[str, Pipeline]) -> Iterator[ConfigProblem]:
    """Link it to the pipeline whose log it is, and say what is wrong with that.

    Args:
        pipeline: not linked yet.
        ready: pipelines that are, or need not be.
    """
    where, name = ("source", "pipeline"), pipeline.source.pipeline
    other = ready.get(name)
    if other is None:
        yield problem(pipeline, where, f"no valid pipeline is called {name}", near(name, ready))
        return
    if isinstance(other, OverAnswers):
        said = f"{name} takes the answers of {other.source.pipeline}.{other.source.step}"
        yield problem(pipeline, where, said, "Name that as source, pipeline and step")
        return
    pipeline.link(other)
    if other.keep is not None:
        said = f"{name} keeps its records for a while only, by what its own steps need"
        yield problem(pipeline, where, said, f"Delete keep in {other.path.name}")
    types = {stream: intake.types for stream, intake in pipeline.intakes.items()}
    yield from wrong_steps(pipeline.steps, types, {}, pipeline.path, lines_of(pipeline.path))
