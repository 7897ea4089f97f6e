"""How far a step is sealed: the last row of ``control`` of each generation, and no other.

A generation's micro-batches are sealed one by one, in order: what stands up to the last one that
counts is sealed. So a position costs the same after a year as on the first day (DESIGN, section 5).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from penstock.core.slack import WatermarkState
from penstock.core.window import FOREVER
from penstock.lake.history.generation import Generation, Sealed, generations
from penstock.lake.storage.commit import Table
from penstock.lake.storage.definition import Definition
from penstock.lake.storage.read import DataFile, Spans, data_files, read_files, read_table
from penstock.lake.storage.tables import Tables

SEALED = ("generation", "micro_batch", "block", "through_seq", "watermark_us", "t_max_us", "k_us",
          "slack_us", "pairs_open", "late_total", "answered_total", "shed_total",
          "answers")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reach:
    """Which blocks count of a generation: what it sealed beyond the start of a later one does not.

    Its sink looked for a newer generation before that was registered, and committed after.
    """

    generation: int
    before: int

    @property
    def where(self) -> pc.Expression:
        """True for its rows of ``control`` that count."""
        return (pc.field("generation") == self.generation) & (pc.field("block") <= self.before)


def reaches(tables: Tables, step: Definition, epoch: int, until: int | None = None) -> list[Reach]:
    """The generations of an epoch that may have sealed something, in order.

    Args:
        tables: of the pipeline.
        step: the epoch's definition.
        epoch: its number.
        until: the first generation of the next epoch; none: there is none.
    """
    starts = [(g.number, g.block) for g in generations(tables, step)]
    return [
        Reach(number, min((block for n, block in starts if n > number), default=FOREVER))
        for number, _ in starts
        if number >= epoch and (until is None or number < until)
    ]


def last_sealed(
    tables: Tables, step: Definition, epoch: int, until: int | None = None
) -> tuple[Sealed, ...]:
    """The last row that counts of each generation of an epoch, in the order of their positions."""
    table = Table(tables.control(step))
    delta = table.newest()
    if delta is None:
        return ()
    files = _files(delta)
    found = (_last(table, files, reach) for reach in reaches(tables, step, epoch, until))
    return tuple(sorted((s for s in found if s is not None), key=lambda s: s.order))


def sealed_rows(
    tables: Tables,
    step: Definition,
    epoch: int,
    until: int | None = None,
    within: Spans | None = None,
) -> list[Sealed]:
    """All rows of an epoch that count, in the order of their positions, or those within spans."""
    counts = _counts(tables, step, epoch, until)
    rows = read_table(Table(tables.control(step)), SEALED, counts, within)
    return sorted(_rows(rows), key=lambda s: s.order)


def last_under(
    tables: Tables, step: Definition, start: Generation, watermark: int
) -> Sealed | None:
    """The last row of an epoch before a generation whose watermark is below an instant, us."""
    counts = _counts(tables, step, start.epoch, start.number)
    counts &= (pc.field("watermark_us") < watermark) & (pc.field("block") <= start.block)
    rows = read_table(Table(tables.control(step)), SEALED, counts)
    return max(_rows(rows), key=lambda s: s.order, default=None)


def _counts(tables: Tables, step: Definition, epoch: int, until: int | None) -> pc.Expression:
    """True for the rows of an epoch that count."""
    counts = pc.scalar(False)
    for reach in reaches(tables, step, epoch, until):
        counts = counts | reach.where
    return counts


def totals(control: Table, generation: int, micro_batch: int) -> tuple[int, int, int]:
    """Late, answered and shed pairs of a generation up to one of its micro-batches."""
    names, mine = (
        ["late_total", "answered_total", "shed_total"],
        pc.field("generation") == generation,
    )
    asked = Spans("micro_batch", ((micro_batch, micro_batch),))
    rows = read_table(control, names, mine, asked).to_pylist() if micro_batch >= 0 else []
    return tuple(rows[0][name] or 0 for name in names) if rows else (0, 0, 0)


@dataclass(frozen=True, slots=True)
class _File:
    generations: DataFile
    blocks: DataFile

    def last_block(self, reach: Reach) -> int:
        """The last block of a generation that it may hold; -1: none."""
        mine = self.generations.holds(reach.generation, reach.generation)
        if not mine or not self.blocks.holds(0, reach.before):
            return -1
        last = self.blocks.greatest
        return reach.before if last is None else min(last, reach.before)


def _files(delta: DeltaTable) -> list[_File]:
    both = data_files(delta, "generation"), data_files(delta, "block")
    return [_File(*each) for each in zip(*both, strict=True)]


def _last(table: Table, files: Sequence[_File], reach: Reach) -> Sealed | None:
    """The last row that counts of one generation, from the files that may hold it."""
    ordered = sorted(files, key=lambda file: file.last_block(reach), reverse=True)
    found: Sealed | None = None
    for file in ordered:
        last = file.last_block(reach)
        if last < 0 or (found is not None and last < found.block):
            break
        rows = _at_end(table, file, reach, last)
        found = max([*rows, *([found] if found else [])], key=lambda s: s.order, default=None)
    return found


def _at_end(table: Table, file: _File, reach: Reach, last: int) -> list[Sealed]:
    """Rows of a generation in a file: those at the last block, if there are any."""
    for where in (reach.where & (pc.field("block") == last), reach.where):
        schema, path = table.spec.schema, file.blocks.path
        rows = [*_rows(read_files(table.spec.uri, [path], schema, SEALED, where))]
        if rows:
            return rows
    return []


def _rows(rows: pa.Table) -> Iterator[Sealed]:
    for r in rows.to_pylist():
        state = WatermarkState(r["watermark_us"], r["t_max_us"], r["k_us"], r["slack_us"])
        yield Sealed(
            r["generation"], r["micro_batch"], r["block"], r["through_seq"], state,
            r["pairs_open"], r["late_total"], r["answered_total"], r["shed_total"] or 0,
            r["answers"],
        )  # fmt: skip
