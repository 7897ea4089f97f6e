"""Airflow reads its environment when it is first imported, so it is set before."""

import os
import tempfile
from pathlib import Path

from bare_airflow import airflow_variables

for name in [n for n in os.environ if n.startswith("AIRFLOW")]:
    del os.environ[name]
os.environ.update(airflow_variables(Path(tempfile.mkdtemp(prefix="penstock-airflow-test-"))))
