"""What ``penstock show`` tells of side data: what holds now, and what could not be used."""

from dataclasses import dataclass

from penstock.config.pipeline import Pipeline
from penstock.lake.log.blocks import SIDE, decisions_of
from penstock.lake.log.side import REFUSED, SideReader, content, owner
from penstock.lake.storage.commit import Table
from penstock.lake.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class SideState:
    """Where a side table stands.

    Attributes:
        name: of the table.
        rows: of the version that holds; none: nothing was taken yet.
        first: position from which on it holds.
        versions: how many there were.
        refused: why what the files hold now is not taken; empty: it is.
    """

    name: str
    rows: int | None
    first: int
    versions: int
    refused: str


def sides(tables: Tables, pipeline: Pipeline) -> list[SideState]:
    """Of each side table of a pipeline."""
    decisions, reader = Table(tables.decisions()), SideReader(tables)
    found = []
    for name, table in pipeline.side_tables.items():
        told = decisions_of(decisions, owner(table))
        refused = "".join([row["value"] for row in told if row["what"] == REFUSED][-1:])
        if not any(row["what"] == SIDE for row in told):
            found.append(SideState(name, None, 0, 0, refused))
            continue
        begun = reader.begun(table)
        first, version = begun[-1]
        rows = content(tables, table, version).num_rows
        found.append(SideState(name, rows, first, len(begun), refused))
    return found
