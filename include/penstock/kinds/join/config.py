"""A join in a pipeline file: each record beside those near in time, of its own stream."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from math import isinf
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from penstock.config.model import ColumnName, Model, Name, alike
from penstock.config.step import Given, Said, StepConfig, problem_of, undeclared
from penstock.core.expression import Column, Expression, columns_of
from penstock.core.measure import ColumnType
from penstock.core.window import WindowSpec, micros
from penstock.kinds.join.conditions import plain, read
from penstock.kinds.join.index import index_of, shared
from penstock.kinds.join.spec import LEFT, QUERIES, RIGHT, SEQS, TIMES, JoinSpec, Shift, span_of

SIDES = (LEFT, RIGHT)
CALENDAR = re.compile(
    r"P(?=.)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,6})?)S)?)?"
)
MONTHS = 12


def _shift(text: str) -> Shift:
    found = CALENDAR.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not a span of time, as in P1M (a month), P7D or PT90S")
    years, months, weeks, days, hours, minutes, seconds = (float(n or 0) for n in found.groups())
    span = timedelta(days=7 * weeks + days, hours=hours, minutes=minutes, seconds=seconds)
    return Shift(int(MONTHS * years + months), micros(span))


def _is_shift(text: str) -> str:
    _shift(text)
    return text


class Within(Model):
    """How far a right record may lie from where it is looked for."""

    before: timedelta = Field(default=timedelta(), ge=timedelta(0), description="Earlier.")
    after: timedelta = Field(default=timedelta(), ge=timedelta(0), description="Later.")


class JoinConfig(StepConfig):
    """Pairs of records that lie near in time, where a condition holds."""

    kind: Literal["join"] = Field(description="Pairs of records near in time.")
    keys: tuple[ColumnName, ...] = Field(
        default=(),
        alias="on",
        description="Columns that must be equal; none: any two may be a pair.",
    )
    within: timedelta | Within = Field(
        description="How far apart the two may lie in time, such as PT1M; or {before:, after:}."
    )
    shift: Annotated[str, AfterValidator(_is_shift)] = Field(
        default="PT0S",
        description="How much earlier the right record lies, such as PT1H, or P1M for a month of"
        " the calendar (UTC).",
    )
    where: str | None = Field(
        default=None, description="Condition over left.x and right.x; none: all that are near."
    )
    queries: dict[Name, str] = Field(
        default_factory=dict,
        description="Conditions that share the join, by name: a pair satisfies one at least, and"
        " names all that it does. They may be edited while the stream runs, and may use columns of"
        " on, where and select.",
    )
    select: tuple[str, ...] = Field(
        default=(), description="Columns that a pair shows, as left.x or right.x."
    )

    @field_validator("within")
    @classmethod
    def _is_a_span(cls, value: timedelta | Within) -> timedelta | Within:
        if isinstance(value, timedelta) and value < timedelta(0):
            raise ValueError("a span of time is not negative. Write how far apart they may lie")
        return value

    @model_validator(mode="after")
    def _quality_and_slack_belong_together(self) -> "JoinConfig":
        if self.quality is not None or self.slack.steered is not None:
            raise ValueError(
                "a pair has no size that could be off by a share. Delete quality, and use slack"
                " fixed or max_delay"
            )
        return self

    def spec(self, name: str, given: Given) -> JoinSpec:
        """As the core knows it; a step of a valid file has no ``problems``."""
        before, after = micros(self._reach.before), micros(self._reach.after)
        span, condition = span_of(before + after), self._condition(given.types)
        selected = tuple((side, Column(c, given.types[c])) for side, c in self._selected)
        asked = {c.partition(".")[2] for c in columns_of(condition)} | {c.name for _, c in selected}
        return JoinSpec(
            name=name,
            keys=self.key_columns(given.types),
            where=None,
            window=WindowSpec(span, span),
            slack=self.slack.spec(None, (), span),
            shift=_shift(self.shift),
            before=before,
            after=after,
            condition=condition,
            selected=selected,
            observed=tuple(Column(c, given.types[c]) for c in sorted(asked - {*self.keys})),
            queries=tuple(sorted(self.queries.items())),
        )

    @property
    def _reach(self) -> Within:
        """Both bounds."""
        near = self.within
        return Within(before=near, after=near) if isinstance(near, timedelta) else near

    @property
    def _selected(self) -> list[tuple[str, str]]:
        """Side and column of each."""
        return [(side, column) for side, _, column in (each.partition(".") for each in self.select)]

    def condition(self, types: Mapping[str, ColumnType]) -> Expression | None:  # noqa: ARG002
        """Of single records none: ``where`` is about pairs."""
        return None

    def _condition(self, types: Mapping[str, ColumnType]) -> Expression | None:
        return None if self.where is None else read(self.where, types)

    def problems(self, given: Given) -> Iterator[Said]:
        """Everything wrong with the keys, which a join calls ``on``, and with its own part."""
        for where, said in super().problems(given):
            yield "on" if where == "keys" else where, said

    def own_problems(self, given: Given) -> Iterator[Said]:
        """Of the condition, of what is selected, and of queries."""
        types = given.types
        wrong = [*problem_of("where", lambda: self._condition(types)), *self._wrong_select(types)]
        yield from wrong
        for name, text in self.queries.items():
            said = [*problem_of(f"queries.{name}", partial(read, text, types))]
            yield from said or ([] if wrong else self._not_kept(name, text, types))

    def _wrong_select(self, types: Mapping[str, ColumnType]) -> Iterator[Said]:
        if same := alike([*(c.name for c in (*SEQS, *TIMES, QUERIES)), *self.answered_columns]):
            yield "select", f"{same} would be one column of a pair. Rename one, or delete it"
        for text, (side, column) in zip(self.select, self._selected, strict=True):
            if self.select.count(text) > 1:
                yield "select", f"{text} stands twice. Delete one"
            if side not in SIDES or not column:
                yield "select", f"{text} is neither left.x nor right.x"
            elif column not in types:
                yield "select", undeclared(column, types)

    def _not_kept(self, name: str, text: str, types: Mapping[str, ColumnType]) -> Iterator[Said]:
        """Columns that a query asks for, and that a definition without it has no use for."""
        asked = {c.partition(".")[2] for c in columns_of(read(text, types))}
        kept = {c.partition(".")[2] for c in columns_of(self._condition(types))}
        kept |= {*self.keys, *(column for _, column in self._selected)}
        for column in sorted(asked - kept):
            yield f"queries.{name}", f"{column} is not kept. Add left.{column} to select"

    @property
    def answered_columns(self) -> list[str]:
        """Columns of a pair that are selected."""
        return [f"{side}_{column}" for side, column in self._selected]

    @property
    def compares(self) -> str:
        """With which records, and the condition as the file says it."""
        alike = f" with the same {', '.join(self.keys)}" if self.keys else ""
        holds = "" if self.where is None else f" where {self.where}"
        asked = f" of {', '.join(self.queries)}" if self.queries else ""
        return f"each record with those{alike} {self._near}; a pair{asked}{holds}"

    @property
    def _near(self) -> str:
        """Where partners lie, for people."""
        near = self._reach
        spans = ((near.before, "before"), (near.after, "after"))
        told = [f"{each.total_seconds():g} s {which}" for each, which in spans if each]
        shifted = _shift(self.shift) != Shift()
        if near.before == near.after and near.before:
            told = [f"{near.before.total_seconds():g} s before or after"]
        there = f"{self.shift} earlier" if shifted else "the same time"
        return f"up to {' or '.join(told)} {there}" if told else f"of {there}"

    def found_by(self, given: Given) -> str:
        """Keys, time, and what the conditions give."""
        conditions = [read(text, given.types) for text in self.queries.values()]
        index = shared(index_of(self._condition(given.types)), [index_of(c) for c in conditions])
        equal = [f"{plain(each.left)} = {plain(each.right)}, by hash" for each in index.equal]
        ranged = index.ranged
        order = [] if ranged is None else [
            f"{plain(ranged.right)} {' or '.join(map(_span, ranged.apart))} {plain(ranged.left)},"
            " by order"
        ]  # fmt: skip
        keys = [f"{', '.join(self.keys)}, by hash"] if self.keys else []
        return "; ".join([*keys, "time, by order", *equal, *order])

    @property
    def late(self) -> str:
        """Those that came behind the watermark."""
        return "what came behind the watermark is compared by correction, {correction}"

    def answered(self) -> Iterator[str]:
        """Positions, event times and what is selected of both records."""
        yield from (column.name for column in (*SEQS, *TIMES))
        yield from self.answered_columns
        yield from [QUERIES.name] if self.queries else []

    def said(self, value: str) -> str:
        """Which record it is of."""
        if value == QUERIES.name:
            return "the queries that it satisfies"
        side, _, column = value.partition("_")
        return f"{column} of the {side} record"


def _span(apart: tuple[float, float]) -> str:
    """How numbers lie to one another."""
    low, high = apart
    if isinf(low):
        return f"up to {high:g} above" if high > 0 else f"at least {-high:g} below"
    if isinf(high):
        return f"at least {low:g} above" if low >= 0 else f"at most {-low:g} below"
    return f"from {low:g} to {high:g} above"


CONFIG = JoinConfig
