"""The fields of the trigger forms, and what a run's values mean."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowFailException

SECTION = "Which windows"


def _instant(title: str, description: str) -> Param:
    return Param(
        None,
        type=["null", "string"],
        format="date-time",
        title=title,
        description=description,
        section=SECTION,
    )


def correction() -> dict[str, Param]:
    """Fields of ``correct__<pipeline>``."""
    return {
        "from": _instant(
            "From", "First instant of event time; empty: from the beginning. No zone means UTC."
        ),
        "to": _instant(
            "To", "First instant after the range; empty: to the end. No zone means UTC."
        ),
        "recheck": Param(
            False,
            type="boolean",
            title="Recheck",
            description="Also recompute windows that no late record touched, and append what"
            " differs. Slow: it reads every record of the range.",
            section="How",
        ),
    }


def preload() -> dict[str, Param]:
    """Fields of ``preload__<pipeline>``."""
    return {
        "from": _instant(
            "From", "Take only history from this event time on; empty: all. No zone means UTC."
        ),
        "to": _instant(
            "To", "Take only history before this event time; empty: all. No zone means UTC."
        ),
    }


def event_range(
    params: Mapping[str, Any], *, backfill: bool, interval: tuple[datetime | None, datetime | None]
) -> tuple[datetime | None, datetime | None]:
    """The range [start, end) of event time a run is restricted to; (None, None): not at all.

    A backfill means its data interval. Any other run means what its form says: the interval of
    a scheduled run only says when it ran, since late records may belong to any former window.

    Raises:
        AirflowFailException: the form's range is empty, or not made of instants.
    """
    if backfill:
        return interval
    start, end = _read("From", params.get("from")), _read("To", params.get("to"))
    if start is not None and end is not None and start >= end:
        raise AirflowFailException(
            f"From ({start.isoformat()}) is not before To ({end.isoformat()}): the range is empty."
            " Trigger again with From before To."
        )
    return start, end


def _read(field: str, text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as wrong:
        raise AirflowFailException(
            f"{field} is not an instant: {text}. Trigger again with a form like"
            " 2013-10-01T00:00:00+00:00."
        ) from wrong
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
