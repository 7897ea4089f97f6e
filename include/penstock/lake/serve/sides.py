"""What ``penstock show`` tells of side data: what holds now, and what could not be used."""

from dataclasses import dataclass

from penstock.config.pipeline import Pipeline
from penstock.lake.log.blocks import SIDE, decisions_of
from penstock.lake.log.side import REFUSED, SideReader, owner
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
    for name, table in pipeline.sides.items():
        told = sorted(decisions_of(decisions, owner(name)), key=lambda row: row["decided_at"])
        last = told[-1] if told else None
        refused = last["value"] if last is not None and last["what"] == REFUSED else ""
        taken = any(row["what"] == SIDE for row in told)
        versions = reader(table) if taken else []
        rows, first = (versions[-1].rows.num_rows, versions[-1].first) if taken else (None, 0)
        found.append(SideState(name, rows, first, len(versions), refused))
    return found
