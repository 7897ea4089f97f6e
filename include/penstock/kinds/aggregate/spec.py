"""The definition of an aggregate: measures of the records in a window."""

from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.core.expression import MeasureSpec, QuantileSpec, columns_of
from penstock.core.identity import expression_form
from penstock.core.measure import Function
from penstock.core.step import StepSpec
from penstock.core.window import WindowSpec


def count_name(average: str) -> str:
    """The measure that an average of a landmark step brings along, so that periods can merge."""
    return f"{average}_count"


def judged(measures: tuple[MeasureSpec, ...], window: WindowSpec) -> tuple[MeasureSpec, ...]:
    """Of these measures those that are asked for themselves."""
    averages = (m.name for m in measures if m.function is Function.AVG)
    brought = {count_name(name) for name in averages} if window.landmark else set()
    return tuple(m for m in measures if m.name not in brought)


@dataclass(frozen=True, slots=True)
class AggregateSpec(StepSpec):
    """One windowed aggregate.

    Attributes:
        measures: at least one.
    """

    kind: ClassVar[str] = "aggregate"
    sheds: ClassVar[bool] = True
    takes: ClassVar[bool] = True

    measures: tuple[MeasureSpec, ...]

    @property
    def is_taken(self) -> bool:
        """Of windows of a size: one since an instant has no end."""
        return not self.window.landmark

    @property
    def values(self) -> tuple[MeasureSpec, ...]:
        """The measures."""
        return self.measures

    @property
    def reads(self) -> frozenset[str]:
        """What the measures are taken over."""
        return frozenset[str]().union(*(columns_of(m.over) for m in self.measures))

    @property
    def judged(self) -> tuple[MeasureSpec, ...]:
        """The measures without the counts that a landmark's averages bring along."""
        return judged(self.measures, self.window)

    def canonical(self) -> dict[str, Any]:
        """The measures, as they are computed."""
        return {"measures": [_form(measure) for measure in self.measures]}


def _form(measure: MeasureSpec) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": measure.name,
        "function": measure.function.value,
        "over": None if measure.over is None else expression_form(measure.over),
        "type": measure.type.value,
    }
    return found | ({"phi": measure.phi} if isinstance(measure, QuantileSpec) else {})
