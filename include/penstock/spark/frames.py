"""Frames that an audit compares: tables of the lake, and a few rows of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.core.step import STREAM
from penstock.lake.storage.commit import Table
from penstock.lake.storage.damage import require_whole
from penstock.lake.storage.read import Spans, data_files, of_streams
from penstock.lake.storage.spec import TableSpec


@dataclass(frozen=True, slots=True)
class Frames:
    """Makes them in a session.

    Attributes:
        spark: the session.
        kept: those that are held in memory.
    """

    spark: SparkSession
    kept: list[DataFrame] = field(default_factory=list)

    def keep(self, frame: DataFrame) -> DataFrame:
        """Hold in memory what is asked for several times."""
        self.kept.append(frame.cache())
        return self.kept[-1]

    def let_go(self) -> None:
        """Hold nothing any more."""
        while self.kept:
            self.kept.pop().unpersist()

    def load(self, spec: TableSpec, within: Spans | None = None) -> DataFrame:
        """A table as it is now, whatever is appended later, without its partition columns.

        Rows of other streams than the spec's, and files with nothing of some spans, are left out.

        By its data files: Spark's own Delta reader would read the newest version at each action,
        and costs half a second a table before it reads a row.
        """
        delta = Table(spec).newest()
        there = spec.schema
        paths: list[str] = []
        if delta is not None:
            there = pa.schema(delta.schema())
            found = data_files(delta, there.names[0] if within is None else within.column)
            found = of_streams(delta, found, spec)
            files = [f.path for f in found if within is None or within.hold(f)]
            require_whole(spec.uri, files)
            paths = [f"{spec.uri}/{path}" for path in files]
        schema = from_arrow_schema(pa.schema([f for f in there if f.name not in spec.partitioned]))
        if not paths:
            return self.spark.createDataFrame([], schema)
        plain = self.spark.read.schema(schema).option("__globPaths__", "false")
        # Without it Spark takes a path with ?, *, [ or { for a pattern: each file once a file.
        frame = plain.option("recursiveFileLookup", "true").parquet(*paths)
        return frame.where(F.col(STREAM).isin(*spec.streams)) if spec.streams else frame

    def of(self, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> DataFrame:
        """A few rows of numbers for Spark."""
        content = [dict(zip(names, row, strict=True)) for row in rows]
        schema = pa.schema([(name, pa.int64()) for name in names])
        fields = from_arrow_schema(schema)
        if not rows:
            return self.spark.createDataFrame([], fields)
        return self.spark.createDataFrame(pa.Table.from_pylist(content, schema=schema), fields)
