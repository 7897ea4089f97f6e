"""What a step's micro-batches looked at, and what they left to the correction."""

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.lake.history.balance import balance_at
from penstock.lake.history.position import Position, sealed_only
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

RECENT = 1_000_000
"""Records of which candidates are counted where only the present matters."""
COLUMNS = ("t_max_us", "compared", "answers", "shed")


def effort(tables: Tables, step: StepSpec, at: Position, within: Spans | None = None) -> pa.Table:
    """One row a sealed micro-batch that has seen a record, in the order of the log.

    ``t_max_us``: newest event time; ``compared``: candidates that were looked at, null where none
    could be; ``answers``: that were told; ``shed``: what is left out after its last record, per
    cent, null for none.

    Args:
        tables: of the pipeline.
        step: the step.
        at: its position.
        within: of ``through_seq``; none: all.
    """
    names = ["generation", "micro_batch", *COLUMNS]
    rows = sealed_only(read_table(Table(tables.control(step)), names, within=within), at)
    rows = rows.filter(pc.greater(rows["t_max_us"], BEGINNING))
    return rows.sort_by([(name, "ascending") for name in names[:2]]).select([*COLUMNS])


def recent(tables: Tables, step: StepSpec, at: Position) -> pa.Table:
    """Of the last records."""
    last = at.sealed.seq
    return effort(tables, step, at, Spans("through_seq", ((last - RECENT, last),)))


def efficiency(rows: pa.Table) -> tuple[int, int] | None:
    """Candidates that were looked at, and pairs that were told; none: none was counted.

    Source: S2J, efficiency P = result pairs / comparisons.

    Args:
        rows: as of ``effort``.
    """
    counted = rows.filter(pc.is_valid(rows["compared"]))
    if not counted.num_rows:
        return None
    looked, told = (pc.sum(counted[name]).as_py() for name in ("compared", "answers"))
    return looked, told


def in_words(tables: Tables, step: StepSpec, at: Position, rows: pa.Table) -> list[str]:
    """What there is to say of efficiency, and of what was shed; nothing of steps that do neither.

    Args:
        tables: of the pipeline.
        step: the step.
        at: its position.
        rows: as of ``effort``; efficiency is that of these.
    """
    said, found = list[str](), efficiency(rows) if step.by_reach else None
    if found is not None and found[0]:
        said.append(
            f"{found[1] / found[0]:.2%} of {found[0]:,} candidates compared are pairs told at once"
        )
    known = balance_at(tables, step, at) if step.withholds else None
    if known is not None and (known.shed or step.shed is not None):
        counted = "records" if step.by_key else "(record, window) pairs"
        said.append(f"{known.shed:,} of {known.pairs:,} {counted} {step.withheld}")
    return said
