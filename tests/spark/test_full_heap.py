"""A driver whose heap is full ends, and says why."""

import os
import subprocess
import sys

import pytest

from tests.spark.conftest import python_path

pytestmark = pytest.mark.spark
FILLS = """
from penstock.config.settings import Settings
from penstock.spark.session import configuration, open_session
options = configuration(Settings().jars, master="local[1]", memory="512m")
with open_session("full", options) as spark:
    spark.sparkContext._gateway.new_array(spark._jvm.long, 200_000_000)
    print("it went on")
"""


def test_a_full_heap_ends_the_job_with_the_remedy() -> None:
    environment = os.environ | {"PYTHONPATH": python_path()}
    done = subprocess.run(
        [sys.executable, "-c", FILLS],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()
    said = [line for line in last if "SparkEndedError" in line]
    assert "heap was full" in said[-1], done.stderr[-2_000:]
    assert "PENSTOCK_DRIVER_MEMORY" in said[-1]
    assert "it went on" not in done.stdout
