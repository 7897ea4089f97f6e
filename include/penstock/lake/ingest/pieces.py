"""Pieces of a plan: items in a row that one worker counts, reads, judges and writes.

How a plan is cut follows from the plan alone, so whoever carries it out judges the same items
together. How much a piece holds, and how large a wait is, is told in ordinary plans: as much as one
process takes at once, in records, bytes or files, whichever is most.
"""

from collections.abc import Sequence

from penstock.config.intake import Ambiguous, Definition, FileFormat
from penstock.lake.ingest import source
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.plan import Plan

SHARE = 0.25
"""Of an ordinary plan, in a piece: 62,500 records or 16 MB. A task costs 10 ms beside its work."""
LARGE, LARGE_ROWS = 0.5, 2.0
"""From so much on a crew carries out a plan, of text and of Parquet. Two of Spark's jobs take 0.3 s
of processors, as much as 500,000 records of Parquet (0.6 us each) or 40,000 of text (7 us)."""
ORDINARY = 3.0
"""No plan made for one process holds more; what does is carried out in pieces by whoever it is."""
EACH = 2
"""Ordinary plans for each hand of a crew: what a plan costs beside its pieces is paid once."""


def load(item: Item) -> float:
    """How much of an ordinary plan an item is."""
    known = item.records >= 0
    held = item.records / source.RECORDS_PER_PLAN if known else item.extent / source.BYTES_PER_PLAN
    return max(held, 1 / source.FILES_PER_PLAN)


def cut(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """The pieces of a plan."""
    pieces: list[tuple[Item, ...]] = []
    some: list[Item] = []
    held = 0.0
    for item in items:
        some.append(item)
        held += load(item)
        if held >= SHARE:
            pieces.append(tuple(some))
            some, held = [], 0.0
    return [*pieces, tuple(some)] if some else pieces


def are_apart(definition: Definition) -> bool:
    """Whether no record's verdict depends on the records before it."""
    return definition.id is None and definition.ambiguous is not Ambiguous.BY_ORDER


def times(definition: Definition, hands: int, records: int) -> float:
    """How many ordinary plans the next one may hold.

    Args:
        definition: its.
        hands: of the crew.
        records: received so far. The first ones show which columns there are: what they bring
            would make every piece wrong that was made without it.
    """
    return EACH * hands if hands > 1 and records and are_apart(definition) else 1.0


def is_spread(plan: Plan, definition: Definition, hands: int) -> bool:
    """Whether a plan is carried out in pieces."""
    spans = any(item.since is not None or item.until is not None for item in plan.items)
    if spans or not are_apart(definition):
        return False
    total = sum(map(load, plan.items))
    is_text = any(item.format != FileFormat.PARQUET.value for item in plan.items)
    is_large = total >= (LARGE if is_text else LARGE_ROWS)
    return total > ORDINARY or (hands > 1 and plan.first_seq > 0 and is_large)
