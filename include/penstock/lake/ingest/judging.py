"""The items of a plan: read, judged, and cut to the plan's span.

A judgement costs some milliseconds, however few its records. So small items of one form are judged
together: a verdict depends on its record and the plan, not on what stands beside it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate, groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.fs

from penstock.config.intake import Ambiguous, Definition
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.plan import Plan
from penstock.lake.ingest.planned import GivenUp
from penstock.lake.ingest.reading import BROKEN, is_of_system, told_apart
from penstock.lake.ingest.received import Received, receive, unreadable
from penstock.lake.ingest.rows import within
from penstock.lake.ingest.undeclared import Undeclared
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
    pieces: Sequence[Sequence[Item]],
    filesystem: pa.fs.FileSystem,
    plan: Plan,
    definition: Definition,
    newest: int,
    undeclared: Undeclared,
) -> Iterator[Part]:
    """The records of a plan, in order; what an item's content breaks is refused as a whole.

    Args:
        pieces: of the plan, with their items' whole paths, as decided.
        filesystem: on which they lie.
        plan: they belong to.
        definition: of the plan.
        newest: newest live event time before them, us.
        undeclared: fields that there are; whoever takes a part says which it brought.

    Raises:
        SourceError: one cannot be read now, or is not what was planned.
    """
    held: list[tuple[Item, Received]] = []
    items = (item for piece in pieces for item in piece)
    firsts = {*accumulate(map(len, pieces))}
    for at, (item, received) in enumerate(_read_ahead(items, filesystem, definition)):
        if held and (at in firsts or not _alike(held, item, received, definition)):
            for part in _judged(held, plan, definition, newest, undeclared):
                newest = max(newest, part.judged.newest)
                yield part
            held = []
        held.append((item, received))
    yield from _judged(held, plan, definition, newest, undeclared) if held else ()


def _read_ahead(
    items: Iterable[Item], filesystem: pa.fs.FileSystem, definition: Definition
) -> Iterator[tuple[Item, Received]]:
    """Items with their records; while one is judged the next one is read."""

    def read(item: Item) -> tuple[Item, Received]:
        with told_apart(item.path):
            known = item.received() if isinstance(item, GivenUp) else None
            return item, known or receive(item, filesystem, definition)

    with ThreadPoolExecutor(1, "reader") as reader:
        ahead: Future[tuple[Item, Received]] | None = None
        for item in items:
            with told_apart(item.path):  # no thread left says nothing of it
                following = reader.submit(read, item)
            if ahead is not None:
                yield ahead.result()
            ahead = following
        if ahead is not None:
            yield ahead.result()


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
    held: Sequence[tuple[Item, Received]],
    plan: Plan,
    definition: Definition,
    newest: int,
    undeclared: Undeclared,
) -> Iterator[Part]:
    judged_by = plan.arrived_at, newest, undeclared, plan.refused_before
    if len(held) > 1:
        try:
            received = _joined([received for _, received in held])
            judged = judge(received, definition, *judged_by)
        except (*BROKEN, MemoryError, RuntimeError):  # one of them is to blame: which says itself
            for one in held:
                yield from _judged([one], plan, definition, newest, undeclared)
        else:
            yield Part(held[0][0].path, received, judged)
        return
    item, received = held[0]
    with told_apart(item.path):
        try:
            judged = judge(received, definition, *judged_by)
        except BROKEN as broken:
            if is_of_system(broken):
                raise
            received = unreadable(item, broken)
            judged = judge(received, definition, *judged_by)
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
    return Received(columns, raw, place, malformed, extra, some[0].typed)
