"""The records of a plan as rows: each with its number, accepted or refused."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from penstock.lake.ingest.judging import Part
from penstock.lake.ingest.plan import Plan
from penstock.lake.ingest.reading import told_apart
from penstock.lake.ingest.rows import SUMS, accepted_rows, refused_rows, summed
from penstock.lake.ingest.seen import SeenIds
from penstock.lake.ingest.undeclared import Undeclared
from penstock.lake.ingest.verdict import REPEATED
from penstock.lake.storage.drafts import Files


@dataclass(frozen=True, slots=True)
class Numbered:
    """What the items of a plan became.

    Attributes:
        sums: of the accepted records, in order; themselves are in the drafts.
        refused: rows of ``quarantine``.
        received: records.
    """

    sums: pa.Table
    refused: pa.Table
    received: int


def numbered(
    parts: Iterable[Part],
    plan: Plan,
    seen: SeenIds | None,
    quarantine: pa.Schema,
    undeclared: Undeclared,
    files: Files,
    first: int = 0,
) -> Numbered:
    """Number the records of a plan, in order; what is accepted is written meanwhile.

    Args:
        parts: its items, judged.
        plan: which one.
        seen: ids that arrived before; none: the pipeline declares none.
        quarantine: columns of that table.
        undeclared: fields that there are; grows with what is accepted.
        files: take the rows of ``events``.
        first: records of the plan before them.

    Raises:
        SourceError: an item cannot be read now, or is not what was planned.
    """
    sums = [SUMS.empty_table()]
    refused = [quarantine.empty_table()]
    at = first
    for path, received, judged in parts:
        with told_apart(path):
            if seen is not None and judged.ids is not None:
                judged.refuse(seen.repeated(judged), REPEATED, seen.column)
            rows = accepted_rows(judged, plan, at)
            refused.append(refused_rows(received, judged, plan, at))
            files.add(rows)
        undeclared.grow(rows)
        sums.append(summed(rows))
        at += len(judged)
    return Numbered(pa.concat_tables(sums), pa.concat_tables(refused).cast(quarantine), at - first)
