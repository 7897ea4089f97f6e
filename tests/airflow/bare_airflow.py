"""Airflow without services: the least environment in which it parses our DAGs."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def airflow_variables(home: Path) -> dict[str, str]:
    """Airflow's own variables."""
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": f"{home}/logs",  # the SDK does not fill in the default
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]",'
        ' "extra": {"deploy-mode": "client"}}',
    }


def child_variables(home: Path) -> dict[str, str]:
    """All variables of a process of its own that parses DAGs."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PENSTOCK"))}
    return (
        kept
        | airflow_variables(home)
        | {
            "PYTHONPATH": f"{ROOT}/include{os.pathsep}{ROOT}/plugins",
            "PENSTOCK_HOME": str(home / "penstock"),
        }
    )
