"""A pipeline's DAGs: what each does, and when it runs next."""

from datetime import datetime

from penstock.config.pipeline import Pipeline
from penstock.control.explanation import DagPlan
from penstock.control.spoken import in_words, next_run, spoken
from penstock.core.version import pipeline_of, which_of

MAINTENANCE = "*/15 * * * *"
"""Schedule of the DAG ``maintain__lake``, which all pipelines share."""
BY_HAND = "when you trigger it"


def dags(pipeline: Pipeline, now: datetime, shards: int) -> list[DagPlan]:
    """The DAGs of a pipeline, in the order people meet them.

    Args:
        pipeline: as its file says it.
        now: the next runs are those after it, aware.
        shards: as the setting asks for them; 0: it does not.
    """
    name, live = pipeline_of(pipeline.name), pipeline.is_live()
    if which_of(pipeline.name):
        return _of_a_version(name)
    ending = "sources" if len(pipeline.streams) > 1 else "source"
    correct, audit = pipeline.correction.cron, pipeline.audit.cron
    dags = [
        DagPlan(
            f"stream__{name}",
            f"takes records in and answers in time, {_cut(shards)}",
            "always" if live else f"{BY_HAND}; ends with its {ending}",
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
        DagPlan(f"query__{name}", "answers questions, by a form", BY_HAND, None),
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
    if not pipeline.histories:
        return dags
    return [DagPlan(f"preload__{name}", "takes the history in", BY_HAND, None), *dags]


def _of_a_version(name: str) -> list[DagPlan]:
    """Those of its pipeline run it, and are not all its own."""
    return [
        DagPlan(f"stream__{name}", f"runs it with the steps of {name}", "always", None),
        DagPlan(
            "apply__topology",
            f"has it corrected and audited before {name} is what it is",
            BY_HAND,
            None,
        ),
    ]


def _cut(shards: int) -> str:
    if shards == 0:
        return "by as many tasks as Spark has cores when a state begins"
    return f"by {shards} tasks" if shards > 1 else "by one task"
