"""The records of a plan as rows: each with its number, accepted or refused."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from penstock.lake.ingest.judging import Part
from penstock.lake.ingest.plan import Plan, Terms
from penstock.lake.ingest.reading import told_apart
from penstock.lake.ingest.rows import accepted_rows, refused_rows
from penstock.lake.ingest.undeclared import Undeclared
from penstock.lake.ingest.verdict import REPEATED
from penstock.lake.storage.drafts import Drafts

SUMMED_UP = ["block", "event_time"]
"""What the summary of a block is made of."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """What the items of a plan became.

    Attributes:
        accepted: of each accepted record its block and event time; the rest is in the drafts.
        refused: rows of ``quarantine``.
        received: records.
    """

    accepted: pa.Table
    refused: pa.Table
    received: int


def numbered(
    parts: Iterable[Part],
    plan: Plan,
    terms: Terms,
    quarantine: pa.Schema,
    undeclared: Undeclared,
    drafts: Drafts,
) -> Numbered:
    """Number the records of a plan, in order; what is accepted is written meanwhile.

    Args:
        parts: its items, judged.
        plan: which one.
        terms: by which it is carried out.
        quarantine: columns of that table.
        undeclared: fields that there are; grows with what is accepted.
        drafts: takes the rows of ``events``.

    Raises:
        SourceError: an item cannot be read now, or is not what was planned.
    """
    accepted = [terms.events.spec.schema.empty_table().select(SUMMED_UP)]
    refused = [quarantine.empty_table()]
    at = 0
    for path, received, judged in parts:
        with told_apart(path):
            if terms.seen is not None and judged.ids is not None:
                judged.refuse(terms.seen.repeated(judged), REPEATED, terms.seen.column)
            rows = accepted_rows(judged, plan, at)
            refused.append(refused_rows(received, judged, plan, at))
            drafts.add(rows)
        undeclared.grow(rows)
        accepted.append(rows.select(SUMMED_UP))
        at += len(judged)
    return Numbered(pa.concat_tables(accepted), pa.concat_tables(refused).cast(quarantine), at)
