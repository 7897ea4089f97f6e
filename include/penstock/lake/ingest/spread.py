"""A plan carried out in pieces: each is read, judged and written by a worker.

A record's number, and the columns that are there before it, depend on all pieces before its own.
So they are counted first, and each piece is carried out as if the counts were right and no column
came. Each then says what it received and which columns it brought, and those that began from
something else are carried out again, until all agree: the first piece is right from the start, and
each round makes one more so at least. Nearly always that is one round.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import pyarrow as pa
from deltalake.transaction import AddAction

from penstock.config.intake import Definition, FileFormat
from penstock.core.crash import reached
from penstock.core.window import BEGINNING
from penstock.lake.ingest.counting import count
from penstock.lake.ingest.crew import Crew, Fault, Told
from penstock.lake.ingest.item import Item
from penstock.lake.ingest.judging import judged_items
from penstock.lake.ingest.numbered import Numbered, numbered
from penstock.lake.ingest.plan import Plan, definition_of
from penstock.lake.ingest.undeclared import Undeclared
from penstock.lake.storage.drafts import Files, Gathered
from penstock.lake.storage.spec import TableSpec, opened

P = TypeVar("P")
R = TypeVar("R")
Fields = dict[str, pa.DataType]


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker has to know of a plan beside the piece.

    Attributes:
        plan: without its items.
        events: the table.
        quarantine: columns of that table.
        source: URI of the folder that the items lie in.
    """

    plan: Plan
    events: TableSpec
    quarantine: pa.Schema
    source: str


@dataclass(frozen=True, slots=True)
class Start:
    """Where a piece begins.

    Attributes:
        at: records of the plan before it.
        fields: what is undeclared and has a column before it.
    """

    at: int
    fields: Fields


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece to be carried out; its items have their whole paths."""

    items: tuple[Item, ...]
    start: Start


@dataclass(frozen=True, slots=True)
class Made:
    """What a piece became.

    Attributes:
        start: as it was carried out.
        rows: its records; of the accepted ones only the sums.
        files: that hold the accepted ones.
        fields: columns that they brought, in order.
    """

    start: Start
    rows: Numbered
    files: list[AddAction] = field(default_factory=list)
    fields: Fields = field(default_factory=dict)


def spread(
    pieces: Sequence[tuple[Item, ...]],
    job: Job,
    definition: Definition,
    crew: Crew,
    undeclared: Undeclared,
    drafts: Gathered,
) -> Numbered:
    """Carry out a plan in pieces; arguments as for ``numbered``.

    Args:
        pieces: of the plan.
        job: of which plan.
        definition: the plan's.
        crew: who does it.
        undeclared: fields that there are.
        drafts: take the files.

    Raises:
        SourceError: an item cannot be read now, or is not what was planned.
    """
    counts = _counted(pieces, definition, crew)
    starts = [Start(0, dict(undeclared.types))]
    for each in counts:
        starts.append(Start(starts[-1].at + each, starts[-1].fields))
    made: list[Made | None] = [None] * len(pieces)
    while due := [at for at, m in enumerate(made) if m is None or m.start != starts[at]]:
        parts = [Piece(pieces[at], starts[at]) for at in due]
        results = crew.map(Told(partial(carry_out, job)), parts)
        for result in results:
            drafts.hold([] if isinstance(result, Fault) else result.files)
        for at, result in zip(due, raised(results), strict=True):
            if (former := made[at]) is not None:
                drafts.let_go(former.files)
            made[at] = result
        done = [each for each in made if each is not None]  # all were due at first
        starts = starts[:1]
        for each in done:
            at, fields = starts[-1].at + each.rows.received, starts[-1].fields | each.fields
            starts.append(Start(at, fields))
    drafts.settle([file for each in done for file in each.files], starts[-1].fields)
    empty = job.quarantine.empty_table()
    return Numbered(
        pa.concat_tables([each.rows.sums for each in done]),
        pa.concat_tables([empty, *(each.rows.refused for each in done)]),
        starts[-1].at,
    )


def _counted(pieces: Sequence[tuple[Item, ...]], definition: Definition, crew: Crew) -> list[int]:
    """Records of each piece, as far as can be told without judging them."""
    is_text = any(
        item.records < 0 and item.format != FileFormat.PARQUET.value
        for piece in pieces
        for item in piece
    )
    work = partial(_count, definition)
    return raised(crew.map(Told(work), pieces)) if is_text else [*map(work, pieces)]


def _count(definition: Definition, piece: tuple[Item, ...]) -> int:
    return sum(count(item, definition) for item in piece)


def carry_out(job: Job, piece: Piece) -> Made:
    """Read, judge and write one piece, in whatever process."""
    reached("door piece")
    plan, start = job.plan, piece.start
    definition = definition_of(plan.definition)
    undeclared = Undeclared(start.fields)
    filesystem, _ = opened(job.source)
    parts = judged_items([piece.items], filesystem, plan, definition, BEGINNING, undeclared)
    with Files(job.events, {"origin": plan.origin}) as files:
        rows = numbered(parts, plan, None, job.quarantine, undeclared, files, start.at)
        written = files.finish()
        reached("door drafts")
        files.exposed = True
    brought = {n: kind for n, kind in undeclared.types.items() if n not in start.fields}
    return Made(start, rows, written, brought)


def raised(results: Sequence[R | Fault]) -> list[R]:
    """Results; the first that is an error is raised."""
    found: list[R] = []
    for result in results:
        if isinstance(result, Fault):
            raise result.error()
        found.append(result)
    return found
