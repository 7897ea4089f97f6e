"""A look-up in a pipeline file: each record beside what was seen of its key before."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from penstock.config.expression import parse_where
from penstock.config.model import ColumnName, Model, Name
from penstock.config.side import joins, wrong_loads
from penstock.config.slack import SlackConfig
from penstock.config.step import Given, Said, StepConfig, problem_of, wrong_columns
from penstock.core.expression import Column, Expression
from penstock.core.measure import ColumnType
from penstock.core.side import SideTable
from penstock.core.window import MILLISECOND, WindowSpec, micros
from penstock.kinds.lookup.spec import (
    APART,
    EARLIER,
    LATER,
    NEW,
    OLD,
    SEQS,
    TIMES,
    LookupSpec,
    Pairs,
)

RECORDS = (NEW, OLD, EARLIER, LATER)
MEANT = (*RECORDS, APART.name)
"""Names in a condition."""
NONE = SlackConfig(fixed=timedelta())


class Keep(Model):
    """What is kept of a key."""

    last: int = Field(ge=1, le=1_000, description="So many observations, the last by event time.")


class LookupConfig(StepConfig):
    """Each record is compared with observations of its key; pairs that fit are alarms."""

    kind: Literal["lookup"] = Field(description="Pairs of observations of a key.")
    keys: tuple[ColumnName, ...] = Field(min_length=1, description="Columns that must be equal.")
    keep: Keep = Field(description="Observations of a key that new records are compared with.")
    pairs: Pairs = Field(
        default=Pairs.ALL,
        description="all, or consecutive: with no other observation of the key between them.",
    )
    within: timedelta | None = Field(
        default=None, gt=timedelta(0), description="Of pairs all: longest time between the two."
    )
    columns: tuple[ColumnName, ...] = Field(
        default=(), description="What to keep of a record; alarms show it of both."
    )
    load: dict[Name, dict[ColumnName, str]] = Field(
        default_factory=dict,
        description="Side data for the condition: of each the row where these of its columns equal"
        " new.x or old.x, or earlier.x or later.x.",
    )
    alarm: str = Field(
        description="Condition over new.x and old.x (by arrival), earlier.x and later.x (by event"
        " time), x a key or one of these columns; over x of side data as NAME.x,"
        " and apart, the seconds between the two."
    )
    slack: SlackConfig = Field(
        default=NONE, exclude=True, description="None: a look-up compares at once."
    )

    @field_validator("slack")
    @classmethod
    def _waits_for_nobody(cls, slack: SlackConfig) -> SlackConfig:
        if slack != NONE:
            raise ValueError("a look-up compares at once and waits for nobody. Delete slack")
        return slack

    @model_validator(mode="after")
    def _reach_belongs_to_all_pairs(self) -> Self:
        if (self.pairs is Pairs.ALL) == (self.within is None):
            raise ValueError(
                "pairs all need within, the longest time between the two (within: PT6H)"
                if self.within is None
                else "pairs consecutive know no within. Delete it"
            )
        return self

    def spec(self, name: str, given: Given) -> LookupSpec:
        """As the core knows it; a step of a valid file has no ``problems``."""
        types = given.types
        return LookupSpec(
            name=name,
            keys=self.key_columns(types),
            where=self.condition(types),
            window=WindowSpec(MILLISECOND, MILLISECOND),
            slack=self.slack.spec(None, (), MILLISECOND),
            keep=self.keep.last,
            pairs=self.pairs,
            reach=None if self.within is None else micros(self.within),
            kept=tuple(Column(column, types[column]) for column in self.columns),
            alarm=self._alarm(types, given.sides),
            sides=joins(self.load, given.sides),
        )

    def own_problems(self, given: Given) -> Iterator[Said]:
        """Of the columns to keep, of what is looked up, and of the condition."""
        types, sides = given.types, given.sides
        shown = [key for key in self.keys if key in self.columns]
        wrong = [*wrong_columns(self.columns, types)]
        wrong += [("columns", f"{key} is a key, which alarms show. Delete it") for key in shown]
        if not wrong and all(key in types for key in self.keys):
            wrong += self._wrong_loads(types, sides)
            wrong += [] if wrong else problem_of("alarm", lambda: self._alarm(types, sides))
        yield from wrong

    def _seen(self, types: Mapping[str, ColumnType]) -> dict[str, ColumnType]:
        """What is known of the two records."""
        return {f"{side}.{c}": types[c] for side in RECORDS for c in (*self.keys, *self.columns)}

    def _alarm(self, types: Mapping[str, ColumnType], sides: Mapping[str, SideTable]) -> Expression:
        beside = {c.name: c.type for join in joins(self.load, sides) for c in join.found}
        return parse_where(self.alarm, {APART.name: APART.type, **self._seen(types), **beside})

    def _wrong_loads(
        self, types: Mapping[str, ColumnType], sides: Mapping[str, SideTable]
    ) -> Iterator[Said]:
        for name in self.load:
            if name in MEANT:
                yield f"load.{name}", f"{name} means something here already. Rename the side table"
        seen = self._seen(types)
        yield from wrong_loads(self.load, sides, seen, f"{OLD}.COLUMN", "the two records")

    @property
    def compares(self) -> str:
        """With which observations, and the condition as the file says it."""
        kept = f"of the last {self.keep.last} of its key"
        beside = f", with {', '.join(self.load)} beside it" if self.load else ""
        near = {Pairs.CONSECUTIVE: "those before and after it", Pairs.ALL: "those near in time"}
        return f"each record with {near[self.pairs]} {kept}{beside}; an alarm where {self.alarm}"

    @property
    def late(self) -> str:
        """Those that what is kept is not enough for."""
        return "what is not kept any more is compared by correction, {correction}"

    def answered(self) -> Iterator[str]:
        """Positions, event times and what is kept of both records."""
        yield from (column.name for column in (*SEQS, *TIMES))
        yield from (f"{side}_{column}" for side in (NEW, OLD) for column in self.columns)

    def said(self, value: str) -> str:
        """Which record it is of."""
        side, _, column = value.partition("_")
        return f"{column} of the record that {'came later' if side == NEW else 'was there'}"


CONFIG = LookupConfig
