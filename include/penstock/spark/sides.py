"""Side data for the audit: rows of the lake, each with the positions for which it counts.

What held is told by the plans of the door, which adopted it; ``decisions``, by which stream and
correction go, must say the same. Rows must be those that were stored.
"""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.core.errors import TerminalError
from penstock.core.side import SideTable
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.log.proposed import CHANGED
from penstock.lake.log.side import SideReader, content, owner
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables
from penstock.spark.frames import Frames


def sides_of(frames: Frames, tables: Tables, step: StepSpec) -> dict[str, DataFrame]:
    """What a step looks things up in, or holds, by name, with ``first$`` and ``until$``, positions.

    Raises:
        TerminalError: decisions are not what the plans adopted, or rows not what was stored.
    """
    wanted = [*(join.table for join in step.looked_up), *(own.table for own in step.declares)]
    return {table.name: _side(frames, tables, table) for table in dict.fromkeys(wanted)}


def _side(frames: Frames, tables: Tables, table: SideTable) -> DataFrame:
    begun = _begun(tables, table)
    firsts = [BEGINNING, *(first for first, _ in begun[1:]), FOREVER]
    parts = []
    for (first, until), (_, version) in zip(pairwise(firsts), begun, strict=True):
        rows = content(tables, table, version)
        for name, end in (("first$", first), ("until$", until)):
            rows = rows.append_column(name, pa.repeat(pa.scalar(end, pa.int64()), rows.num_rows))
        parts.append(rows)
    return frames.spark.createDataFrame(pa.concat_tables(parts))


def _begun(tables: Tables, table: SideTable) -> list[tuple[int, str]]:
    """From which position on each version holds, as the plans say; the first as was decided."""
    first, *later = SideReader(tables).begun(table)
    plans = read_table(Table(tables.plans()), ["number", "first_seq", "adopts"]).to_pylist()
    oldest = min((plan["first_seq"] for plan in plans), default=0)
    adopted = [*_adopted(plans, owner(table))]
    found = [each for each in later if each[0] >= oldest]
    if found != adopted:
        strange = sorted({*found} ^ {*adopted})
        said = ", ".join(f"{version} from {seq} on" for seq, version in strange)
        raise TerminalError(
            f"{tables.decisions().uri}: load.{table.name}: decisions are not what plans adopted:"
            f" {said}. Restore the lake from a backup"
        )
    return [first, *later]


def _adopted(plans: list[dict[str, Any]], whose: str) -> Iterator[tuple[int, str]]:
    for plan in sorted(plans, key=lambda plan: int(plan["number"])):
        version, reason = json.loads(plan["adopts"] or "{}").get(whose, ("", ""))
        if reason == CHANGED:
            yield int(plan["first_seq"]), version
