"""Side data in the lake: each content once, and from which position on it holds.

Whoever looks at the files stores their content and proposes it. The door adopts it with its next
plan, as it adopts a slack (``penstock.lake.log.proposed``), so that which content counts for a
record is a function of the log. The first one holds from the beginning on: nothing was answered
without.
"""

from collections import OrderedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.content import content_name
from penstock.core.errors import TerminalError, TransientError
from penstock.core.side import VERSION, SideTable
from penstock.kinds.side import Version, version_of
from penstock.lake.log.blocks import SIDE, decisions_of
from penstock.lake.log.proposed import FIRST, LOAD, held
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables

REFUSED = "side refused"
"""What a row of ``decisions`` says of content that cannot be used; empty: it can again."""
REMEMBERED = 8
"""Contents that a process holds: a worker sees a few steps of one pipeline, at one time."""
_contents: OrderedDict[tuple[str, str], pa.Table] = OrderedDict()


def owner(table: SideTable) -> str:
    """Whose decisions those of a side table are; of other columns it is another table."""
    return f"{LOAD} {table.name} {table.form}"


class SideReader:
    """Versions of side tables, for whoever answers or corrects; it crosses to other processes.

    Args:
        tables: of the pipeline.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def __call__(self, table: SideTable, seqs: Longs) -> list[Version]:
        """The versions of a table that hold at some positions of the sealed log.

        Raises:
            TerminalError: rows of one are not those that were stored.
            TransientError: there is none yet.
        """
        begun = self.begun(table)
        which = version_of(seqs, np.array([first for first, _ in begun]))
        return [Version(begun[n][0], content(self.tables, table, begun[n][1]))
                for n in np.unique(which).tolist()]  # fmt: skip

    def begun(self, table: SideTable) -> list[tuple[int, str]]:
        """From which position on each version holds, in order; of several at one the last.

        Raises:
            TransientError: there is none yet.
        """
        rows = decisions_of(Table(self.tables.decisions()), owner(table))
        rows = [row for row in rows if row["what"] == SIDE]
        rows.sort(key=lambda row: bool(row["reason"] != FIRST))
        found = [held(row["value"]) for row in rows]
        if not found:
            raise TransientError(
                f"load.{table.name}: nothing of it has been taken yet; the stream takes it"
            )
        return [(first, version) for version, first in found]


def content(tables: Tables, table: SideTable, version: str) -> pa.Table:
    """The rows of a version.

    Raises:
        TerminalError: they are not those that were stored.
    """
    spec = tables.side(table)
    at = spec.uri, version
    if at not in _contents:
        rows = read_table(Table(spec), where=pc.field(VERSION) == version)
        rows = rows.select([*table.names]).combine_chunks()
        if content_name(rows, table.keys) != version:
            raise TerminalError(
                f"{spec.uri}: the rows of version {version} are not those that were stored."
                " Restore the table from a backup"
            )
        _contents[at] = rows
        while len(_contents) > REMEMBERED:
            _contents.popitem(last=False)
    _contents.move_to_end(at)
    return _contents[at]
