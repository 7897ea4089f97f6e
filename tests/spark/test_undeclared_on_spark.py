"""Spark reads what the door wrote: fields that came later, dictionaries, and rows compacted."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.lake.history import maintain as maintain_module
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.storage import drafts as drafts_module
from tests.gates import Gate, T

pytestmark = pytest.mark.spark
COUNT = 20_000
"""Records a file: enough that text keeps its dictionary."""


def content(first: int, *, more: bool) -> pa.Table:
    draw = np.random.default_rng(first)
    columns = {
        "event_time": [T] * COUNT,
        "site": pa.array(draw.choice(["a", "b", "ü"], COUNT)),
        "uid": pa.array(range(first, first + COUNT), pa.int64()),
        "colour": pa.array(draw.choice(["red", "blue", None], COUNT).tolist(), pa.string()),
        "weight": pa.array(draw.random(COUNT)),
        "small": pa.array(draw.integers(-128, 128, COUNT), pa.int8()),
        "unsigned": pa.array(draw.integers(0, 2**32, COUNT), pa.uint32()),
    }
    if more:
        columns["said"] = pa.array([f"text {i}" for i in range(COUNT)])
        columns["at"] = pa.array(draw.integers(0, 2**50, COUNT), pa.timestamp("us", "UTC"))
    return pa.table(columns)


def test_spark_sees_every_field(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts_module, "FILE_ROWS", 7_000)
    monkeypatch.setattr(maintain_module, "FEW_FILES", 2)
    gate = Gate(tmp_path, "parquet")
    (tmp_path / "live").mkdir()
    tables = [content(COUNT * n, more=n >= 2) for n in range(4)]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / "live" / f"{number}.parquet")
        assert gate.take() == COUNT
    sent = pa.concat_tables(tables, promote_options="default").to_pylist()
    uri = gate.tables.events(gate.pipeline.types).uri
    for _ in range(2):
        rows = spark.read.format("delta").load(uri)
        fields = rows.selectExpr("arrival_seq", "site", "undeclared.*").orderBy("arrival_seq")
        found = fields.toArrow().drop_columns(["arrival_seq"]).to_pylist()
        assert found == [{name: row[name] for name in found[0]} for row in sent]
        assert len(found[0]) == len(sent[0]) - 1  # the event time
        maintain_pipeline(gate.tables, gate.pipeline)
