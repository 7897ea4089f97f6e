"""What runs, changed from Airflow: the plan, its approval where a past is computed anew, and then.

Each task may be done twice: what is approved already is only waited for.
"""

import time
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from penstock.config.kept import approve, catalog_in_force, catalog_to_run
from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.runtime.streams import control, links
from penstock.runtime.streams.paths import StreamPaths
from penstock_airflow import wiring

if TYPE_CHECKING:
    from penstock.lake.topology.plan import Change

ANSWER = timedelta(days=7)
"""So long an approval is waited for."""
BEGINS_SECONDS, LOOK_SECONDS = 120.0, 1.0
"""So long a stream host may take to begin what was approved, and between two looks."""


class Task(StrEnum):
    """The tasks of a run, one after the other."""

    PLAN = "plan"
    APPROVE = "approve"
    APPLY = "apply"


class PlanOperator(BaseOperator):
    """Says what pipeline files change; gives the pipelines whose edit waits, and the text.

    Args:
        kwargs: of BaseOperator.
    """

    ui_color = "#dcead3"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(task_id=Task.PLAN.value, **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Look at the files and the register."""
        from penstock.lake.topology.plan import Outlook

        del context
        settings = wiring.settings()
        outlook = Outlook.of(settings, catalog_in_force(settings))
        text = told(outlook.changes)
        self.log.info("plan\n%s", text)
        return {"held": {**outlook.held}, "text": text}


class ApproveOperator(ApprovalOperator):
    """Asks a person, if an edit waits; refused, nothing is applied.

    Args:
        kwargs: of BaseOperator.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            task_id=Task.APPROVE.value,
            subject="Pipeline files ask for a past to be computed anew",
            body="{{ ti.xcom_pull(task_ids='plan')['text'] }}",
            response_timeout=ANSWER,
            **kwargs,
        )

    def execute(self, context: Context) -> Any:
        """Ask, or go on."""
        if not _held(context):
            self.log.info("nothing waits for approval: what files ask for is followed by itself")
            return None
        return super().execute(context)


class ApplyOperator(BaseOperator):
    """Lets the edits be in force, one pipeline after the other, and waits until they run.

    Args:
        kwargs: of BaseOperator.
    """

    ui_color = "#dcead3"

    def __init__(self, **kwargs: Any) -> None:
        retry = {"retries": 2, "retry_delay": timedelta(seconds=10)}
        super().__init__(task_id=Task.APPLY.value, **retry | kwargs)

    def execute(self, context: Context) -> list[str]:
        """Apply what was approved.

        Raises:
            AirflowException: a step did not begin; a retry goes on there.
            AirflowFailException: a file was edited since.
        """
        done, settings = [], wiring.settings()
        for name, digest in _held(context).items():
            try:
                approve(settings, name, digest)
            except ConfigError as wrong:
                raise AirflowFailException(str(wrong)) from wrong
            self.log.info("%s: its file is in force", name)
            known = {pipeline.name: pipeline for pipeline in catalog_to_run(settings).pipelines}
            if name in known:
                self._await(known[name])
                done.append(name)
        return done

    def _await(self, pipeline: Pipeline) -> None:
        """Return once a stream host that runs has begun each step; nothing else begins them."""
        from penstock.lake.history.generation import current
        from penstock.lake.storage.tables import Tables

        settings, until = wiring.settings(), time.monotonic() + BEGINS_SECONDS
        tables = Tables(settings.lake_uri, pipeline.log)
        paths = StreamPaths(settings.streams, pipeline.log)
        while control.status(paths).alive and links.runs(paths, pipeline.name):
            waits = [step.name for step in pipeline.specs if current(tables, step) is None]
            if not waits:
                self.log.info("%s: all of its steps run by it", pipeline.name)
                return
            if time.monotonic() > until:
                raise AirflowException(
                    f"{pipeline.name}: {', '.join(waits)} did not begin within"
                    f" {BEGINS_SECONDS:.0f} s. See the log of stream__{pipeline.name}"
                )
            time.sleep(LOOK_SECONDS)
        self.log.info("%s: begins when stream__%s runs", pipeline.name, pipeline.name)


def _held(context: Context) -> dict[str, str]:
    """What the plan said that waits: pipelines with digests of their files."""
    found = context["ti"].xcom_pull(task_ids=Task.PLAN.value) or {}
    return {**found.get("held", {})}


def told(changes: Sequence["Change"]) -> str:
    """The plan as a table of Markdown, without what stays as it is."""
    from penstock.lake.topology.plan import What

    rows = [change for change in changes if change.what is not What.STAYS]
    if not rows:
        return "Nothing changes: what files ask for is what there is."
    head = ["| log | step | run | | records to read | about | why |",
            "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    return "\n".join([*head, *map(_row, rows)])


def _row(change: "Change") -> str:
    records = f"{change.records:,}" if change.records else ""
    said = (change.log, change.name or "-", change.run, change.what.value, records,
            change.about, change.because)  # fmt: skip
    return f"| {' | '.join(said)} |"
