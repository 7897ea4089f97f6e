"""The fields of the trigger forms, and what a run's values mean."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowFailException


def _instant(title: str, description: str) -> Param:
    # No section: only fields of the default one are unfolded when a form opens.
    return Param(
        None,
        type=["null", "string"],
        format="date-time",
        title=title,
        description=f"{description} No zone means UTC. A backfill takes its date range instead.",
    )


def correction() -> dict[str, Param]:
    """Fields of ``correct__<pipeline>``."""
    return {
        "from": _instant(
            "Windows from", "Only windows that start at or after it; empty: from the beginning."
        ),
        "to": _instant("Windows to", "Only windows that start before it; empty: to the end."),
        "recheck": Param(
            False,
            type=["null", "boolean"],  # a field that may not be null is shown as still to be filled
            title="Recheck",
            description="Also recompute windows that no late record touched, and append what"
            " differs. Slow: it reads every record of the range.",
        ),
    }


def preload() -> dict[str, Param]:
    """Fields of ``preload__<pipeline>``."""
    return {
        "from": _instant(
            "Records from", "Only records with this event time or a later one; empty: all."
        ),
        "to": _instant("Records to", "Only records with an earlier event time; empty: all."),
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
