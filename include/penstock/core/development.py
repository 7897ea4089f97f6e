"""How much of a window is still to come, by its age: nowcasting by the chain ladder.

Lateness is right-truncated data: of young windows only the prompt records are known. The growth
from each age to the next is taken from windows that have passed both, records over records; what
a window comes to is what it has times the product of the growth still before it. Source: Mack
1993, "Distribution-free calculation of the standard error of chain ladder reserve estimates"
(development factors, unbiased where growth from age to age does not depend on what came before);
England and Verrall 2002 for its use as a nowcast. Older windows count less and less.
"""

from dataclasses import dataclass, field
from typing import Any, Self

MEMORY = 500
"""Windows after which one counts for a third."""


@dataclass(slots=True)
class Development:
    """Growth from age to age.

    Attributes:
        ages: how many there are.
        passed: records of windows at an age, of those that have passed the next.
        grown: records of the same windows at the next age.
    """

    ages: int
    passed: list[float] = field(init=False)
    grown: list[float] = field(init=False)

    def __post_init__(self) -> None:
        self.passed, self.grown = [0.0] * self.ages, [0.0] * self.ages

    def saw(self, age: int, records: int, later: int) -> None:
        """A window had so many records at an age, and so many at the next."""
        keep = 1 - 1 / MEMORY
        self.passed[age] = keep * self.passed[age] + records
        self.grown[age] = keep * self.grown[age] + later

    def factors(self, until: int) -> list[float]:
        """By what the records of a window at each age grow up to an age, shape (until + 1,)."""
        found = [1.0] * (until + 1)
        for age in range(until - 1, -1, -1):
            growth = self.grown[age] / self.passed[age] if self.passed[age] else 1.0
            found[age] = found[age + 1] * growth
        return found

    def to_json(self) -> list[Any]:
        """All that was seen; ``from_json`` reads it back."""
        last = max((i + 1 for i, n in enumerate(self.grown) if n), default=0)
        return [self.passed[:last], self.grown[:last]]

    @classmethod
    def from_json(cls, ages: int, content: list[Any]) -> Self:
        """Read back what ``to_json`` wrote."""
        found = cls(ages)
        for held, read in zip((found.passed, found.grown), content, strict=True):
            held[: len(read)] = read
        return found
