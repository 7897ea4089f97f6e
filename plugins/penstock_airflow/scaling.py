"""Scaling the cluster from Airflow: a task for each step, and the trigger that asks for a run."""

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowException
from airflow.sdk import Asset, AssetWatcher, BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from penstock.config.catalog import file_state
from penstock.config.cluster import Cluster
from penstock.core.errors import PenstockError, TerminalError
from penstock_airflow import wiring
from penstock_airflow.polling import PollingTrigger

if TYPE_CHECKING:
    from penstock.lake.cluster.scalings import Scaling
    from penstock.runtime.cluster.scaler import LoadReader, Scaler


class Phase(StrEnum):
    """The tasks of a run, one after the other."""

    OBSERVE = "observe"
    DECIDE = "decide"
    ACT = "act"
    VERIFY = "verify"


class ScaleOperator(BaseOperator):
    """One step of a scaling; each may be done twice.

    Args:
        phase: which.
        kwargs: of BaseOperator.
    """

    ui_color = "#dcead3"

    def __init__(self, *, phase: str, **kwargs: Any) -> None:
        retry = {"retries": 2, "retry_delay": timedelta(seconds=10)}
        super().__init__(task_id=phase, **retry | kwargs)
        self.phase = phase

    def execute(self, context: Context) -> Any:
        """Do the step.

        Raises:
            AirflowSkipException: there is nothing to do.
            AirflowFailException: a person has to change something.
            AirflowException: a retry may help; nodes did not come, for example.
        """
        try:
            return getattr(self, f"_{Phase(self.phase).value}")(_scaler(), context)
        except TerminalError as wrong:
            raise AirflowFailException(str(wrong)) from wrong
        except PenstockError as failed:
            raise AirflowException(str(failed)) from failed

    def _observe(self, scaler: "Scaler", context: Context) -> dict[str, Any]:  # noqa: ARG002
        found = scaler.observe()
        self.log.info("cluster %s", found)
        return found

    def _decide(self, scaler: "Scaler", context: Context) -> int:
        params = context.get("params") or {}
        asked, reason = params.get("nodes"), str(params.get("reason") or "")
        if params.get("dry_run"):
            verdict = scaler.due() if asked is None else None
            said = f"{asked} nodes, as asked" if asked is not None else (
                "nothing" if verdict is None else verdict.reason
            )  # fmt: skip
            raise AirflowSkipException(f"dry run; this would be done: {said}")
        inputs = context["ti"].xcom_pull(task_ids=Phase.OBSERVE.value) or {}
        made = scaler.decide(context["dag_run"].run_id, inputs, asked, reason)
        if made is None:
            raise AirflowSkipException(
                "there is nothing to do: the cluster is as large as it should"
            )
        self.log.info("scaling %d: %d to %d nodes: %s", made.number, made.nodes, made.wanted,
                      made.reason)  # fmt: skip
        return made.number

    def _act(self, scaler: "Scaler", context: Context) -> None:
        scaler.act(self._decision(scaler, context))

    def _verify(self, scaler: "Scaler", context: Context) -> dict[str, Any]:
        ended = scaler.verify(self._decision(scaler, context))
        if ended.state == "failed":
            raise AirflowFailException(ended.reason)
        return {"nodes": ended.found, "reason": ended.reason}

    def _decision(self, scaler: "Scaler", context: Context) -> "Scaling":
        number = context["ti"].xcom_pull(task_ids=Phase.DECIDE.value)
        return next(each for each in scaler.scalings.all() if each.number == number)


def load(cluster: Cluster) -> Asset:
    """The asset that says: the load of the cluster asks for other nodes."""
    watcher = AssetWatcher(name="load__cluster", trigger=LoadTrigger(cluster.url))
    return Asset(name="load__cluster", uri="penstock://load/cluster", watchers=[watcher])


class LoadTrigger(PollingTrigger):
    """Looks at the load of all streams every few seconds.

    Args:
        url: of Spark's master; another cluster is another trigger.
        poll_seconds: between two looks.
    """

    def __init__(self, url: str, poll_seconds: float = 2.0) -> None:
        super().__init__("load of the cluster", poll_seconds, url=url)
        self._files: object = None
        self._reader: LoadReader | None = None
        self._rung: object = None

    def _look(self) -> str | None:
        from penstock.runtime.cluster.scaler import LoadReader
        from penstock.runtime.cluster.state import ClusterFiles

        settings = wiring.settings()
        if not ClusterFiles(settings.home).read().alive:
            return None
        files = (file_state(settings.pipelines), file_state(settings.cluster.parent))
        if self._reader is None or files != self._files:
            self._reader, self._files = LoadReader(_scaler()), files
        verdict = self._reader.verdict()
        said = None if verdict is None else verdict.reason
        rings, self._rung = said is not None and verdict != self._rung, verdict
        return said if rings else None


def _scaler() -> "Scaler":
    """Imports wait until they are needed: DAG files are parsed every few seconds."""
    from penstock.config.cluster import read_cluster
    from penstock.core.clock import SystemClock
    from penstock.runtime.cluster.scaler import Scaler

    settings = wiring.settings()
    logs = sorted({pipeline.log for pipeline in wiring.catalog().pipelines})
    return Scaler(settings, read_cluster(settings.cluster), SystemClock(), logs)
