"""What an aggregate must answer, in DuckDB's SQL over raw records: for a look from outside."""

import re

from penstock.core.expression import MeasureSpec
from penstock.core.measure import ColumnType, Function
from penstock.kinds.aggregate.config import AggregateConfig
from penstock.kinds.aggregate.spec import AggregateSpec

TOLERANCE = 1e-9
"""Of the sum of absolute values, for sums and means of doubles; all else must be equal."""


def names(step: AggregateSpec) -> list[str]:
    """Of the values that raw records can tell: all measures."""
    return [measure.name for measure in step.measures]


def columns(step: AggregateSpec, config: AggregateConfig) -> list[str]:
    """The measures as the file writes them, and what their tolerance is a part of."""
    found = [f'{text} as "{name}"' for name, text in config.measures.items()]
    return found + [
        f"{m.function}(abs({_inner(config.measures[m.name])})) as {_scale(m)}"
        for m in step.measures
        if not _exact(m)
    ]


def unequal(step: AggregateSpec, one: str, other: str) -> list[str]:
    """Conditions under which two answers differ; ``r`` is the true one."""
    found = []
    for measure in step.measures:
        a, b = f'{one}."{measure.name}"', f'{other}."{measure.name}"'
        if _exact(measure):
            found.append(f"{a} is distinct from {b}")
            continue
        far = f"isnan({a}) or abs({a} - {b}) > {TOLERANCE} * r.{_scale(measure)}"
        found += [f"({a} is null) <> ({b} is null)", f"coalesce({far}, false)"]
    return found


def _exact(measure: MeasureSpec) -> bool:
    inexact = measure.function is Function.AVG or (
        measure.function is Function.SUM and measure.type is ColumnType.DOUBLE
    )
    return not inexact


def _scale(measure: MeasureSpec) -> str:
    return f'"{measure.name}__scale"'


def _inner(text: str) -> str:
    """The argument of a measure as the file writes it: ``delay`` of ``avg(delay)``."""
    found = re.fullmatch(r"\s*\w+\s*\((.*)\)\s*", text, re.DOTALL)
    return found[1] if found else text
