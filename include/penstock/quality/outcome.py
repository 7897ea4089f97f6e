"""What one validation says, read from the result that Great Expectations stores.

The same reading serves the caller of the suite and the report's page, so they cannot differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.quality.bound import bound_of
from penstock.quality.checks import EXAMPLE_OF, Severity
from penstock.quality.comparisons import Example, examples_of

FAILED, NOTHING = "failed", "nothing"


@dataclass(frozen=True, slots=True)
class FailedExpectation:
    """A claim that did not hold.

    Args:
        claim: what should hold.
        severity: critical makes the audit red.
        meaning: what it means, and where to look.
        observed: what was found, per step, as text.
        examples: answers it shows on, if it is about answers; at most 20 a step.
    """

    claim: str
    severity: Severity
    meaning: str
    observed: str
    examples: tuple[Example, ...] = ()

    @property
    def told(self) -> str:
        """The claim and what was found instead."""
        return f"{self.claim}: {self.observed}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A validation, read.

    Args:
        pipeline: whose audit it is.
        run_name: the audit's run.
        at: when, aware.
        failed: every claim that did not hold, the gravest first.
        comparisons: the rows the claims were made about.
        statistics: Great Expectations' counts of expectations.
        notes: what there is to know besides, for people.
        slacks: a table of what slacks cost and bring, its header first.
    """

    pipeline: str
    run_name: str
    at: datetime
    failed: tuple[FailedExpectation, ...]
    comparisons: tuple[Mapping[str, Any], ...]
    statistics: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    slacks: tuple[tuple[str, ...], ...] = ()

    @property
    def critical(self) -> tuple[FailedExpectation, ...]:
        """The failures that make the audit red."""
        return tuple(each for each in self.failed if each.severity is Severity.CRITICAL)

    @property
    def status(self) -> str:
        """``failed``, ``nothing``, ``warning`` or ``passed``; failures of severity info pass.

        Nothing: no answer of any step was compared, so that nothing failed and nothing is proved.
        """
        if self.critical:
            return FAILED
        if not any(row["answers_compared"] for row in self.comparisons):
            return NOTHING
        return "warning" if any(f.severity is Severity.WARNING for f in self.failed) else "passed"

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples of all steps."""
        return tuple(
            example
            for row in self.comparisons
            for example in examples_of(row["step"], row["examples"])
        )


def read_outcome(result: Mapping[str, Any]) -> Outcome:
    """Read a stored validation result.

    Args:
        result: JSON form of an ``ExpectationSuiteValidationResult`` of our suite.
    """
    audit = next(
        meta["audit"]
        for each in result["results"]
        if "audit" in (meta := each["expectation_config"]["meta"])
    )
    examples = [
        e for row in audit["comparisons"] for e in examples_of(row["step"], row["examples"])
    ]
    failed = [_failed(each, examples) for each in result["results"] if not each["success"]]
    order = list(Severity)
    return Outcome(
        pipeline=audit["pipeline"],
        run_name=audit["run_name"],
        at=datetime.fromisoformat(audit["at"]),
        failed=tuple(sorted(failed, key=lambda each: order.index(each.severity))),
        comparisons=tuple(audit["comparisons"]),
        statistics=result["statistics"],
        notes=tuple(audit.get("notes", ())),
        slacks=tuple(map(tuple, audit.get("slacks", ()))),
    )


def _failed(each: Mapping[str, Any], examples: Sequence[Example]) -> FailedExpectation:
    config = each["expectation_config"]
    column = config["kwargs"]["column"]
    steps = {row["step"] for row in each["result"].get("unexpected_index_list") or ()}
    shown = [e for e in examples if e.step in steps and e.column in {column, None}]
    return FailedExpectation(
        claim=config["description"],
        severity=Severity(config["severity"]),
        meaning=config["meta"]["meaning"],
        observed=observed_of(each),
        examples=tuple(shown) if column in EXAMPLE_OF else (),
    )


def observed_of(each: Mapping[str, Any]) -> str:
    """What one expectation found, in a line: the offending steps with their values."""
    if raised := _exception_of(each["exception_info"]):
        return f"could not be evaluated: {raised}"
    if (said := bound_of(each)) is not None:
        return said
    found, column = each["result"], each["expectation_config"]["kwargs"]["column"]
    rows = found.get("unexpected_index_list") or ()
    if column != "step":
        return ", ".join(f"{row['step']}: {_number(row[column])}" for row in rows)
    twice = sorted({row["step"] for row in rows})
    lines = {
        "twice": twice,
        "missing": found.get("partial_missing_list") or (),
        "unknown": () if twice else found.get("partial_unexpected_list") or (),
    }
    return ", ".join(
        f"{word}: {', '.join(sorted(map(str, who)))}" for word, who in lines.items() if who
    )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2%}"


def _exception_of(info: Mapping[str, Any]) -> str | None:
    """The message of an exception, flat or keyed by metric as Great Expectations stores it."""
    nested = [part for part in info.values() if isinstance(part, Mapping)]
    for part in (info, *nested):
        if part.get("raised_exception"):
            return str(part.get("exception_message"))
    return None
