"""The model of a step in a pipeline file."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Self

from pydantic import AwareDatetime, Field, field_validator, model_validator

from penstock.config.expression import parse_measure, parse_where
from penstock.config.model import ColumnName, Model, alike
from penstock.config.slack import Quality, SlackConfig
from penstock.core.coverage import BOUNDED
from penstock.core.errors import ConfigError
from penstock.core.expression import Column, MeasureSpec
from penstock.core.measure import ColumnType, Function
from penstock.core.step import StepSpec, count_name, judged
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


class WindowConfig(Model):
    """The spans of event time answered for: size (and slide), or since and period."""

    size: timedelta | None = Field(default=None, description="Length of a window.")
    slide: timedelta | None = Field(
        default=None, description="From one start to the next; none: the size (tumbling)."
    )
    since: AwareDatetime | None = Field(default=None, description="Landmark: its first instant.")
    period: timedelta | None = Field(
        default=None, description="Landmark: how often an answer is given."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        landmark = self.since is not None or self.period is not None
        if landmark and (self.size is not None or self.slide is not None):
            raise ValueError("a landmark window has since and period, no size and no slide")
        if landmark and (self.since is None or self.period is None):
            raise ValueError("a landmark window needs both since and period")
        if not landmark and self.size is None:
            raise ValueError("name a size, as in {size: PT1H}, or since and period")
        self.spec()
        return self

    def spec(self) -> WindowSpec:
        """As the core knows it."""
        try:
            if self.since is not None and self.period is not None:
                period = micros(self.period)
                return WindowSpec(period, period, micros(self.since), landmark=True)
            size = micros(self.size or timedelta())
            return WindowSpec(size, size if self.slide is None else micros(self.slide))
        except ConfigError as wrong:
            raise ValueError(str(wrong)) from wrong


class StepConfig(Model):
    """One windowed aggregate."""

    keys: tuple[ColumnName, ...] = Field(
        default=(), description="Columns answered for one by one; none: one answer a window."
    )
    where: str | None = Field(default=None, description="Condition, in SQL; others are left out.")
    window: WindowConfig = Field(description="The spans of event time answered for.")
    measures: dict[ColumnName, str] = Field(
        min_length=1,
        description="By name: count(*), count(x), sum(x), avg(x), min(x), max(x), median(x),"
        " quantile(x, 0.9).",
    )
    slack: SlackConfig = Field(description="How long to wait for late records.")
    quality: Quality | None = Field(
        default=None, description="How good timely answers must be; for slack pd and quantile."
    )
    apart: bool = Field(
        default=False, description="Run by a query of its own, which a heavy step may need."
    )

    @field_validator("measures")
    @classmethod
    def _names_are_free(cls, value: dict[str, str]) -> dict[str, Any]:
        taken = sorted(name for name in value if name.lower() in ANSWER_COLUMNS)
        if taken:
            raise ValueError(f"measure {taken[0]}: the answers use this name. Choose another one")
        if same := alike(value):
            raise ValueError(f"measures {same} differ only in case. Rename one")
        return value

    @model_validator(mode="after")
    def _quality_and_slack_belong_together(self) -> Self:
        if self.slack.steered is not None and self.quality is None:
            raise ValueError(
                "slack pd and quantile need a quality target: quality: {epsilon: 0.05, delta: 0.05}"
            )
        if self.slack.steered is None and self.quality is not None:
            raise ValueError(
                "quality has no effect with this slack. Use slack: {quantile: {}} or delete quality"
            )
        totals = any(
            text.strip().lower().startswith(("count", "sum")) for text in self.measures.values()
        )
        if self.quality is not None and self.quality.of == "total" and not totals:
            raise ValueError(
                "of: total binds the window's total of a count or sum, and there is none. Add"
                " count(*), or delete of"
            )
        return self

    def spec(self, name: str, types: Mapping[str, ColumnType]) -> StepSpec:
        """As the core knows it; a step of a valid file has no ``problems``."""
        window, measures = self.window.spec(), tuple(self._measures(types))
        return StepSpec(
            name=name,
            keys=tuple(Column(key, types[key]) for key in self.keys),
            where=None if self.where is None else parse_where(self.where, types),
            window=window,
            measures=measures,
            slack=self.slack.spec(self.quality, judged(measures, window), window.size),
        )

    def _measures(self, types: Mapping[str, ColumnType]) -> Iterator[MeasureSpec]:
        for name, text in self.measures.items():
            measure = self._measure(name, text, types)
            yield measure
            count = count_name(name)
            averaged = self.window.since is not None and measure.function is Function.AVG
            if averaged and count not in self.measures:
                yield MeasureSpec(count, Function.COUNT, measure.over, ColumnType.LONG)

    def problems(self, types: Mapping[str, ColumnType]) -> Iterator[tuple[str, str]]:
        """Everything wrong with the keys and expressions: which part, and what."""
        for key in dict.fromkeys(self.keys):
            if self.keys.count(key) > 1:
                yield "keys", f"{key} stands twice. Delete one"
            if said := self._wrong_key(key, types):
                yield "keys", said
        if self.where is not None:
            yield from _problem("where", lambda: parse_where(self.where or "", types))
        for measure, text in self.measures.items():
            parse = partial(self._measure, measure, text, types)
            yield from _problem(f"measures.{measure}", parse)
        for measure in self.quality.measures if self.quality else ():
            yield from _problem(f"quality.measures.{measure}", partial(self._bound, measure, types))

    def _columns(self) -> Iterator[str]:
        """Of an answer, beside its keys; a landmark's average may bring a count along."""
        yield from self.measures
        if self.window.since is not None:
            yield from map(count_name, self.measures)

    def _measure(self, name: str, text: str, types: Mapping[str, ColumnType]) -> MeasureSpec:
        measure = parse_measure(name, text, types)
        if measure.function is Function.QUANTILE and self.window.since is not None:
            raise ValueError(
                f"'{text}': quantiles of periods do not merge into one since the landmark. Use"
                " a window with a size"
            )
        own = self.measures.get(count_name(name))
        if measure.function is Function.AVG and self.window.since is not None and own is not None:
            count = parse_measure(count_name(name), own, types)
            if (count.function, count.over) != (Function.COUNT, measure.over):
                raise ValueError(
                    f"'{text}' needs a count of its values to be merged, and {count_name(name)} is"
                    " the name of it. Rename that measure"
                )
        return measure

    def _bound(self, name: str, types: Mapping[str, ColumnType]) -> None:
        if name not in self.measures:
            raise ValueError(f"no measure has this name (measures: {', '.join(self.measures)})")
        try:
            function = self._measure(name, self.measures[name], types).function
        except ValueError:
            return  # said where the measure stands
        if function not in BOUNDED:
            raise ValueError(
                f"{function} has no bound: one late record may be it. Delete this target, or name"
                " a quantile"
            )

    def _wrong_key(self, key: str, types: Mapping[str, ColumnType]) -> str:
        if key not in types:
            known = ", ".join(sorted(types))
            return f"{key} is not declared under columns (declared: {known})"
        if key.lower() in ANSWER_COLUMNS | {name.lower() for name in self._columns()}:
            return f"{key} is also the name of an answer's column. Rename one"
        if types[key] is ColumnType.DOUBLE:
            return f"{key} is a double, which does not compare safely. Use string or long"
        return ""


def _problem(part: str, parse: Callable[[], object]) -> Iterator[tuple[str, str]]:
    try:
        parse()
    except ValueError as wrong:
        yield part, str(wrong)
