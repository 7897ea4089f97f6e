"""Which nodes a stream has got and lost: a row each."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from penstock.columns.types import INSTANT
from penstock.core.window import instant, micros
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

APPLICATION = "executors"
CAME, WENT = "came", "went"


@dataclass(frozen=True, slots=True)
class Change:
    """An executor of a stream that came or went.

    Attributes:
        at: when it was noticed, us.
        what: came or went.
        node, host: where it ran; the address, where the node has no name.
        executor: Spark's number of it, of one run of the stream.
        reason: why it went, as Spark says.
    """

    at: int
    what: str
    node: str
    host: str
    executor: str
    reason: str


def executors_spec(tables: Tables) -> TableSpec:
    """The table."""
    texts = ("what", "node", "host", "executor", "reason")
    schema = pa.schema([("at", INSTANT), *((name, pa.string()) for name in texts)])
    return TableSpec(tables.uri("executors"), schema, name="executors")


def note_changes(table: Table, changes: Sequence[Change]) -> None:
    """Write down what one look found."""
    if changes:
        rows = [asdict(each) | {"at": instant(each.at)} for each in changes]
        content = pa.Table.from_pylist(rows, table.spec.schema)
        table.append(content, APPLICATION, changes[0].at)


def changes(tables: Tables) -> list[Change]:
    """All that were noted, the oldest first."""
    rows = read_table(Table(executors_spec(tables))).sort_by("at")
    return [Change(**row | {"at": micros(row["at"])}) for row in rows.to_pylist()]
