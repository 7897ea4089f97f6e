"""A custom step in a pipeline file: which class of the user's code, and what it reads and says."""

import ast
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, Tag, field_validator

from penstock.config.model import BY_FORM, KEYS, WORD, ColumnName, Model, Name, alike
from penstock.config.side import joins, wrong_loads
from penstock.config.slack import SlackConfig
from penstock.config.step import Given, Said, StepConfig, require_free, whole_span, wrong_columns
from penstock.core.expression import Column
from penstock.core.measure import ColumnType
from penstock.core.window import MILLISECOND, WindowSpec, micros
from penstock.kinds.custom.spec import WHEN, WHICH, CustomSpec, Program

NONE = SlackConfig(fixed=timedelta())


class Every(Model):
    """What changed is told once in each such span of the watermark, of each key its last."""

    every: timedelta = Field(description="How long a span is, such as PT30S.")

    @field_validator("every")
    @classmethod
    def _is_a_span(cls, value: timedelta) -> timedelta:
        return whole_span(value)


class CustomConfig(StepConfig):
    """Code of yours reduces the records of each key to a state, and says what follows from it."""

    kind: Literal["custom"] = Field(description="Of each key a state, by code of yours.")
    code: str = Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Name of the class, in the Python file that is called as the pipeline.",
    )
    keys: tuple[ColumnName, ...] = Field(
        min_length=1, description="Columns answered for: declared, or among makes."
    )
    makes: dict[ColumnName, ColumnType] = Field(
        default_factory=dict, description="Keys that its map makes, with their types."
    )
    columns: tuple[ColumnName, ...] = Field(
        default=(), description="Declared columns that it reads, besides keys and event_time."
    )
    load: dict[Name, dict[ColumnName, ColumnName]] = Field(
        default_factory=dict,
        description="Side data for its map: of each the row where these of its columns equal"
        " columns that the code reads; its others are NAME.column.",
    )
    answers: dict[ColumnName, ColumnType] = Field(
        min_length=1, description="What its finish says, with types."
    )
    update: Annotated[
        Annotated[Literal["immediate"], Tag(WORD)] | Annotated[Every, Tag(KEYS)], BY_FORM
    ] = Field(
        default="immediate",
        description="When what changed is told: immediate, at each record that changed it; or every"
        " so often, as {every: PT30S}, by the watermark.",
    )
    slack: SlackConfig = Field(
        default=NONE, exclude=True, description="None: it waits for no late record."
    )

    @field_validator("answers", "makes")
    @classmethod
    def _names_are_free(cls, value: dict[str, ColumnType]) -> dict[str, ColumnType]:
        require_free("column", value)
        if same := alike([*value, WHEN.name, WHICH.name]):
            raise ValueError(f"{same} differ only in case, or are the step's own. Rename one")
        return value

    @field_validator("slack")
    @classmethod
    def _waits_for_nobody(cls, slack: SlackConfig) -> SlackConfig:
        if slack != NONE:
            raise ValueError("a custom step answers at once and waits for nobody. Delete slack")
        return slack

    def spec(self, name: str, given: Given) -> CustomSpec:
        """As the core knows it; a step of a valid file has no ``problems``."""
        known, types = self.known(given.types), given.types
        span = MILLISECOND if self._every is None else micros(self._every)
        own = [key for key in self.keys if key not in self.makes]
        return CustomSpec(
            name=name,
            keys=tuple(Column(key, known[key]) for key in self.keys),
            where=self.condition(types),
            window=WindowSpec(span, span),
            slack=self.slack.spec(None, (), span),
            own=tuple(Column(key, types[key]) for key in own),
            read=tuple(Column(c, types[c]) for c in self.columns if c not in own),
            said=tuple(Column(*column) for column in self.answers.items()),
            program=Program(self.code, given.code.read_text(encoding="utf-8"), str(given.code)),
            sides=joins(self.load, given.sides),
            waits=self._every is not None,
        )

    @property
    def _every(self) -> timedelta | None:
        """The span after which it tells; none: at once."""
        return self.update.every if isinstance(self.update, Every) else None

    def known(self, types: Mapping[str, ColumnType]) -> Mapping[str, ColumnType]:
        """Declared columns, and those that the code makes."""
        return {**types, **self.makes}

    def own_problems(self, given: Given) -> Iterator[Said]:
        """Of what it reads and makes, and of the code as far as it can be seen unexecuted."""
        yield from wrong_columns(self.columns, given.types)
        for column in self.makes:
            if column not in self.keys:
                yield f"makes.{column}", f"{column} is no key. Name it at keys, or delete it"
            elif column in given.types:
                yield f"makes.{column}", f"{column} is a declared column. Rename one"
        names = [*(key for key in self.keys if key not in self.makes), *self.columns]
        seen = {name: given.types[name] for name in names if name in given.types}
        yield from wrong_loads(self.load, given.sides, seen, "COLUMN", "those that the code reads")
        yield from _wrong_code(given.code, self.code)

    @property
    def compares(self) -> str:
        """What becomes of each record."""
        when = "at every change"
        if self._every is not None:
            when = f"for what changed in each {self._every.total_seconds():g} s of the watermark"
        return f"each record with the state of its key, by {self.code}; an answer {when}"

    @property
    def late(self) -> str:
        """None is."""
        return "no record is: each counts when it comes, whatever its event time"

    @property
    def views(self) -> tuple[str, ...]:
        """Also what is said of each key now, and the records that its code failed on."""
        return (*super().views, "excluded", "now")

    def answered(self) -> Iterator[str]:
        """The record that changed it, and what is said."""
        yield from (WHEN.name, WHICH.name, *self.answers)

    def said(self, value: str) -> str:
        """Whose it is."""
        return f"{value} of {self.code}" if value in self.answers else f"{value} of the record"


def _wrong_code(path: Path, name: str) -> Iterator[Said]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        yield "code", f"{path} is not there. Write it, with class {name}(Code)"
    except (OSError, UnicodeError) as away:
        yield "code", f"{path} cannot be read: {away}"
    except SyntaxError as wrong:
        yield "code", f"{path}:{wrong.lineno}: {wrong.msg}"
    else:
        there = [each.name for each in tree.body if isinstance(each, ast.ClassDef)]
        if name not in there:
            yield "code", f"{path} has no class {name} (it has: {', '.join(there) or 'none'})"


CONFIG = CustomConfig
