"""Triggers DAGs of ours by every way there is and prints what came of it; a process of its own."""

import json
import os
import subprocess
from datetime import UTC, datetime

from airflow.api_fastapi.app import create_app
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import func, select

WRONG = {"fromm": "2013-10-01T00:00:00+00:00"}
DAYS = {"from_date": "2013-10-01T00:00:00Z", "to_date": "2013-10-02T00:00:00Z"}


def runs() -> int:
    with create_session() as session:
        return int(session.scalar(select(func.count()).select_from(DagRun)) or 0)


def weights() -> dict[str, int]:
    """Of a manual and of a scheduled run of each job, as stored."""
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    found = {}
    for job in ("audit", "correct"):
        for kind in (DagRunType.SCHEDULED, DagRunType.MANUAL):
            with create_session() as session:
                dag = SerializedDagModel.get_dag(f"{job}__flights", session=session)
                day = datetime(2013, 10, 1 if kind is DagRunType.MANUAL else 2, tzinfo=UTC)
                run = dag.create_dagrun(
                    run_id=f"{kind.value}__{day:%Y-%m-%d}", run_type=kind, conf={},
                    logical_date=day, data_interval=(day, day), run_after=day,
                    state=DagRunState.QUEUED, triggered_by=DagRunTriggeredByType.TEST,
                    session=session,
                )  # fmt: skip
                session.flush()
                one = select(TaskInstance.priority_weight).where(TaskInstance.run_id == run.run_id)
                one = one.where(TaskInstance.dag_id == run.dag_id)
                found[f"{kind.value} {job}"] = session.scalar(one)
    return found


def main() -> None:
    initdb()
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    DagBundlesManager().sync_bundles_to_db()
    sync_bag_to_db(DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"]), "dags-folder", None)
    with TestClient(create_app(apps="core")) as client:
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

        token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="a", role="admin"))
        bearer = {"Authorization": f"Bearer {token}"}
        told = {"logical_date": None, "conf": WRONG}
        rest = client.post("/api/v2/dags/correct__flights/dagRuns", json=told, headers=bearer)
        fill = {"dag_id": "correct__flights", "dag_run_conf": WRONG, "max_active_runs": 1, **DAYS}
        backfill = client.post("/api/v2/backfills", json=fill, headers=bearer)
    command = subprocess.run(
        ("airflow", "dags", "trigger", "correct__flights", "--conf", json.dumps(WRONG)),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = {
        "rest": f"{rest.status_code} {rest.text}",
        "backfill": f"{backfill.status_code} {backfill.text}",
        "command": command.stdout + command.stderr,
        "refused": runs(),
    }
    print(json.dumps(said | {"weights": weights()}))


main()
