"""What runs, changed from Airflow: the plan, its approval where a past is computed anew, and then.

Where a stream runs, an edit is built beside what is in force: its past is answered and audited
before readers switch to it. Each task may be done twice: what is approved already is only waited
for.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from logging import Logger
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowException
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator, Context, TriggerRule
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from penstock.config.kept import approve, build, catalog_in_force, catalog_to_run, take_back
from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.core.version import NEXT, pipeline_of, version_of
from penstock.runtime.streams import control, links
from penstock.runtime.streams.links import running
from penstock.runtime.streams.paths import StreamPaths
from penstock_airflow import forms, wiring

if TYPE_CHECKING:
    from penstock.lake.topology.plan import Change

ANSWER = timedelta(days=7)
"""So long an approval is waited for."""
RETRY = {"retries": 2, "retry_delay": timedelta(seconds=10)}
BEGINS_SECONDS, LOOK_SECONDS = 120.0, 1.0
"""So long a stream host may take to begin what was approved, and between two looks."""


class Task(StrEnum):
    """The tasks of a run, one after the other."""

    PLAN = "plan"
    APPROVE = "approve"
    BUILD = "build"
    CORRECT = "correct"
    AUDIT = "audit"
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
        """Look at the files and the register; nothing waits where something is taken back.

        Raises:
            AirflowFailException: it was told what nobody understands.
        """
        from penstock.runtime.streams.outlook import outlook_of

        try:
            forms.require_conf(self.dag_id, context["dag_run"].conf or {})
        except ValueError as wrong:
            raise AirflowFailException(str(wrong)) from wrong
        if name := (context.get("params") or {}).get("take_back"):
            self.log.info("plan\n%s is as it was before its last edit", name)
            return {"held": {}, "text": "", "take_back": name}
        settings = wiring.settings()
        outlook = outlook_of(settings, catalog_in_force(settings))
        text = told(outlook.changes)
        self.log.info("plan\n%s", text)
        return {"held": {**outlook.held}, "text": text, "take_back": None}


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


class BuildOperator(BaseOperator):
    """Lets edits that were approved run beside what is in force, where a stream runs; which do.

    Args:
        kwargs: of BaseOperator.
    """

    ui_color = "#dcead3"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(task_id=Task.BUILD.value, **RETRY | kwargs)

    def execute(self, context: Context) -> list[str]:
        """Build, one pipeline after the other, and wait until its steps run.

        Raises:
            AirflowException: a step did not begin; a retry goes on there.
            AirflowFailException: a file was edited since.
        """
        built, settings = [], wiring.settings()
        known = {each.name: each.log for each in catalog_in_force(settings).pipelines}
        for name in _held(context).keys() & running(settings.streams, known):
            with _no_retry():
                version = build(settings, name, _held(context)[name])
            if version is None:
                self.log.info("%s: its log is to be another one; it begins anew", name)
            else:
                await_begun(version, self.log)
                built.append(version.name)
        return sorted(built)


class ApplyOperator(BaseOperator):
    """Lets the edits be in force, one pipeline after the other, and waits until they run.

    Args:
        kwargs: of BaseOperator.
    """

    ui_color = "#dcead3"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            task_id=Task.APPLY.value, trigger_rule=TriggerRule.NONE_FAILED, **RETRY | kwargs
        )

    def execute(self, context: Context) -> list[str]:
        """Apply what was approved, or take back.

        Raises:
            AirflowException: a version is not ready, or a step did not begin; a retry goes on.
            AirflowFailException: a file was edited since, or a version is gone.
            AirflowSkipException: nothing was approved.
        """
        done, settings = [], wiring.settings()
        built = context["ti"].xcom_pull(task_ids=Task.BUILD.value)
        if built is None:
            raise AirflowSkipException("nothing was approved")
        if name := _planned(context).get("take_back"):
            with _no_retry():
                take_back(settings, name)
            self._begun(name)
            return [name]
        for name, digest in _held(context).items():
            if version_of(name, NEXT) in built:
                self._require_ready(name)
            with _no_retry():
                approve(settings, name, digest)
            self._begun(name)
            done.append(name)
        return done

    def _require_ready(self, name: str) -> None:
        from penstock.runtime.streams.outlook import owed_by

        settings, version = wiring.settings(), version_of(name, NEXT)
        catalog = catalog_in_force(settings)
        owed = owed_by(settings, catalog).get(version)
        if owed is None and name in catalog.held:
            raise AirflowFailException(
                f"{version} is gone: the file of {name} was edited since, or the version was"
                " removed. Trigger apply__topology again"
            )
        if owed is None:  # it is in force already
            return
        if owed:
            raise AirflowException(
                f"{version}: {'; '.join(owed)}. Until then {name} answers as before; clear the"
                " tasks correct and audit to try again"
            )
        self.log.info("%s: has answered its past, and was audited", version)

    def _begun(self, name: str) -> None:
        self.log.info("%s: is in force", name)
        for pipeline in catalog_to_run(wiring.settings()).pipelines:
            if pipeline.name == name:
                await_begun(pipeline, self.log)


def await_begun(pipeline: Pipeline, log: Logger) -> None:
    """Return once a stream host that runs has begun each step; nothing else begins them.

    Raises:
        AirflowException: it did not in time.
    """
    from penstock.lake.history.generation import current
    from penstock.lake.storage.tables import Tables

    settings, until = wiring.settings(), time.monotonic() + BEGINS_SECONDS
    tables = Tables(settings.lake_uri, pipeline.log)
    paths, stream = StreamPaths(settings.streams, pipeline.log), pipeline_of(pipeline.name)
    while control.status(paths).alive and links.runs(paths, pipeline.name):
        waits = [step.name for step in pipeline.specs if current(tables, step) is None]
        if not waits:
            log.info("%s: all of its steps run by it", pipeline.name)
            return
        if time.monotonic() > until:
            raise AirflowException(
                f"{pipeline.name}: {', '.join(waits)} did not begin within"
                f" {BEGINS_SECONDS:.0f} s. See the log of stream__{stream}"
            )
        time.sleep(LOOK_SECONDS)
    log.info("%s: begins when stream__%s runs", pipeline.name, stream)


@contextmanager
def _no_retry() -> Iterator[None]:
    """What a person has to change fails at once."""
    try:
        yield
    except ConfigError as wrong:
        raise AirflowFailException(str(wrong)) from wrong


def _planned(context: Context) -> dict[str, Any]:
    """What the plan gave."""
    return context["ti"].xcom_pull(task_ids=Task.PLAN.value) or {}


def _held(context: Context) -> dict[str, str]:
    """What the plan said that waits: pipelines with digests of their files."""
    return {**_planned(context).get("held", {})}


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
