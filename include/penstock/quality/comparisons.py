"""The audit's small table of comparisons, one row a step, and the examples it carries."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from penstock.config.pipeline import Pipeline
from penstock.core.errors import TerminalError
from penstock.quality.checks import EXAMPLE_OF

COUNTS: tuple[str, ...] = (
    "through_seq",
    "records_new",
    "records_again",
    "received",
    "accepted",
    "quarantined",
    "numbers_missing",
    "numbers_doubled",
    "blocks_wrong",
    "files_unreadable",
    "files_changed",
    "plans_overdue",
    "blocks_overdue",
    "readings_unclear",
    "readings_assumed",
    "batches_wrong",
    "generations_wrong",
    "corrections_wrong",
    "pairs_events",
    "pairs_on_time",
    "pairs_late",
    "pairs_shed",
    "pairs_open",
    "pairs_preloaded",
    "pairs_excluded",
    "pairs_unaccounted",
    "answers_compared",
    "wrong_answers",
    "missing_answers",
    "extra_answers",
    "doubled_answers",
    "forged_answers",
    "merged_wrong",
    "timely_miscounted",
    "late_miscounted",
    "pending_answers",
    "overdue_answers",
    "late_without_answer",
    "exclusions_wrong",
)


class ComparisonsError(TerminalError):
    """The table of comparisons does not have the agreed shape: nothing can be concluded."""

    def __init__(self, pipeline: str, problem: str) -> None:
        self.pipeline, self.problem = pipeline, problem
        super().__init__(
            f"{pipeline}: the comparisons of the audit {problem}. Nothing was audited. The audit"
            " job and the suite belong to different versions: update both."
        )


@dataclass(frozen=True, slots=True)
class Example:
    """One answer, or one place of the log, that is not as it should be.

    Args:
        step: the step it belongs to.
        window_start: start of its window, as text; empty for a place of the log.
        key: its key, as text; empty for a step without keys. Of the log: the number, block,
            micro-batch, generation or plan.
        what: what is wrong; its first word is the kind (wrong, missing, extra, doubled, ...).
        expected: what the recomputation says, as text.
        found: what is in force, as text.
    """

    step: str
    window_start: str
    key: str
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        key = f" key {self.key}" if self.key else ""
        place = f"window {self.window_start}{key}" if self.window_start else self.key
        return f"{self.step} {place}: {self.what}, expected {self.expected}, found {self.found}"

    @property
    def column(self) -> str | None:
        """The column that counts what this is an example of; None for an unknown kind."""
        what = self.what.lower()
        return next((column for column, kind in EXAMPLE_OF.items() if what.startswith(kind)), None)


def checked(comparisons: pd.DataFrame, *, pipeline: str) -> pd.DataFrame:
    """The comparisons with whole numbers and two columns more, one row a step.

    Adds ``records_unbalanced`` (received - accepted - quarantined) and ``quarantined_share``
    (of the received records, 0 when there are none). A null would slip through Great
    Expectations, whose column checks skip nulls; so it is refused here.

    Raises:
        ComparisonsError: a column is missing, or a count is null or not a whole number.
    """
    wanted = ("step", *COUNTS, "examples")
    if absent := [column for column in wanted if column not in comparisons.columns]:
        raise ComparisonsError(pipeline, f"lack {', '.join(absent)}")
    frame = comparisons.loc[:, list(wanted)].reset_index(drop=True)
    if frame["step"].isna().any():
        raise ComparisonsError(pipeline, "hold a row without a step")
    frame["step"] = frame["step"].astype(str)
    for column in COUNTS:
        frame[column] = _whole(frame[column], column, pipeline)
    frame["records_unbalanced"] = frame["received"] - frame["accepted"] - frame["quarantined"]
    frame["quarantined_share"] = frame["quarantined"] / frame["received"].where(
        frame["received"] > 0, 1
    )
    return frame


def complete(rows: Sequence[dict[str, Any]], steps: Sequence[str]) -> list[dict[str, Any]]:
    """The comparisons with a row for every step, also where there was nothing to compare."""
    nothing = {**dict.fromkeys(COUNTS, 0), "through_seq": -1, "examples": "[]"}
    found = {row["step"]: row for row in rows}
    return [found.get(step) or {"step": step, **nothing} for step in steps]


def named(rows: Sequence[dict[str, Any]], pipeline: Pipeline) -> list[dict[str, Any]]:
    """The comparisons with the names that the pipeline's file has for its steps, not the log's."""
    names = {step.id: step.name for step in pipeline.specs}
    return [{**row, "step": names[row["step"]]} for row in rows]


def _whole(values: pd.Series, column: str, pipeline: str) -> pd.Series:
    try:
        whole = values.astype("int64")
    except (TypeError, ValueError, OverflowError) as error:
        problem = f"hold a {column} that is not a whole number ({error})"
        raise ComparisonsError(pipeline, problem) from error
    if not (whole == values).all():
        raise ComparisonsError(pipeline, f"hold a {column} that is not a whole number")
    return whole


def examples_of(step: str, text: Any) -> tuple[Example, ...]:
    """The examples of one row; what cannot be read is shown as it is, never dropped.

    Args:
        step: the row's step.
        text: JSON list of {window_start, key, what, expected, found}, or null.
    """
    if not isinstance(text, str) or not text.strip():
        return ()
    try:
        items = json.loads(text)
    except json.JSONDecodeError:
        return (Example(step, "?", "", "unreadable example", "?", text[:500]),)
    if not isinstance(items, list):
        items = [items]
    return tuple(_example(step, item) for item in items)


def _example(step: str, item: Any) -> Example:
    if not isinstance(item, Mapping):
        return Example(step, "?", "", "unreadable example", "?", _text(item))
    key = "" if item.get("key") is None else _text(item["key"])
    window_start = "" if item.get("window_start") is None else _text(item["window_start"])
    what = _text(item.get("what"))
    expected, found = (
        "nothing" if item.get(field) is None else _text(item[field])
        for field in ("expected", "found")
    )
    return Example(step, window_start, key, what, expected, found)


def _text(value: Any) -> str:
    """A value as a person reads it: ``site=JFK, runway=null``, ``3``."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_text(part)}" for name, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_text(part) for part in value)
    return value if isinstance(value, str) else json.dumps(value)
