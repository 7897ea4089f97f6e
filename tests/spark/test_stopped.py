"""A query that is stopped while it writes ends the micro-batch, and writes nothing afterwards."""

import math
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.core.batch_size import Bounds
from penstock.lake.ingest import door as door_module
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.spark.correct import start_epochs
from penstock.spark.query import LogQuery
from penstock.spark.sink import FencedError
from tests.doubles import RisingClock
from tests.lakes import make_lake, some_rows
from tests.steps import LAST, LAST_REF
from tests.streams import write_jsonl

pytestmark = pytest.mark.spark
RECORDS, BLOCK, AT_THE_THIRD, ANOTHER = 400, 20, 3, -2


def no_step_stands_still(step: str, cause: str) -> None:
    raise AssertionError(f"{step} stands still: {cause}")


def test_a_stop_waits_for_what_is_being_written(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", BLOCK)
    lake = make_lake(tmp_path, (LAST, LAST_REF))
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(RECORDS, 5))
    start_epochs(lake.tables, lake.pipeline, lake.clock)
    lake.ingest()
    frames = type(quick.range(0))
    read, third = frames.toArrow, threading.Event()
    begun: list[DataFrame] = []
    whole: list[DataFrame] = []
    told: list[int] = []

    def to_arrow(frame: DataFrame) -> pa.Table:
        begun.append(frame)
        if len(begun) == AT_THE_THIRD:
            third.set()
        rows = read(frame)
        whole.append(frame)
        return rows

    def tell(_step: str, row: dict[str, Any]) -> None:
        told.append(row["micro_batch"])

    monkeypatch.setattr(frames, "toArrow", to_arrow)
    query = LogQuery(
        quick, lake.tables, lake.pipeline, "together", RisingClock(), tell,
        no_step_stands_still, Bounds.fixed(1), shards=2,
    )  # fmt: skip
    query.start([lake.step])
    assert third.wait(120)
    jobs = quick.sparkContext.statusTracker()
    while not jobs.getActiveJobsIds():  # within one: Spark would cancel it
        assert len(whole) < RECORDS / BLOCK
    query.finish(math.inf, ANOTHER)
    assert begun == whole
    assert len(told) == len(begun)
    with pytest.raises(FencedError, match="ends"):
        query.sink(quick.range(1), len(begun))
    assert begun == whole
    sealed = read_table(Table(lake.tables.control(lake.step)))
    assert told == sorted(sealed["micro_batch"].to_pylist())
