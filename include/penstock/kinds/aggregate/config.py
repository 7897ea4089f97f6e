"""An aggregate in a pipeline file: windows, and measures of the records in them."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Literal, Self

from pydantic import AwareDatetime, Field, field_validator, model_validator

from penstock.config.expression import parse_measure
from penstock.config.model import ColumnName, Model, alike
from penstock.config.shed import SheddingConfig
from penstock.config.step import Given, Said, problem_of, require_free
from penstock.core.coverage import BOUNDED
from penstock.core.errors import ConfigError
from penstock.core.expression import MeasureSpec
from penstock.core.measure import ColumnType, Function
from penstock.core.window import WindowSpec, micros
from penstock.kinds.aggregate.spec import AggregateSpec, count_name, judged

COMPANION = "count of what is averaged"
"""A landmark's average brings it along, so that periods can merge."""


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


class AggregateConfig(SheddingConfig):
    """Windowed measures: how many, how much, the least, the greatest, the median."""

    kind: Literal["aggregate"] = Field(default="aggregate", description="Measures of windows.")
    window: WindowConfig = Field(description="The spans of event time answered for.")
    measures: dict[ColumnName, str] = Field(
        min_length=1,
        description="By name: count(*), count(x), sum(x), avg(x), min(x), max(x), median(x),"
        " quantile(x, 0.9).",
    )

    @field_validator("measures")
    @classmethod
    def _names_are_free(cls, value: dict[str, str]) -> dict[str, Any]:
        require_free("measure", value)
        if same := alike(value):
            raise ValueError(f"measures {same} differ only in case. Rename one")
        return value

    @model_validator(mode="after")
    def _totals_are_there(self) -> Self:
        totals = any(
            text.strip().lower().startswith(("count", "sum")) for text in self.measures.values()
        )
        if self.quality is not None and self.quality.of == "total" and not totals:
            raise ValueError(
                "of: total binds the window's total of a count or sum, and there is none. Add"
                " count(*), or delete of"
            )
        if self.quality is not None and self.quality.of == "pairs":
            raise ValueError("of: pairs is about a join. Delete of, or write of: total")
        return self

    def spec(self, name: str, given: Given) -> AggregateSpec:
        """As the core knows it; a step of a valid file has no ``problems``."""
        types = given.types
        window, measures = self.window.spec(), tuple(self._measures(types))
        return AggregateSpec(
            name=name,
            keys=self.key_columns(types),
            where=self.condition(types),
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

    def own_problems(self, given: Given) -> Iterator[Said]:
        """Of the measures, and of the targets for them."""
        types = given.types
        for measure, text in self.measures.items():
            parse = partial(self._measure, measure, text, types)
            yield from problem_of(f"measures.{measure}", parse)
        for measure in self.quality.measures if self.quality else ():
            bound = partial(self._bound, measure, types)
            yield from problem_of(f"quality.measures.{measure}", bound)

    @property
    def views(self) -> tuple[str, ...]:
        """Of windows since an instant also what has come since then."""
        return super().views if self.window.since is None else (*super().views, "so_far")

    def answered(self) -> Iterator[str]:
        """The measures; a landmark's average may bring a count along."""
        yield from self.measures
        if self.window.since is not None:
            yield from map(count_name, self.measures)

    def said(self, value: str) -> str:
        """A measure as it is written."""
        return self.measures.get(value, COMPANION)

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


CONFIG = AggregateConfig
