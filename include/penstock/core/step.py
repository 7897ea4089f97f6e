"""A step: one windowed aggregate over a pipeline's events."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from penstock.core import identity
from penstock.core.errors import PenstockError, TerminalError, TransientError
from penstock.core.expression import Column, Expression, MeasureSpec, columns_of
from penstock.core.measure import Function
from penstock.core.slack import SlackSpec
from penstock.core.window import WindowSpec

Result = TypeVar("Result")


def count_name(average: str) -> str:
    """The measure that an average of a landmark step brings along, so that periods can merge."""
    return f"{average}_count"


def judged(measures: tuple[MeasureSpec, ...], window: WindowSpec) -> tuple[MeasureSpec, ...]:
    """Of these measures those that are asked for themselves."""
    averages = (m.name for m in measures if m.function is Function.AVG)
    brought = {count_name(name) for name in averages} if window.landmark else set()
    return tuple(m for m in measures if m.name not in brought)


@dataclass(frozen=True, slots=True)
class StepSpec:
    """What a step answers, and how long it waits.

    Attributes:
        name: unique within the pipeline.
        keys: the columns answered for one by one; empty: one answer a window.
        where: keeps the records for which it is true; none: all.
        window: the spans of event time answered for.
        measures: at least one.
        slack: how far the watermark stays behind; not part of the fingerprint.
    """

    name: str
    keys: tuple[Column, ...]
    where: Expression | None
    window: WindowSpec
    measures: tuple[MeasureSpec, ...]
    slack: SlackSpec

    @property
    def fingerprint(self) -> str:
        """Names the definition: what the answers mean. Equal definitions share their tables."""
        return identity.fingerprint(self)

    @property
    def key_names(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return tuple(key.name for key in self.keys)

    @property
    def judged(self) -> tuple[MeasureSpec, ...]:
        """The measures without the counts that a landmark's averages bring along."""
        return judged(self.measures, self.window)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of ``events`` the step reads, besides event time and position; sorted."""
        read = {key.name for key in self.keys} | columns_of(self.where)
        return tuple(sorted(read.union(*(columns_of(m.over) for m in self.measures))))


def of_each(
    steps: Iterable[StepSpec], work: Callable[[StepSpec], Result]
) -> tuple[list[Result], PenstockError | None]:
    """Do some work for every step, whatever becomes of the others.

    Returns:
        What came of it, in order, without the steps that failed; and what to raise for these once
        the others are dealt with: trying again may help if it may help one of them.
    """
    done, failed = list[Result](), list[tuple[StepSpec, Exception]]()
    for step in steps:
        try:
            done.append(work(step))
        except Exception as error:  # noqa: BLE001  raised by the caller, after the other steps
            failed.append((step, error))
    if not failed:
        return done, None
    said = "; ".join(_told(step, error) for step, error in failed)
    terminal = all(isinstance(error, TerminalError) for _, error in failed)
    whole = TerminalError(said) if terminal else TransientError(said)
    causes = [error for _, error in failed if terminal or not isinstance(error, TerminalError)]
    whole.__cause__ = causes[0]
    return done, whole


def _told(step: StepSpec, error: Exception) -> str:
    if isinstance(error, PenstockError):
        return str(error)
    return f"{step.name}: {type(error).__name__}: {error}"
