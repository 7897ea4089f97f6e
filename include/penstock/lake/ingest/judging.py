"""The items of a plan: read, judged, and cut to the plan's span.

A judgement costs some milliseconds, however few its records. So small items of one form are judged
together: a verdict depends on its record and the plan, not on what stands beside it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

import pyarrow as pa

from penstock.config.pipeline import Ambiguous, Definition
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.plan import Plan
from penstock.lake.ingest.planned import GivenUp
from penstock.lake.ingest.reading import BROKEN, is_of_system, told_apart
from penstock.lake.ingest.received import Received, receive, unreadable
from penstock.lake.ingest.rows import within
from penstock.lake.ingest.source import Waiting
from penstock.lake.ingest.verdict import Judged, judge

TOGETHER = 16_384
"""Records that are judged at once, where they come from several items."""


class Part(NamedTuple):
    """Some items in a row, read and judged.

    Attributes:
        path: of the first one.
        received: their records.
        judged: the verdicts.
    """

    path: str
    received: Received
    judged: Judged


def judged_items(
    items: Iterable[Item], waiting: Waiting, plan: Plan, definition: Definition, newest: int
) -> Iterator[Part]:
    """The records of a plan, in order; what an item's content breaks is refused as a whole.

    Args:
        items: with their whole paths, as decided.
        waiting: the source they are read from.
        plan: they belong to.
        definition: of the plan.
        newest: newest live event time before them, us.

    Raises:
        SourceError: one cannot be read now, or is not what was planned.
    """
    held: list[tuple[Item, Received]] = []
    for item in items:
        with told_apart(item.path):
            known = item.received() if isinstance(item, GivenUp) else None
            received = known or receive(item, waiting.filesystem, definition)
        if held and not _alike(held, item, received, definition):
            for part in _judged(held, plan, definition, newest):
                newest = max(newest, part.judged.newest)
                yield part
            held = []
        held.append((item, received))
    yield from _judged(held, plan, definition, newest) if held else ()


def _alike(
    held: Sequence[tuple[Item, Received]], item: Item, more: Received, definition: Definition
) -> bool:
    """Whether one more item may be judged together with those at hand."""
    first = held[0][1]
    return (
        definition.ambiguous is not Ambiguous.BY_ORDER  # there it depends on what came before
        and item.since is item.until is held[0][0].since is None
        and sum(r.columns.num_rows for _, r in held) + more.columns.num_rows <= TOGETHER
        and (first.extra is None) == (more.extra is None)
        and first.columns.schema.equals(more.columns.schema)
    )


def _judged(
    held: Sequence[tuple[Item, Received]], plan: Plan, definition: Definition, newest: int
) -> Iterator[Part]:
    if len(held) > 1:
        try:
            received = _joined([received for _, received in held])
            judged = judge(received, definition, plan.arrived_at, newest)
        except (*BROKEN, MemoryError, RuntimeError):  # one of them is to blame: which says itself
            for one in held:
                yield from _judged([one], plan, definition, newest)
        else:
            yield Part(held[0][0].path, received, judged)
        return
    item, received = held[0]
    with told_apart(item.path):
        try:
            judged = judge(received, definition, plan.arrived_at, newest)
        except BROKEN as broken:
            if is_of_system(broken):
                raise
            received = unreadable(item, broken)
            judged = judge(received, definition, plan.arrived_at, newest)
        yield Part(item.path, *within(item, received, judged))


def _joined(some: Sequence[Received]) -> Received:
    """Records of several items as those of one."""
    firsts = [0, *accumulate(received.columns.num_rows for received in some)]

    def part_of(row: int) -> int:
        return bisect_right(firsts, row) - 1

    def raw(rows: Sequence[int]) -> list[str]:
        parts = groupby(rows, part_of)
        return [text for i, own in parts for text in some[i].raw([row - firsts[i] for row in own])]

    def place(row: int) -> str:
        index = part_of(row)
        return some[index].place(row - firsts[index])

    columns = pa.concat_tables([received.columns for received in some]).combine_chunks()
    malformed = {
        first + row: said
        for first, received in zip(firsts, some, strict=False)
        for row, said in received.malformed.items()
    }
    extras = [received.extra for received in some if received.extra is not None]
    extra = pa.concat_arrays(extras) if extras else None
    return Received(columns, raw, place, malformed, extra)
