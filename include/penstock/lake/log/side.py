"""Side data in the lake: each content once, and from which block on it holds.

Whoever looks at the files stores their content and proposes it. The door adopts it with its next
plan, as it adopts a slack (``penstock.lake.log.proposed``), so that which content counts for a
record is a function of the log. The first one holds from the beginning on: nothing was answered
without.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import TransientError
from penstock.core.side import VERSION, SideTable
from penstock.kinds.side import Version
from penstock.lake.log.blocks import SIDE, decisions_of
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

REFUSED = "side refused"
"""What a row of ``decisions`` says of content that cannot be used."""


def owner(name: str) -> str:
    """Whose decisions those of a side table are, beside the steps'."""
    return f"load {name}"


class SideReader:
    """Versions of side tables, for whoever answers or corrects; it crosses to other processes.

    Args:
        tables: of the pipeline.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._rows: dict[tuple[str, str], pa.Table] = {}

    def __getstate__(self) -> dict[str, Any]:
        """A table must not cross into a forked worker."""
        return {"tables": self.tables}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["tables"])  # type: ignore[misc]

    def __call__(self, table: SideTable) -> list[Version]:
        """The versions of a table that hold anywhere in the sealed log.

        Raises:
            TransientError: there is none yet.
        """
        return [Version(first, self._content(table, v)) for first, v in self.begun(table)]

    def begun(self, table: SideTable) -> list[tuple[int, str]]:
        """From which position on each version holds, in order.

        Raises:
            TransientError: there is none yet.
        """
        rows = decisions_of(Table(self.tables.decisions()), owner(table.name))
        by_block = {row["block"]: row["value"] for row in rows if row["what"] == SIDE}
        if not by_block:
            raise TransientError(
                f"load.{table.name}: nothing of it has been taken yet; the stream takes it"
            )
        spans = tuple((block, block) for block in by_block)
        sealed = read_table(
            Table(self.tables.blocks()), ["block", "first_seq"], within=Spans("block", spans)
        )
        firsts = dict(zip(*(c.to_pylist() for c in sealed.columns), strict=True))
        return [(firsts.get(block, 0), by_block[block])
                for block in sorted(by_block) if block == 0 or block in firsts]  # fmt: skip

    def _content(self, table: SideTable, version: str) -> pa.Table:
        at = table.form, version
        if at not in self._rows:
            stored = Table(self.tables.side(table))
            rows = read_table(stored, where=pc.field(VERSION) == version)
            self._rows[at] = rows.select([*table.names]).combine_chunks()
        return self._rows[at]
