"""What a step's tables go by: its definition, or a former one as its tables tell it."""

from dataclasses import dataclass
from typing import TypeAlias

from penstock.core.expression import Column
from penstock.core.step import StepSpec


@dataclass(frozen=True, slots=True)
class FormerStep:
    """A definition that the pipeline file no longer has: what its answers look like, no more.

    Attributes:
        id: the step's.
        fingerprint: names the definition.
        identity, values: columns of its answers.
    """

    id: str
    fingerprint: str
    identity: tuple[Column, ...]
    values: tuple[Column, ...]

    @property
    def identity_names(self) -> tuple[str, ...]:
        """Names of the columns that tell an answer from all others of its window."""
        return tuple(column.name for column in self.identity)


Definition: TypeAlias = StepSpec | FormerStep
"""Of a step: the pipeline file's, or a former one as its tables tell it."""
