"""Who carries out the pieces of a plan: this process, or the workers of an engine.

The lake knows no engine. Whoever runs one hands in its workers as a crew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from penstock.core.errors import PenstockError

P = TypeVar("P")
R = TypeVar("R")


class Crew(Protocol):
    """Workers that do the same to each of some parts."""

    @property
    def hands(self) -> int:
        """How many parts they do at once, as of now."""

    def map(self, work: Callable[[P], R], parts: Sequence[P]) -> list[R]:
        """What becomes of each part, in order.

        Args:
            work: can be pickled, as can the parts and what becomes of them. A part may be done
                more than once, where a worker was lost: of what that left beside the results
                nobody knows.
            parts: at least one.
        """


class Alone:
    """This process."""

    hands = 1

    def map(self, work: Callable[[P], R], parts: Sequence[P]) -> list[R]:
        """One after the other."""
        return [work(part) for part in parts]


ALONE = Alone()


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that this project raised on purpose, on its way to another process.

    Attributes:
        kind: its class.
        said: its message.
        values: what else it carries.
    """

    kind: type[PenstockError]
    said: str
    values: dict[str, Any]

    @classmethod
    def of(cls, error: PenstockError) -> Self:
        """From an error."""
        return cls(type(error), str(error), dict(vars(error)))

    def error(self) -> PenstockError:
        """As an error again."""
        error = self.kind.__new__(self.kind, self.said)
        error.__dict__.update(self.values)
        return error


@dataclass(frozen=True, slots=True)
class Told(Generic[P, R]):
    """Work that tells its errors in place of raising them: an engine would only name them."""

    work: Callable[[P], R]

    def __call__(self, part: P) -> R | Fault:
        """Do it."""
        try:
            return self.work(part)
        except PenstockError as error:
            return Fault.of(error)
