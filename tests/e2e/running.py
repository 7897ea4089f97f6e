"""A running embedded mode, and Airflow's REST as far as the tests need it."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from penstock.config.catalog import Catalog
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.lake.history.position import position
from penstock.lake.storage.tables import Tables
from penstock.runtime.demo.airflow import UNFINISHED, Airflow, DagRun
from penstock.runtime.embedded import probe
from penstock.runtime.embedded.airflow_environment import project_environment
from penstock.runtime.embedded.instance import Instance, InstanceState
from penstock.runtime.embedded.lifecycle import passwords
from penstock.runtime.embedded.processes import ProcessIdentity
from penstock.runtime.streams import control
from penstock.runtime.streams.paths import StreamPaths

PATIENCE_SECONDS = 300.0
"""Only a failure takes so long."""
PIPELINE = "rides"
T = TypeVar("T")


def eventually(ask: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """The first answer that is true, or the last one before the deadline."""
    until = time.monotonic() + seconds
    while not (answer := ask()) and time.monotonic() < until:
        time.sleep(0.2)
    return answer


def free_port() -> int:
    with socket.socket() as probe_socket:
        probe_socket.bind(("127.0.0.1", 0))
        return int(probe_socket.getsockname()[1])


@dataclass(frozen=True)
class Embedded:
    """The command, in a home and on a port of its own.

    Attributes:
        settings: of the command.
        name: of the pipeline that is looked at.
    """

    settings: Settings
    name: str = PIPELINE

    def call(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "penstock", *arguments],
            env=project_environment(self.settings) | {"COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )

    @property
    def instance(self) -> Instance:
        return Instance(self.settings.home)

    @property
    def state(self) -> InstanceState:
        state = self.instance.read()
        assert state is not None
        return state

    def processes(self) -> dict[str, ProcessIdentity]:
        return {p.name: p.identity for p in self.state.processes if p.identity is not None}

    def is_healthy(self, since: datetime) -> bool:
        answer = probe.health(self.state.url, since)
        return bool(answer) and all(answer.values())

    @property
    def password(self) -> dict[str, str]:
        return passwords(self.settings)

    def rest(self, user: str = "admin") -> "Rest":
        found = Rest(self.state.url, (user, self.password[user]), self.settings.logs / "airflow")
        found.name = self.name
        return found

    @property
    def pipeline(self) -> Pipeline:
        return Catalog.read(self.settings.pipelines).pipeline(self.name)

    @property
    def tables(self) -> Tables:
        return Tables(self.settings.lake_uri, self.name)

    def positions(self) -> list[tuple[int, int]]:
        """For each step: records it is sealed up to, and its watermark, us."""
        found = [position(self.tables, step) for step in self.pipeline.specs]
        return [(0, 0) if at is None else (at.sealed.seq + 1, at.sealed.state.watermark)
                for at in found]  # fmt: skip

    def sealed(self) -> int:
        """Records that every step is sealed up to."""
        return min(records for records, _ in self.positions())

    @property
    def stream(self) -> control.StreamStatus:
        return control.status(StreamPaths(self.settings.streams, self.name))


class Rest(Airflow):
    """What a person does in the user interface.

    Attributes:
        patience: seconds for a run to end; only a failure takes so long.
        name: of the pipeline that is meant.
    """

    patience, name = PATIENCE_SECONDS, PIPELINE

    def finish(self, run: DagRun) -> DagRun:
        """Wait for the end of a run; with the end of its log if it failed."""
        run = eventually(lambda: self._ended(run), self.patience) or self.look(run)
        if run.state == "failed":
            raise self.failure(run, None)
        return run

    def _ended(self, run: DagRun) -> DagRun | None:
        now = self.look(run)
        return None if now.state in UNFINISHED else now

    def runs(self, dag: str, run_type: str) -> list[DagRun]:
        """Runs of a DAG of one kind, the newest first."""
        found = self._get(f"/api/v2/dags/{dag}/dagRuns", order_by="-run_after", limit=100)
        return [
            self.look(DagRun(dag, run["dag_run_id"], run["state"], {}, ""))
            for run in found["dag_runs"]
            if run["run_type"] == run_type
        ]

    def audit_after(self, corrected: DagRun) -> DagRun | None:
        """The audit that the asset of a correction started; none: not yet."""
        dag = corrected.dag.replace("correct__", "audit__")
        for run in self.runs(dag, "asset_triggered"):
            found = self._get(f"/api/v2/dags/{dag}/dagRuns/{run.name}/upstreamAssetEvents")
            sources = {(e["source_dag_id"], e["source_run_id"]) for e in found["asset_events"]}
            if (corrected.dag, corrected.name) in sources:
                return run
        return None

    def correct_and_audit(self) -> tuple[DagRun, DagRun]:
        """The runs of a correction and of the audit it started, both ended.

        Raises:
            RunFailedError: one of them failed.
        """
        corrected = self.start(f"correct__{self.name}", by_itself=True)
        self.pause(f"audit__{self.name}", paused=False)
        if due := eventually(lambda: self.runs(f"audit__{self.name}", "scheduled"), 5.0):
            self._skip(due[0])  # the time's own audit would only cost time
        corrected = self.finish(corrected)
        audit = eventually(lambda: self.audit_after(corrected), self.patience)
        assert audit is not None, "the correction started no audit"
        return corrected, self.finish(audit)

    def _skip(self, run: DagRun) -> None:
        self._call("PATCH", f"/api/v2/dags/{run.dag}/dagRuns/{run.name}", {"state": "success"})

    def pause(self, dag: str, *, paused: bool = True) -> None:
        self._call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": paused})

    def stop_stream(self) -> None:
        """Pause its DAG, mark its task failed."""
        dag = f"stream__{self.name}"
        run = self.runs(dag, "scheduled")[0]
        self.pause(dag)
        path = f"/api/v2/dags/{dag}/dagRuns/{run.name}/taskInstances/stream"
        self._call("PATCH", path, {"new_state": "failed"})

    def clear(self, run: DagRun, task: str) -> None:
        """Have a task run again, as the button does."""
        asked = {"dry_run": False, "dag_run_id": run.name, "task_ids": [task],
                 "only_failed": False, "reset_dag_runs": True}  # fmt: skip
        self._call("POST", f"/api/v2/dags/{run.dag}/clearTaskInstances", asked)

    def import_errors(self) -> str:
        """All of them, as the user interface shows them."""
        errors = self._get("/api/v2/importErrors")["import_errors"]
        return "\n".join(f"{error['filename']}: {error['stack_trace']}" for error in errors)

    def dags(self) -> dict[str, dict[str, Any]]:
        return {dag["dag_id"]: dag for dag in self._get("/api/v2/dags", limit=100)["dags"]}
