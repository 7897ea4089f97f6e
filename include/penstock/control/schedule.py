"""A pipeline's DAGs: what each does, and when it runs next."""

from datetime import datetime

from penstock.config.pipeline import Pipeline
from penstock.control.explanation import DagPlan
from penstock.control.spoken import in_words, next_run, spoken

MAINTENANCE = "*/15 * * * *"
"""Schedule of the DAG ``maintain__lake``, which all pipelines share."""
BY_HAND = "when you trigger it"


def dags(pipeline: Pipeline, now: datetime) -> list[DagPlan]:
    """The DAGs of a pipeline, in the order people meet them."""
    name, live = pipeline.name, pipeline.source.mode.value == "live"
    correct, audit = pipeline.correction.cron, pipeline.audit.cron
    dags = [
        DagPlan(
            f"stream__{name}",
            "takes records in and answers in time",
            "always" if live else f"{BY_HAND}; ends with its source",
            None,
        ),
        DagPlan(
            f"correct__{name}",
            "repairs answers that late records touched",
            in_words(correct),
            next_run(correct, now),
        ),
        DagPlan(
            f"audit__{name}",
            "recomputes every answer another way",
            f"{in_words(audit)}, and after each correction",
            next_run(audit, now),
        ),
        DagPlan(
            "maintain__lake",
            "keeps the tables small and quick",
            in_words(MAINTENANCE),
            next_run(MAINTENANCE, now),
        ),
    ]
    soon = pipeline.correction.soon
    if soon is not None:
        what = f"by itself: a late record is repaired within {spoken(soon.within)}"
        if soon.span is not None:
            what += f", sooner when they span more than {spoken(soon.span)}"
        dags.insert(2, DagPlan(f"correct_soon__{name}", "the same, before its time", what, None))
    if pipeline.history is None:
        return dags
    return [DagPlan(f"preload__{name}", "takes the history in", BY_HAND, None), *dags]
