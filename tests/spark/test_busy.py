"""What a look at a session's executors finds."""

import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.spark.nodes import Executors
from tests.spark.test_law0_on_spark import eventually

pytestmark = pytest.mark.spark


def test_a_task_counts_as_busy_before_it_has_ended(spark: SparkSession, tmp_path: Path) -> None:
    begun, may_end, context = tmp_path / "begun", tmp_path / "may end", spark.sparkContext

    def waits(_: int) -> None:
        begun.touch()
        while not may_end.exists():
            time.sleep(0.01)

    executors = Executors(spark)
    job = threading.Thread(target=lambda: context.parallelize([0], 1).foreach(waits))

    def busy() -> int:
        return sum(each.busy for each in executors.all())

    before = busy()
    job.start()
    try:
        eventually(begun.exists)
        eventually(lambda: busy() > before + 500)
        assert job.is_alive()
    finally:
        may_end.touch()
        job.join()
    eventually(lambda: busy() >= before + 500)
