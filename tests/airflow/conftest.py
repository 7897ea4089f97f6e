"""Airflow without services. Its environment is set before its first import."""

import os
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="penstock-airflow-test-"))


def airflow_environment(home: Path) -> dict[str, str]:
    """The least that lets Airflow parse our DAGs."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PENSTOCK"))}
    return kept | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]",'
        ' "extra": {"deploy-mode": "client"}}',
        "PYTHONPATH": f"{ROOT}/include{os.pathsep}{ROOT}/plugins",
        "PENSTOCK_HOME": str(home / "penstock"),
    }


for name in [n for n in os.environ if n.startswith("AIRFLOW")]:
    del os.environ[name]
os.environ.update(airflow_environment(HOME))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of this test alone."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
