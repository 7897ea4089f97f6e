"""Airflow reads its environment when it is first imported, so it is set before."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bare_airflow import ROOT, airflow_variables

for name in [n for n in os.environ if n.startswith("AIRFLOW")]:
    del os.environ[name]
os.environ.update(airflow_variables(Path(tempfile.mkdtemp(prefix="penstock-airflow-test-"))))


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Writes the program that a stream of flights runs; it is killed in the end."""
    root = tmp_path / "root"
    (root / "spark_jobs").mkdir(parents=True)
    (root / "pipelines").mkdir()
    shutil.copy(ROOT / "include/pipelines/flights.yaml", root / "pipelines")
    monkeypatch.setenv("PENSTOCK_ROOT", str(root))
    monkeypatch.setenv("PENSTOCK_PIPELINES", str(root / "pipelines"))
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    yield (root / "spark_jobs" / "stream.py").write_text
    from penstock.runtime.streams.processes import kill_marked
    from penstock_airflow import wiring

    kill_marked(wiring.stream_paths("flights").mark, set())
