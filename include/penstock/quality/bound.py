"""The bound of a quality target as an expectation: (epsilon, delta) is a ``mostly``.

P(relative error >= epsilon) <= delta holds for a sample where at least 1 - delta of its answers are
less than epsilon off. What is likely beyond the sample is said by the upper limit of Clopper and
Pearson (1934), one-sided, 95 %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import TYPE_CHECKING, Any

import pandas as pd

from penstock.quality.checks import Severity

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

CONFIDENCE = 0.95
PREFIX = "error$"
MEANING = (
    "More timely answers were off by epsilon than the quality target allows. They are exact since"
    " their correction. Look at penstock show --quality: is K still finding its level, are"
    " records and cv of the target far from what windows hold, do late values differ from others?"
)


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors of timely answers of one step, as they turned out.

    Attributes:
        epsilon, delta: of the quality target.
        values: of the newest answers in force; a missing timely answer counts 1.
    """

    epsilon: float
    delta: float
    values: Sequence[float]

    @property
    def beyond(self) -> int:
        """How many are off by epsilon or more."""
        return sum(value >= self.epsilon for value in self.values)

    @property
    def says_something(self) -> bool:
        """Whether a sample without any violation would put the upper limit below delta."""
        return len(self.values) >= ceil(log(1 - CONFIDENCE) / log(1 - self.delta))

    @property
    def upper(self) -> float:
        """Of the rate of violations: Clopper and Pearson, one-sided."""
        from scipy.stats import beta

        n, k = len(self.values), self.beyond
        return 1.0 if k == n else float(beta.ppf(CONFIDENCE, k + 1, n - k))


def with_errors(frame: pd.DataFrame, errors: Mapping[str, Errors]) -> pd.DataFrame:
    """The comparisons with a column of errors a step; the checks pass by the rows without a step.

    Whole numbers stay whole beside missing ones.
    """
    if not errors:
        return frame
    whole = [c for c in frame.columns if pd.api.types.is_integer_dtype(frame[c].dtype)]
    frame = frame.astype(dict.fromkeys(whole, "Int64"))
    rows = max(len(each.values) for each in errors.values())
    columns = {PREFIX + step: pd.Series(each.values) for step, each in errors.items()}
    more = pd.DataFrame(columns, index=range(rows)).astype("float64")
    return pd.concat([frame, more], ignore_index=True)


def expectation(step: str, errors: Errors) -> "Expectation":
    """Relative error below epsilon, mostly = 1 - delta."""
    import great_expectations.expectations as gxe

    n, k = len(errors.values), errors.beyond
    return gxe.ExpectColumnValuesToBeBetween(
        column=PREFIX + step,
        max_value=errors.epsilon,
        strict_max=True,
        mostly=1 - errors.delta,
        description=f"Timely answers of {step} are less than {errors.epsilon:.3g} off, in all but"
        f" {errors.delta:.3g} of cases.",
        severity=Severity.WARNING.value,
        meta={
            "meaning": MEANING,
            "bound": f"{k:,} of {n:,} are off by it ({k / n:.2%}); with {CONFIDENCE:.0%}"
            f" confidence the rate is at most {errors.upper:.2%}",
        },
    )


def bound_of(each: Mapping[str, Any]) -> str | None:
    """What a stored result says of a bound; none: it is of something else."""
    said = each["expectation_config"]["meta"].get("bound")
    return None if said is None else str(said)
