"""Whether commits of ``plans`` are lost: a table holds then what no plan says."""

from dataclasses import dataclass

from penstock.core.errors import TerminalError
from penstock.lake.ingest.plan import APPLICATION
from penstock.lake.log import proposed
from penstock.lake.storage.commit import ConflictError, Table


@dataclass(frozen=True, slots=True)
class Ahead:
    """The tables that speak for plans.

    Attributes:
        plans, quarantine, blocks, decisions: of the pipeline.
    """

    plans: Table
    quarantine: Table
    blocks: Table
    decisions: Table

    def refuse(self, last: int, events: Table) -> None:
        """Plan nothing while a table is ahead: its numbers would be given twice.

        Args:
            last: number of the last plan that is known; -1: none is.
            events: the table, as declared now.

        Raises:
            ConflictError: another process planned meanwhile.
            TerminalError: commits of ``plans`` are lost.
        """
        numbers = self._numbers(events)
        found = {table: n for table, n in numbers.items() if n is not None and n > last}
        if not found:
            return
        self.plans.refresh()
        newest = self.plans.last(APPLICATION)
        if newest is not None and newest > last:
            raise ConflictError(f"{self.plans.spec.uri}: another process planned first")
        said = ", ".join(f"{table} up to {number}" for table, number in found.items())
        raise TerminalError(
            f"{self.plans.spec.uri} ends with plan {last}, but there are rows of later plans:"
            f" {said}. Commits of plans are lost, so nothing more is taken: which files they took"
            " is not known. Put the missing part of plans/_delta_log back, restore a whole copy of"
            " the lake, or penstock remove the pipeline to start afresh"
        )

    def _numbers(self, events: Table) -> dict[str, int | None]:
        """Of which plan the newest rows are, by table."""
        found = {}
        for table in (events, self.quarantine, self.blocks):
            table.refresh()
            found[table.spec.name] = table.last(APPLICATION)
        self.decisions.refresh()
        names = (f"{proposed.ADOPTED}:{owner}" for owner in proposed.owners(self.decisions))
        adopted = [n for name in names if (n := self.decisions.last(name)) is not None]
        return found | {"decisions": max(adopted, default=None)}
