"""What every kind of step has in a pipeline file."""

import difflib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from pydantic import (
    Field,
    GetCoreSchemaHandler,
    PositiveInt,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from penstock.config.expression import NoColumn, parse_where
from penstock.config.model import ColumnName, Model, Name
from penstock.config.slack import Quality, SlackConfig
from penstock.core.errors import ConfigError
from penstock.core.expression import Column, Expression
from penstock.core.kinds import KINDS, USUAL, part
from penstock.core.measure import ColumnType
from penstock.core.parallelism import AUTO, UNSAID
from penstock.core.shedding import Shedding
from penstock.core.side import SideTable
from penstock.core.step import StepSpec
from penstock.core.window import WindowSpec, micros

ANSWER_COLUMNS = frozenset(
    {
        "window_start",
        "window_end",
        "n_records",
        "revision",
        "reason",
        "epoch",
        "generation",
        "micro_batch",
        "plan",
        "through_seq",
        "published_at",
        "shard",
        "pane",
        "part",
        "closed",
        "last_seq",
    }
)
Said: TypeAlias = tuple[str, str]
"""Which part of a step is wrong, and what is wrong with it."""


@dataclass(frozen=True)
class Given:
    """What a pipeline gives its steps.

    Attributes:
        types: of the declared columns.
        sides: side data by name.
        code: the file of its user code, whether there is one or not.
        of: types of the columns of each stream that the step reads, in order; none: of all alike.
    """

    types: Mapping[str, ColumnType]
    sides: Mapping[str, SideTable] = field(default_factory=dict)
    code: Path = Path("code.py")
    of: tuple[Mapping[str, ColumnType], ...] = ()


class StepConfig(Model):
    """One step; its kind adds what it answers with."""

    kind: str = Field(default=USUAL, description=f"What the step is: {', '.join(KINDS)}.")
    over: Name | None = Field(
        default=None,
        alias="from",
        exclude_if=lambda over: over is None,
        description="Step of the same file whose answers it reads; none: it reads records.",
    )
    stream: Name | None = Field(
        default=None,
        exclude_if=lambda name: name is None,
        description="Of several sources, the one whose records it reads.",
    )
    keys: tuple[ColumnName, ...] = Field(
        default=(), description="Columns answered for one by one; none: one answer a window."
    )
    where: str | None = Field(default=None, description="Condition, in SQL; others are left out.")
    slack: SlackConfig = Field(description="How long to wait for late records.")
    quality: Quality | None = Field(
        default=None,
        description="How good timely answers must be; for slack pd, pd_final and quantile.",
    )
    apart: bool = Field(
        default=False, description="Run by a query of its own, which a heavy step may need."
    )

    parallelism: PositiveInt | Literal["auto"] | None = Field(
        default=None,
        exclude_if=lambda parallelism: parallelism is None,
        description="Into how many tasks its part of a micro-batch is cut; auto: as the load asks,"
        " one more or less at a time. None: as many as the stream has.",
    )

    @field_validator("kind", mode="before")
    @classmethod
    def _is_a_kind(cls, value: object) -> object:
        if value not in KINDS:
            near = difflib.get_close_matches(str(value), KINDS, 1, 0.5)
            meant = f"Did you mean {near[0]}? " if near else ""
            raise ValueError(f"{value!r} is no kind of step. {meant}There are: {', '.join(KINDS)}")
        return value

    @field_validator("parallelism", mode="wrap")
    @classmethod
    def _is_a_number_of_tasks(cls, value: Any, read: ValidatorFunctionWrapHandler) -> Any:
        try:
            return read(value)
        except ValidationError:  # one for each thing that it may be
            raise ValueError(
                f"{value!r} is no number of tasks. Write one from 1, or auto"
            ) from None

    @model_validator(mode="after")
    def _quality_and_slack_belong_together(self) -> Self:
        if self.slack.steered is not None and self.quality is None:
            raise ValueError(
                "slack pd, pd_final and quantile need a quality target: quality: {epsilon: 0.05,"
                " delta: 0.05}"
            )
        if self.slack.steered is None and self.quality is not None:
            raise ValueError(
                "quality has no effect with this slack. Use slack: {quantile: {}} or delete quality"
            )
        return self

    @abstractmethod
    def spec(self, name: str, given: Given) -> StepSpec:
        """As the core knows it; a step of a valid file has no ``problems``."""

    def whole(self, name: str, given: Given) -> StepSpec:
        """The same, with what every kind has."""
        return replace(
            self.spec(name, given),
            streams=self.streams,
            shed=self.shedding,
            parallelism=self.tasks,
        )

    @abstractmethod
    def own_problems(self, given: Given) -> Iterator[Said]:
        """Everything wrong with the kind's own part."""

    @abstractmethod
    def answered(self) -> Iterable[str]:
        """Columns of an answer beside its window and keys."""

    @abstractmethod
    def said(self, value: str) -> str:
        """What one of those is, as the file or the kind says it."""

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams that it reads; none: of the only one."""
        return () if self.stream is None else (self.stream,)

    @property
    def shedding(self) -> Shedding | None:
        """What it may leave to the correction under load; none: nothing."""
        return None

    @property
    def tasks(self) -> int:
        """Its parallelism, as the core knows it."""
        if self.parallelism is None:
            return UNSAID
        return AUTO if self.parallelism == "auto" else self.parallelism

    @property
    def compares(self) -> str:
        """Each record with what, and when that is an answer; empty: it answers windows."""
        return ""

    @property
    def windows(self) -> str:
        """Its key that says how long windows are."""
        return "window"

    @property
    def views(self) -> tuple[str, ...]:
        """Endings of the views that SQL has of it, beside the one of its answers."""
        return ("timely",)

    @property
    def followed(self) -> set[str]:
        """Keys whose edits a running stream follows by itself."""
        return set()

    def found_by(self, given: Given) -> str:  # noqa: ARG002  of one kind
        """What it looks partners up by; empty: it has none."""
        return ""

    @property
    def late(self) -> str:
        """Of what is compared: which records are late, and what becomes of them."""
        return ""

    def key_columns(self, types: Mapping[str, ColumnType]) -> tuple[Column, ...]:
        """The keys with their types."""
        return tuple(Column(key, types[key]) for key in self.keys)

    def condition(self, types: Mapping[str, ColumnType]) -> Expression | None:
        """The condition, read."""
        return None if self.where is None else parse_where(self.where, types)

    def problems(self, given: Given) -> Iterator[Said]:
        """Everything wrong with the keys, the expressions and the kind's own part."""
        known = self.known(given.types)
        for key in dict.fromkeys(self.keys):
            if self.keys.count(key) > 1:
                yield "keys", f"{key} stands twice. Delete one"
            if said := self._wrong_key(key, known):
                yield "keys", said
        yield from problem_of("where", lambda: self.condition(given.types))
        yield from self.own_problems(given)

    def known(self, types: Mapping[str, ColumnType]) -> Mapping[str, ColumnType]:
        """Columns that keys may be: the declared ones."""
        return types

    def _wrong_key(self, key: str, types: Mapping[str, ColumnType]) -> str:
        if key not in types:
            return undeclared(key, types)
        if key.lower() in ANSWER_COLUMNS | {name.lower() for name in self.answered()}:
            return f"{key} is also the name of an answer's column. Rename one"
        if types[key] is ColumnType.DOUBLE:
            return f"{key} is a double, which does not compare safely. Use string or long"
        return ""


def code_of(path: Path) -> Path:
    """The file of a pipeline's user code, which stands beside its own."""
    return path.with_suffix(".py")


def undeclared(column: str, types: Mapping[str, ColumnType]) -> str:
    """What is wrong with the name of a column that is not there."""
    said = f"{column} is not declared under columns (declared: {', '.join(sorted(types))})"
    return NoColumn(said, column, types)


def wrong_columns(columns: Sequence[str], types: Mapping[str, ColumnType]) -> Iterator[Said]:
    """What is wrong with the columns that a step names at ``columns``."""
    for column in dict.fromkeys(columns):
        if columns.count(column) > 1:
            yield "columns", f"{column} stands twice. Delete one"
        if column not in types:
            yield "columns", undeclared(column, types)


def require_free(what: str, names: Iterable[str]) -> None:
    """Raise ValueError for a name that every answer has a column of; ``what`` it names."""
    taken = sorted(name for name in names if name.lower() in ANSWER_COLUMNS)
    if taken:
        raise ValueError(f"{what} {taken[0]}: the answers use this name. Choose another one")


def whole_span(value: timedelta) -> timedelta:
    """Refuse what is no span of time that windows could have."""
    try:
        WindowSpec(micros(value), micros(value))
    except ConfigError as wrong:
        raise ValueError(str(wrong)) from wrong
    return value


def problem_of(where: str, parse: Callable[[], object]) -> Iterator[Said]:
    """What reading a part of a step says; nothing: it can be read."""
    try:
        parse()
    except ValueError as wrong:
        said = wrong.args[0] if wrong.args else ""
        yield where, said if isinstance(said, NoColumn) else str(wrong)


def config_of(kind: str) -> type[StepConfig]:
    """What a step of a kind may say."""
    found: type[StepConfig] = part(kind, "config").CONFIG
    return found


def kind_of(step: object) -> str:
    """The kind that a step names, whether it is read yet or not; the usual one if it names none."""
    named = step.get("kind") if isinstance(step, Mapping) else getattr(step, "kind", None)
    return named if named in KINDS else USUAL


class ByKind:
    """Reads a step as its kind says; where an error lies then names the kind, too."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Every kind's schema, by its name."""
        choices = {kind: handler.generate_schema(config_of(kind)) for kind in KINDS}
        return core_schema.tagged_union_schema(choices, discriminator=kind_of)
