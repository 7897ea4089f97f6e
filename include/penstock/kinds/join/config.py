"""A join in a pipeline file: each record beside those near in time, of its own stream."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from math import isinf
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, Tag, field_validator, model_validator

from penstock.config.model import BY_FORM, KEYS, WORD, ColumnName, Model, Name, alike
from penstock.config.shed import SheddingConfig
from penstock.config.slack import Quality
from penstock.config.step import Given, Said, problem_of, undeclared
from penstock.core.expression import Column, Expression, columns_of
from penstock.core.measure import ColumnType
from penstock.core.window import WindowSpec, micros
from penstock.kinds.join.conditions import Types, plain, read, sides_of
from penstock.kinds.join.index import index_of, shared
from penstock.kinds.join.spec import LEFT, QUERIES, RIGHT, SEQS, TIMES, JoinSpec, Shift, span_of

SIDES = (LEFT, RIGHT)
CALENDAR = re.compile(
    r"P(?=.)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?"
    r"(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,6})?)S)?)?"
)
MONTHS = 12
LONGEST, MONTH = timedelta(days=36_525), micros(timedelta(days=31))


def _shift(text: str) -> Shift:
    found = CALENDAR.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not a span of time, as in P1M (a month), P7D or PT90S")
    years, months, weeks, days, hours, minutes, seconds = (float(n or 0) for n in found.groups())
    span = timedelta(days=7 * weeks + days, hours=hours, minutes=minutes, seconds=seconds)
    return Shift(int(MONTHS * years + months), micros(span))


def _is_shift(text: str) -> str:
    shift = _shift(text)
    if shift.months * MONTH + shift.span > micros(LONGEST):
        raise ValueError(f"{text} is more than {LONGEST.days:,} days. Write less")
    return text


class Within(Model):
    """How far a right record may lie from where it is looked for."""

    before: timedelta = Field(default=timedelta(), ge=timedelta(0), description="Earlier.")
    after: timedelta = Field(default=timedelta(), ge=timedelta(0), description="Later.")


class JoinConfig(SheddingConfig):
    """Pairs of records that lie near in time, where a condition holds."""

    kind: Literal["join"] = Field(description="Pairs of records near in time.")
    left: Name | None = Field(
        default=None,
        exclude_if=lambda name: name is None,
        description="Of several sources, that of left records; of one stream with itself: stream.",
    )
    right: Name | None = Field(
        default=None,
        exclude_if=lambda name: name is None,
        description="Of several sources, that of right records.",
    )
    keys: tuple[ColumnName, ...] = Field(
        default=(),
        alias="on",
        description="Columns that must be equal; none: any two may be a pair.",
    )
    within: Annotated[Annotated[timedelta, Tag(WORD)] | Annotated[Within, Tag(KEYS)], BY_FORM] = (
        Field(
            description="How far apart the two may lie in time, such as PT1M; or {before:, after:}."
        )
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
        spans = [value] if isinstance(value, timedelta) else [value.before, value.after]
        if min(spans) < timedelta(0):
            raise ValueError("a span of time is not negative. Write how far apart they may lie")
        if max(spans) > LONGEST:
            raise ValueError(f"records lie at most {LONGEST.days:,} days apart. Write less")
        return value

    @field_validator("quality")
    @classmethod
    def _is_of_pairs(cls, value: Quality | None) -> Quality | None:
        if value is None:
            return None
        said = value.model_fields_set - {"epsilon", "delta"}
        if said - {"of"} or ("of" in said and value.of != "pairs"):
            raise ValueError(
                "a join is bound by how many of its pairs are missing at first. Write epsilon and"
                " delta, and delete the rest"
            )
        return value.model_copy(update={"of": "pairs"})

    @model_validator(mode="before")
    @classmethod
    def _calls_its_keys_on(cls, value: Any) -> Any:
        if isinstance(value, dict) and "keys" in value:
            raise ValueError("the columns that must be equal stand at on. Rename keys")
        return value

    @field_validator("queries")
    @classmethod
    def _names_are_free(cls, value: dict[str, str]) -> dict[str, str]:
        if taken := value.keys() & {"timely"}:
            raise ValueError(f"query {taken.pop()}: every step has a view of this name. Rename it")
        return value

    @model_validator(mode="after")
    def _has_two_sides(self) -> "JoinConfig":
        if (self.left is None) != (self.right is None):
            raise ValueError("left and right belong together. Name both, or stream for one alone")
        if self.left is not None and self.stream is not None:
            raise ValueError("stream is for one stream with itself. Delete it, or left and right")
        return self

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the left one and of the right one."""
        if self.left is None or self.right is None:
            return super().streams
        return tuple(dict.fromkeys((self.left, self.right)))

    def spec(self, name: str, given: Given) -> JoinSpec:
        """As the core knows it; a step of a valid file has no ``problems``."""
        before, after = micros(self._reach.before), micros(self._reach.after)
        span = span_of(before + after, targeted=self.quality is not None)
        condition = self._condition(given)
        selected = tuple((side, Column(c, given.types[c])) for side, c in self._selected)
        asked = {c.partition(".")[2] for c in columns_of(condition)} | {c.name for _, c in selected}
        return JoinSpec(
            name=name,
            keys=self.key_columns(given.types),
            where=None,
            window=WindowSpec(span, span),
            slack=self.slack.spec(self.quality, (), span),
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

    def _condition(self, given: Given) -> Expression | None:
        return None if self.where is None else read(self.where, *sides_of(given))

    def problems(self, given: Given) -> Iterator[Said]:
        """Everything wrong with the keys, which a join calls ``on``, and with its own part."""
        for where, said in super().problems(given):
            yield "on" if where == "keys" else where, said

    def own_problems(self, given: Given) -> Iterator[Said]:
        """Of the condition, of what is selected, and of queries."""
        wrong = [*problem_of("where", lambda: self._condition(given)), *self._wrong_sides(given)]
        yield from wrong
        for name, text in self.queries.items():
            said = [*problem_of(f"queries.{name}", partial(read, text, *sides_of(given)))]
            yield from said or ([] if wrong else self._not_kept(name, text, given))

    def _wrong_sides(self, given: Given) -> Iterator[Said]:
        """Columns that one of the two records has not."""
        both = dict(zip(SIDES, sides_of(given), strict=True))
        for side, types in both.items():
            for key in (k for k in self.keys if k in given.types and k not in types):
                yield "on", f"{key} is no column of {side} records. Declare it there, too"
        yield from self._wrong_select(both)

    def _wrong_select(self, both: Mapping[str, Types]) -> Iterator[Said]:
        if same := alike([*(c.name for c in (*SEQS, *TIMES, QUERIES)), *self.answered_columns]):
            yield "select", f"{same} would be one column of a pair. Rename one, or delete it"
        twice = set[tuple[str, str]]()
        for text, (side, column) in zip(self.select, self._selected, strict=True):
            if self.select.count(text) > 1 and (side, column) not in twice:
                twice.add((side, column))
                yield "select", f"{text} stands twice. Delete one"
            if side not in SIDES or not column:
                yield "select", f"{text} is neither left.x nor right.x"
            elif column not in both[side]:
                yield "select", undeclared(column, both[side])

    def _not_kept(self, name: str, text: str, given: Given) -> Iterator[Said]:
        """Columns that a query asks for, and that a definition without it has no use for."""
        asked = columns_of(read(text, *sides_of(given)))
        kept = {c.partition(".")[2] for c in columns_of(self._condition(given))}
        kept |= {*self.keys, *(column for _, column in self._selected)}
        for column in sorted(asked):
            if column.partition(".")[2] not in kept:
                yield f"queries.{name}", f"{column} is not kept. Add it to select"

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
        both = ("each record", "those") if self.left is None else (f"{self.left}", f"{self.right}")
        return f"{both[0]} with {both[1]}{alike}, {self._near}; a pair{asked}{holds or ''}"

    @property
    def _near(self) -> str:
        """Where partners lie, for people."""
        near = self._reach
        spans = ((near.before, "before"), (near.after, "after"))
        told = [f"{each} {which}" for each, which in spans if each]
        shifted = _shift(self.shift) != Shift()
        if near.before == near.after and near.before:
            told = [f"{near.before} before or after"]
        if shifted:
            around = f", and up to {' or '.join(told)} that" if told else ""
            return f"{self.shift} earlier{around}"
        return f"up to {' or '.join(told)} it" if told else "at the same time"

    @property
    def followed(self) -> set[str]:
        """Its queries, as long as there are any."""
        return {"queries"} if self.queries else set()

    def found_by(self, given: Given) -> str:
        """Keys, time, and what the conditions give."""
        conditions = [read(text, *sides_of(given)) for text in self.queries.values()]
        index = shared(index_of(self._condition(given)), [index_of(c) for c in conditions])
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

    @property
    def views(self) -> tuple[str, ...]:
        """Also the pairs of each query."""
        return (*super().views, *self.queries)

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
    if not any(edge for edge in apart if not isinf(edge)):
        return "below" if isinf(low) else "above"
    if isinf(low):
        return f"up to {high:g} above" if high > 0 else f"{-high:g} or more below"
    if isinf(high):
        return f"{low:g} or more above" if low > 0 else f"up to {-low:g} below"
    return f"from {low:g} to {high:g} above"


CONFIG = JoinConfig
