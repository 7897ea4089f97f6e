"""The answers in force that maintenance merged: a copy, which spares readers the same work.

Table ``merged`` holds what was in force as of a position, and its newest commit says of which. What
came after is merged at read. Nothing rests on the copy: without it ``answers`` says the same.
"""

from dataclasses import dataclass

import pyarrow.compute as pc
import pyarrow.dataset as ds

from penstock.lake.history.position import PLANNED, SPEED, Position
from penstock.lake.history.reads import Read
from penstock.lake.history.unread import BY, Unread, answers, in_force, pair, quoted, whole
from penstock.lake.storage.commit import Table
from penstock.lake.storage.definition import Definition
from penstock.lake.storage.read import DataFile, data_files, read_table
from penstock.lake.storage.tables import Tables

NAMES = ("seq", "plan", "generation", "micro_batch")
"""What the transactions of a commit to ``merged`` say, by epoch: the position that it is as of."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a copy reaches: of a position what tells which answers it has.

    Attributes:
        seq: as of this record.
        plan: the last correction, all before it are done; 0: there was none.
        generation, micro_batch: the last that was sealed.
    """

    seq: int
    plan: int
    generation: int
    micro_batch: int

    @classmethod
    def of(cls, at: Position, plan: int) -> "Extent":
        """Of a position at which no correction is unfinished."""
        return cls(at.seq, plan, at.lasts[-1].generation, at.lasts[-1].micro_batch)

    def transactions(self, epoch: int) -> dict[str, int]:
        """As a commit keeps it."""
        return {f"merged {name}:{epoch}": getattr(self, name) for name in NAMES}

    def is_of(self, at: Position) -> bool:
        """Whether a position has all that it has."""
        sealed = {last.generation: last.micro_batch for last in at.lasts}
        done = not self.plan or self.plan in at.done
        return self.seq <= at.seq and done and sealed.get(self.generation, -1) >= self.micro_batch


@dataclass(frozen=True, slots=True)
class Merged:
    """What stands in ``merged``.

    Attributes:
        rows: one answer in force a row; nothing of them is read yet.
        extent: as of which position.
        passed: whether a correction came later that speaks for an earlier record: then readers do
            not take it.
        files: with the range of their windows.
        again: answers that corrections gave since as of the very record.
    """

    rows: ds.Dataset
    extent: Extent
    passed: bool
    files: tuple[DataFile, ...]
    again: int = 0

    @property
    def count(self) -> int:
        """How many rows."""
        return sum(file.rows for file in self.files)


def merged_at(tables: Tables, step: Definition, at: Position) -> Merged | None:
    """What stands in ``merged``; none: nothing, or what is of another epoch, or is further.

    Raises:
        DamagedTableError: a data file is not whole; names it.
    """
    table = Table(tables.merged(step))
    if not table.exists():
        return None
    rows = whole(table, table.spec.schema)  # looks for the newest commit, which says the rest
    known = {name: table.last(f"merged {name}:{at.epoch.number}") for name in NAMES}
    found = {name: number for name, number in known.items() if number is not None}
    if len(found) < len(NAMES) or not (extent := Extent(**found)).is_of(at):
        return None
    passed, again, newer = False, 0, [number for number in at.done if number > extent.plan]
    if newer:
        mine = (pc.field("step") == step.id) & pc.field("plan").isin(newer)
        names = ["plan", "state", "through_seq", "answers"]
        told = read_table(Table(tables.corrections()), names, mine).to_pylist()
        through = {row["plan"]: row["through_seq"] for row in told if row["state"] == PLANNED}
        passed = min(through.values()) < extent.seq
        beside = {plan for plan, seq in through.items() if seq == extent.seq}
        again = sum(row["answers"] or 0 for row in told if row["plan"] in beside)
    return Merged(rows, extent, passed, tuple(data_files(table.delta, BY)), again)


def since(merged: Merged | None) -> pc.Expression:
    """True for the answers that are not in what is merged."""
    if merged is None:
        return pc.scalar(True)
    extent, generation = merged.extent, pc.field("generation")
    later = (generation == extent.generation) & (pc.field("micro_batch") > extent.micro_batch)
    timely = (pc.field("reason") == SPEED) & ((generation > extent.generation) | later)
    new = timely | ((pc.field("reason") != SPEED) & (pc.field("plan") > extent.plan))
    # Windows may be closed without a record: by the end of a source, or its silence.
    return new if merged.passed else (pc.field("through_seq") >= extent.seq) & new


def in_force_at(tables: Tables, step: Definition, at: Position) -> Unread:
    """The answers in force at a position: what is merged, and what came after, merged at read.

    Raises:
        DamagedTableError: a data file is not whole; names it.
    """
    held = merged_at(tables, step, at)
    merged = None if held is None or held.passed else held
    rows, read = answers(tables, step, at, since(merged)), read_of(tables, step, merged)
    if merged is None:
        return Unread({"rows": rows}, in_force(step), read)
    names, by = ", ".join(map(quoted, tables.merged(step).schema.names)), pair(step)
    select = (
        f"FROM (SELECT {names} FROM {{merged}} ANTI JOIN {{rows}} USING ({by})"  # noqa: S608
        f" UNION ALL SELECT {names} {in_force(step)})"
    )
    return Unread({"merged": merged.rows, "rows": rows}, select, read)


def read_of(tables: Tables, step: Definition, merged: Merged | None) -> Read:
    """What a read has before it, about: as the statistics of files say."""
    table = Table(tables.answers(step))
    delta = table.newest()
    files = [] if delta is None else data_files(delta, "through_seq")
    seq, count, again = -1, 0, 0
    if merged is not None:
        seq, count, again = merged.extent.seq, merged.count, merged.again
    unmerged = again + round(sum(file.rows * _behind(file, seq) for file in files))
    return Read(tables.merges(), step.id, step.fingerprint, count, unmerged)


def _behind(file: DataFile, seq: int) -> float:
    """Which part of a file's rows came after a record."""
    if file.least is None or file.greatest is None or seq < file.least:
        return 1.0
    return max(0, file.greatest - seq) / (file.greatest - file.least or 1)
