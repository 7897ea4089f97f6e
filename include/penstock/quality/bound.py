"""The bound of a quality target as an expectation: (epsilon, delta) is a ``mostly``.

P(relative error >= epsilon) <= delta holds for a sample where at least 1 - delta of its answers are
less than epsilon off. What is likely beyond the sample is said by the upper limit of Clopper and
Pearson (1934), one-sided, 95 %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from penstock.core.limit import CONFIDENCE, upper_limit
from penstock.quality.checks import Severity

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

    from penstock.lake.proof.worth import Worth

PREFIX = "error$"
MEANING = (
    "More timely answers were off by epsilon than the quality target allows. They are exact since"
    " their correction. Look at penstock show --quality: is K still finding its level, do late"
    " values differ from others? Of a step with records and cv: are they far from those of windows?"
)


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors of timely answers of one step, as they turned out.

    Attributes:
        epsilon, delta: of the quality target.
        values: of the newest answers in force; a missing timely answer counts 1.
        since: which windows they are of, in words.
        expected: which rate is to be expected, in words.
    """

    epsilon: float
    delta: float
    values: Sequence[float]
    since: str = ""
    expected: str = ""

    @property
    def beyond(self) -> int:
        """How many are off by epsilon or more."""
        return sum(value >= self.epsilon for value in self.values)

    @property
    def says_something(self) -> bool:
        """Whether a sample without any violation would put the upper limit below delta."""
        return upper_limit(0, len(self.values)) < self.delta

    @property
    def upper(self) -> float:
        """Of the rate of violations: Clopper and Pearson, one-sided."""
        return upper_limit(self.beyond, len(self.values))


def errors_of(worths: Mapping[str, "Worth"]) -> dict[str, Errors]:
    """What each quality target of some steps bounds, by its name; the steps by theirs."""
    from penstock.lake.proof.worth_told import expected, present  # pages are read without a lake

    return {
        rate.name: Errors(
            rate.target.epsilon,
            rate.target.delta,
            rate.errors,
            since=present(one),
            expected=expected(rate, one),
        )
        for one in worths.values()
        for rate in one.rates
        if one.targeted
    }


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
            "bound": _told(errors),
        },
    )


def _told(errors: Errors) -> str:
    """How many were off, of which, and what that leaves possible."""
    n, k = len(errors.values), errors.beyond
    since = f" {errors.since}" if errors.since else ""
    said = (
        f"{k:,} of {n:,} are off by it ({k / n:.2%}){since}; with {CONFIDENCE:.0%} confidence the"
        f" rate is at most {errors.upper:.2%}"
    )
    return f"{said}; expected: {errors.expected}" if errors.expected else said


def bound_of(each: Mapping[str, Any]) -> str | None:
    """What a stored result says of a bound; none: it is of something else."""
    said = each["expectation_config"]["meta"].get("bound")
    return None if said is None else str(said)
