"""Side data for the audit: rows of the lake, each with the positions for which it counts."""

from itertools import pairwise

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.core.side import VERSION, SideTable
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.log.side import SideReader
from penstock.lake.storage.tables import Tables
from penstock.spark.frames import Frames


def sides_of(frames: Frames, tables: Tables, step: StepSpec) -> dict[str, DataFrame]:
    """What a step looks things up in, by name, with ``first$`` and ``until$``, positions."""
    wanted = {join.table.name: join.table for join in step.looked_up}
    return {name: _side(frames, tables, table) for name, table in wanted.items()}


def _side(frames: Frames, tables: Tables, table: SideTable) -> DataFrame:
    begun = SideReader(tables).begun(table)
    firsts = [BEGINNING, *(first for first, _ in begun[1:]), FOREVER]
    spans = [(a, b, version) for (a, b), (_, version) in zip(pairwise(firsts), begun, strict=True)]
    held = frames.spark.createDataFrame(spans, f"`first$` long, `until$` long, {VERSION} string")
    return frames.load(tables.side(table)).join(F.broadcast(held), VERSION)
