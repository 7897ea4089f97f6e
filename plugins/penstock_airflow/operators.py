"""Operators: one submits a Spark job that ends, one watches a stream that does not."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from airflow.exceptions import AirflowException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, BaseOperator, Context
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
)
from airflow.triggers.base import StartTriggerArgs

from penstock.config.settings import JVM_FULL, JVM_FULL_SAID, JVM_OPTIONS
from penstock.core.place import uri_of
from penstock.core.request import Job, JobRequest
from penstock.runtime.streams.spec import environment_of
from penstock_airflow import forms, wiring
from penstock_airflow.priority import OF_A_JOB, PersonsFirst
from penstock_airflow.submit import JobSubmitHook
from penstock_airflow.triggers import StreamTrigger

BLOCKED, TERMINAL = 10, 20
NOTHING = "nothing"
"""State of an audit that compared nothing: neither passed nor failed."""
POOL = "spark"


class SubmitJobOperator(SparkSubmitOperator):
    """Run one job of ``spark_jobs/`` to its end.

    Exit code 10 (an audit's critical expectation failed) and 20 (a person has to change
    something) fail the task at once; any other failure is tried again. An audit that compared
    nothing is skipped: neither green nor red. What the job says of its
    outcome is the XCom ``outcome``, also when it failed.

    Args:
        job: file of ``spark_jobs/`` without ``.py``.
        pipeline: the pipeline; none for a job over the whole lake.
        digest: of the pipeline file when this was parsed.
        kwargs: of the provider's operator.
    """

    template_fields: Sequence[str] = ("application_args",)
    ui_color = "#f5e6d3"

    def __init__(
        self, *, job: str, pipeline: str | None = None, digest: str | None = None, **kwargs: Any
    ) -> None:
        # Paths are resolved when the task runs: a serialized DAG is the same on every machine.
        kwargs = {
            "conn_id": "spark_default",
            "name": job if pipeline is None else f"{job}__{pipeline}",
            "pool": POOL,
            "priority_weight": OF_A_JOB[job],
            "weight_rule": PersonsFirst(),
            "retries": 2,
            "retry_delay": timedelta(seconds=10),
            "execution_timeout": timedelta(hours=12),  # what hangs all the same ends some day
        } | kwargs
        super().__init__(**kwargs)
        self.job, self.pipeline, self.digest = job, pipeline, digest

    def request(self, context: Context) -> JobRequest:
        """What this run asks of the job.

        Raises:
            AirflowFailException: it was told what nobody understands.
        """
        run = context["dag_run"]
        params = context.get("params") or {}
        try:  # refused at the trigger already, but for a trigger that has no plugins
            forms.require_conf(self.dag_id, run.conf or {})
            start, end = forms.event_range(
                params,
                backfill=run.run_type == "backfill",
                interval=(run.data_interval_start, run.data_interval_end),
            )
        except ValueError as wrong:
            raise AirflowFailException(str(wrong)) from wrong
        return JobRequest(
            job=Job(self.job),
            run_id=run.run_id,
            pipeline=self.pipeline,
            digest=self.digest,
            start=start,
            end=end,
            recheck=bool(params.get("recheck", False)),
            everything=bool(params.get("everything", False)),
        )

    def execute(self, context: Context) -> None:
        """Submit and wait.

        Raises:
            AirflowFailException: no retry can help.
            AirflowException: a retry may help.
            AirflowSkipException: there was nothing to audit.
        """
        settings = wiring.settings()
        request = self.request(context)
        self.application = uri_of(settings.root / "spark_jobs" / f"{self.job}.py")
        self.application_args = request.to_argv()
        self._driver_memory = settings.driver_memory
        jars = sorted(uri_of(jar) for jar in settings.jars.glob("*.jar"))
        if not jars:
            raise AirflowFailException(f"{settings.jars} holds no jars of Delta. Run: make setup")
        self.jars = ",".join(jars)
        self._require_connection()
        hook = self._get_hook()
        self._hook = hook
        hook.mark = f"{settings.home}/{self.dag_id}/{self.task_id}/{request.run_id}"
        if (number := context["ti"].map_index) not in (None, -1):  # of several of a run
            hook.mark += f"/{number}"
        hook.environment = environment_of(settings)
        try:
            super().execute(context)
        except AirflowException:
            raise self._verdict(hook) from None  # its text is the whole output over again
        else:
            if (hook.outcome or {}).get("state") == NOTHING:
                raise AirflowSkipException((hook.outcome or {}).get("said"))
        finally:
            if hook.outcome is not None:
                context["ti"].xcom_push(key="outcome", value=hook.outcome)

    def on_kill(self) -> None:
        """End everything that this try started."""
        if self._hook is not None:
            self._hook.on_kill()

    def _get_hook(self) -> JobSubmitHook:
        return JobSubmitHook(
            conf={"spark.driver.extraJavaOptions": JVM_OPTIONS} | (self.conf or {}),
            conn_id=self._conn_id,
            jars=self.jars,
            total_executor_cores=self._total_executor_cores,
            executor_cores=self._executor_cores,
            executor_memory=self._executor_memory,
            driver_memory=self._driver_memory,
            name=self.name,
            application_args=self.application_args,
        )

    def _require_connection(self) -> None:
        """Without it the provider would silently submit to YARN."""
        try:
            BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException as missing:
            raise AirflowFailException(
                f"there is no Airflow connection {self._conn_id}, so nobody knows where Spark is."
                f" Set AIRFLOW_CONN_{self._conn_id.upper()}; penstock up does."
            ) from missing

    def _verdict(self, hook: JobSubmitHook) -> AirflowException:
        outcome = hook.outcome or {}
        lines = [str(outcome.get("error") or ""), *map(str, outcome.get("failed") or [])]
        said = "\n".join(line for line in lines if line) or hook.last_words
        if outcome.get("report"):
            said += f"\nReport: {outcome['report']}"
        if hook.exit_code == JVM_FULL:
            said = JVM_FULL_SAID
        if hook.exit_code == BLOCKED:
            return AirflowFailException(f"{self.job} found what must not be:\n{said}")
        if hook.exit_code == TERMINAL:
            return AirflowFailException(f"{self.job} needs a person:\n{said}")
        return AirflowException(f"{self.job} ended with exit code {hook.exit_code}:\n{said}")


class StreamOperator(BaseOperator):
    """See that a pipeline's stream runs, for as long as this task is not ended.

    Lives in the triggerer alone, without a worker slot. Mark failed stops the stream after the
    running micro-batch; clear stops and starts it again.

    Args:
        pipeline: the pipeline.
        watch_for: end the task with success after this time and let the next run watch on, the
            stream goes on undisturbed; none: until the stream ends.
        kwargs: of BaseOperator.
    """

    start_from_trigger: ClassVar[bool] = True
    ui_color = "#d3e6f5"

    def __init__(self, *, pipeline: str, watch_for: timedelta | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.watch_for_seconds = watch_for.total_seconds() if watch_for else None
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=f"{StreamTrigger.__module__}.{StreamTrigger.__qualname__}",
            trigger_kwargs=self._trigger_kwargs,
            next_method="done",
        )

    @property
    def _trigger_kwargs(self) -> dict[str, Any]:
        return {"pipeline": self.pipeline, "watch_for_seconds": self.watch_for_seconds}

    def execute(self, context: Context) -> None:  # noqa: ARG002
        """Only ``dag.test`` comes here: Airflow starts this task in the triggerer."""
        self.defer(trigger=StreamTrigger(**self._trigger_kwargs), method_name="done")

    def done(self, context: Context, event: Any) -> Any:  # noqa: ARG002
        """Only ``dag.test`` comes here: otherwise the trigger ends the task itself."""
        if event != "success":
            raise AirflowFailException(f"stream {self.pipeline}: {event}")
        return event
