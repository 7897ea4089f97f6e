"""The fields of the trigger forms, and what a run's values mean."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from airflow.sdk import Param

from penstock.core.window import read_instant


def _instant(title: str, description: str, *, backfills: bool = True) -> Param:
    # No section: only fields of the default one are unfolded when a form opens.
    return Param(
        None,
        type=["null", "string"],
        format="date-time",
        title=title,
        description=f"{description} No zone means UTC."
        + (" A backfill takes its date range instead." if backfills else ""),
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


def audit() -> dict[str, Param]:
    """Fields of ``audit__<pipeline>``."""
    return {
        "everything": Param(
            False,
            type=["null", "boolean"],
            title="Everything",
            description="Audit all that was ever received, and not only what came, closed or was"
            " corrected since the last green audit and a share of what is older.",
        ),
    }


def scaling() -> dict[str, Param]:
    """Fields of ``scale__cluster``."""
    return {
        "nodes": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="Nodes",
            description="How many there should be; empty: as the rules say.",
        ),
        "reason": Param(
            None,
            type=["null", "string"],
            title="Reason",
            description="Why; kept with the decision.",
        ),
        "dry_run": Param(
            False,
            type=["null", "boolean"],
            title="Dry run",
            description="Only say what would be done.",
        ),
    }


def _words(title: str, description: str, **more: Any) -> Param:
    return Param(None, type=["null", "string"], title=title, description=description, **more)


def _choice(title: str, description: str, some: Sequence[str]) -> Param:
    """One of some words, or none."""
    shown = {"null": "none"}  # Airflow would say null
    return _words(title, description, enum=[None, *some], values_display=shown)


def query(joins: Sequence[str] = ("",)) -> dict[str, Param]:
    """Fields of ``query__<pipeline>``; ``joins``: its steps of whose pairs the log can be asked."""
    found = {
        "sql": _words(
            "SQL",
            "One SELECT in DuckDB's SQL: FROM a step, STEP_timely, events, quarantine ...",
            format="multiline",
        ),
        "as_of": _words(
            "As of",
            "A record's number, an event time, or a snapshot of the pipeline file; empty: now.",
        ),
    }
    if not joins:
        return found
    return found | {
        "pairs": _choice(
            "Pairs", "Ask the log, once, for pairs of this join; SQL names them asked.", joins
        ),
        "where": _words(
            "Condition", "Over left.x and right.x, in place of the join's; empty: none.",
            format="multiline",
        ),
        "from": _instant("Left records from", "Their event time; empty: from the beginning.",
                         backfills=False),
        "to": _instant("Left records to", "Only those with an earlier event time; empty: all.",
                       backfills=False),
    }  # fmt: skip


def applied(former: Sequence[str] = ("",)) -> dict[str, Param]:
    """Fields of ``apply__topology``; ``former``: pipelines of which a former version is there."""
    if not former:
        return {}
    said = "Of this pipeline let what was in force before be so again; edits wait for another run."
    return {"take_back": _choice("Take back", said, former)}


FORMS: dict[str, Callable[[], dict[str, Param]]] = {
    "apply": applied,
    "audit": audit,
    "correct": correction,
    "preload": preload,
    "query": query,
    "scale": scaling,
}
JOBS = {*FORMS, "correct_soon", "audit", "stream", "maintain"}


def require_conf(dag_id: str, conf: Mapping[str, Any]) -> None:
    """Refuse what a run is told beyond its form, for DAGs of ours: nobody would read it.

    Raises:
        ValueError: an unknown key, an instant that is none, or an empty range; says the remedy.
    """
    job, ours, _ = dag_id.partition("__")
    if not ours or job not in JOBS:
        return
    known = list(FORMS[job]()) if job in FORMS else []
    for key in conf:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            remedy = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(known)}."
            if not known:
                remedy = "There is nothing to fill in."
            raise ValueError(f"{dag_id} knows no {key}. {remedy}")
    told_range(conf)


def event_range(
    params: Mapping[str, Any], *, backfill: bool, interval: tuple[datetime | None, datetime | None]
) -> tuple[datetime | None, datetime | None]:
    """The range [start, end) of event time a run is restricted to; (None, None): not at all.

    A backfill means its data interval. Any other run means what its form says: the interval of
    a scheduled run only says when it ran, since late records may belong to any former window.

    Raises:
        ValueError: the form's range is empty, or not made of instants.
    """
    return interval if backfill else told_range(params)


def told_range(params: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """The range [start, end) of event time that a form names.

    Raises:
        ValueError: it is empty, or not made of instants.
    """
    start, end = _read("From", params.get("from")), _read("To", params.get("to"))
    if start is not None and end is not None and start >= end:
        raise ValueError(
            f"From ({start.isoformat()}) is not before To ({end.isoformat()}): the range is empty."
            " Trigger again with From before To."
        )
    return start, end


def _read(field: str, text: Any) -> datetime | None:
    if text is None or text == "":
        return None
    try:
        return read_instant(text)
    except (TypeError, ValueError) as wrong:
        raise ValueError(
            f"{field} is not an instant: {text}. Trigger again with a form like"
            " 2013-10-01T00:00:00+00:00."
        ) from wrong
