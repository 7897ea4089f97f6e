"""A latest in a pipeline file: of each key the newest record."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from penstock.config.model import ColumnName
from penstock.config.shed import SheddingConfig
from penstock.config.step import Given, Said, require_free, whole_span, wrong_columns
from penstock.core.expression import Column
from penstock.core.window import WindowSpec, micros
from penstock.kinds.latest.spec import WHEN, WHICH, LatestSpec


class LatestConfig(SheddingConfig):
    """Of each key the newest record: where it was last seen, what it last said."""

    kind: Literal["latest"] = Field(description="The newest record of each key.")
    keys: tuple[ColumnName, ...] = Field(min_length=1, description="Columns answered for.")
    every: timedelta = Field(
        default=timedelta(minutes=1),
        description="A key that has new records is answered once in each such span of event time.",
    )
    columns: tuple[ColumnName, ...] = Field(
        default=(), description="What to keep of it, beside its event time and position."
    )

    @field_validator("columns")
    @classmethod
    def _names_are_free(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        require_free("column", value)
        return value

    @field_validator("every")
    @classmethod
    def _is_a_span(cls, value: timedelta) -> timedelta:
        return whole_span(value)

    @model_validator(mode="after")
    def _quality_and_slack_belong_together(self) -> Self:
        if self.quality is not None or self.slack.steered is not None:
            raise ValueError(
                "a newest record has no size that could be off by a share. Delete quality, and use"
                " slack fixed or max_delay"
            )
        return self

    def spec(self, name: str, given: Given) -> LatestSpec:
        """As the core knows it; a step of a valid file has no ``problems``."""
        span, types = micros(self.every), given.types
        return LatestSpec(
            name=name,
            keys=self.key_columns(types),
            where=self.condition(types),
            window=WindowSpec(span, span),
            slack=self.slack.spec(None, (), span),
            kept=tuple(Column(column, types[column]) for column in self.columns),
        )

    def own_problems(self, given: Given) -> Iterator[Said]:
        """Of the columns to keep."""
        yield from wrong_columns(self.columns, given.types)

    @property
    def windows(self) -> str:
        """The span in which a key is answered once."""
        return "every"

    @property
    def views(self) -> tuple[str, ...]:
        """Also where each key is now."""
        return (*super().views, "now")

    def answered(self) -> Iterator[str]:
        """The newest record's instant and position, and what is kept of it."""
        yield from (WHEN.name, WHICH.name, *self.columns)

    def said(self, value: str) -> str:
        """That all of it is the newest record's."""
        return f"{value} of the newest record"


CONFIG = LatestConfig
