"""Merges the answers in force once that costs less than what it spares readers.

Answers are appended, and merged at read. A merge by maintenance is a lot: what it takes is shared
by all reads until the next one, and each of these takes longer, the more was appended since. It is
made once the reads since the last one would have been spared as much as it takes, or once all of
them would have, had they had as much to merge as there is now: the part-period rule of lot sizes,
and where nothing is known of what comes, that of renting skis (never twice the best). RTMR's model
of reads and writes, by measured times; docs/decisions/0035-merged-when-it-pays.md.
"""

import logging
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import pairwise
from time import process_time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.config.pipeline import Pipeline
from penstock.core.step import StepSpec
from penstock.lake.history.merged import Extent, Merged, merged_at, read_of, since
from penstock.lake.history.plans import plans
from penstock.lake.history.position import Position, position
from penstock.lake.history.reads import READ, note
from penstock.lake.history.unread import BY, answers, asking, in_force, quoted
from penstock.lake.storage import replace as replacing
from penstock.lake.storage.commit import Table, settle
from penstock.lake.storage.read import Spans, data_files, read_table
from penstock.lake.storage.replace import literal
from penstock.lake.storage.tables import Tables

log = logging.getLogger(__name__)

APPEND, REWRITE, WRITTEN = "append", "rewrite", "written"
WRITE, SPARED = 2e-6, 2e-7
"""Seconds to merge and write a row, and to merge one at read, until a step has figures of its own
(benchmarks/folding.py)."""
FILE, BATCH, SMALL = 2 << 20, 65_536, 50_000
"""Bytes of a file: what a late record makes to be written again. Rows that are handed over at once.
Rows of a file that is written again with what is new."""
MOST_RUNS = 8
"""Runs of windows that one merge replaces."""

Run = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a merge takes beside what it spares.

    Attributes:
        rows: that it writes, about; at least, where it does not pay anyway.
        seconds: that it takes of all processors, about; likewise.
        reads: how many there were since the former one.
        spared: what it would have spared them, s.
        coming: what it will spare as many, s.
    """

    rows: int
    seconds: float
    reads: int
    spared: float
    coming: float

    @property
    def choice(self) -> str:
        """To leave the answers as they were appended, or to write them anew."""
        pays = max(self.spared, self.coming - self.spared) >= self.seconds
        return REWRITE if pays else APPEND

    def __str__(self) -> str:
        return (
            f"reads since the last merge: {self.reads:,}; a merge would have spared them"
            f" {self.spared:.3g} s, and will spare as many {self.coming:.3g} s; it writes"
            f" {self.rows:,} answers in {self.seconds:.3g} s"
        )


@dataclass(frozen=True, slots=True)
class Noted:
    """What table ``merges`` says of a step; rows have ``number``, ``rows`` and ``seconds``.

    Attributes:
        reads: those since the last merge.
        looks: when maintenance found since then that it does not pay.
        a_write, a_read: seconds to write a row, and to merge one at read, as it was so far.
    """

    reads: pa.Table
    looks: pa.Table
    a_write: float
    a_read: float

    @staticmethod
    def of(tables: Tables, step: StepSpec) -> "Noted":
        """As of now."""
        mine = (pc.field("step") == step.id) & (pc.field("fingerprint") == step.fingerprint)
        names = ["number", "what", "rows", "seconds"]
        rows = read_table(Table(tables.merges()), names, mine)
        written, reads, looks = (
            rows.filter(pc.field("what") == what) for what in (WRITTEN, READ, APPEND)
        )
        since = pc.field("number") > (pc.max(written["number"]).as_py() or 0)
        speeds = _speed(written, WRITE), _speed(reads, SPARED)
        return Noted(reads.filter(since), looks.filter(since).sort_by("number"), *speeds)

    def weighed(self, unmerged: int, rows: int) -> Weighed:
        """A merge that writes some rows, where so many are not merged."""
        spared = pc.sum(self.reads["seconds"]).as_py() or 0.0
        count = self.reads.num_rows
        return Weighed(rows, rows * self.a_write, count, spared, count * unmerged * self.a_read)

    def early(self) -> Weighed:
        """By what the last look found: what a merge takes only grows until there is one."""
        unmerged = pc.max(self.reads["rows"]).as_py() or 0
        rows = self.looks["rows"][-1].as_py() if self.looks.num_rows else 0
        return self.weighed(unmerged, rows)


@dataclass(frozen=True, slots=True)
class Due:
    """What a merge would do.

    Attributes:
        at: as of this position.
        extent: the same, as the copy will say it.
        version: of the table that it is decided from.
        former: what is merged by now; none: nothing.
        runs: first and last start of the windows it writes anew, us; none: of all.
        weighed: whether it pays.
    """

    at: Position
    extent: Extent
    version: int
    former: Merged | None
    runs: tuple[Run, ...] | None
    weighed: Weighed


def merge(tables: Tables, pipeline: Pipeline) -> dict[str, str]:
    """Merge the answers of each step for which it pays; what was chosen, of steps that were read.

    Raises:
        DamagedTableError: a data file is not whole; names it.
    """
    found, spec = {}, tables.merges()
    for step in pipeline.specs:
        noted = Noted.of(tables, step)
        if not noted.reads.num_rows:
            continue
        if (early := noted.early()).choice == APPEND:
            found[step.id] = f"{APPEND}: {early}"
            continue
        due = due_of(tables, step, noted)
        if due is None:
            continue
        weighed = due.weighed
        note(spec, step, weighed.choice, weighed.rows, weighed.seconds, str(weighed))
        found[step.id] = f"{weighed.choice}: {weighed}"
        began = process_time()
        if weighed.choice == REWRITE and write(tables, step, due):
            note(spec, step, WRITTEN, weighed.rows, process_time() - began)
        log.info("answers step=%s %s", step.id, found[step.id])
    return found


def due_of(tables: Tables, step: StepSpec, noted: Noted) -> Due | None:
    """What a merge would do now; none: nothing came, or a correction is not done."""
    at = position(tables, step)
    planned, done = plans(tables, step)
    numbers = {plan.number for plan in planned}
    if at is None or numbers != done or not numbers <= at.done:
        return None
    version = Table(tables.merged(step)).delta.version()
    extent, former = Extent.of(at, max(numbers, default=0)), merged_at(tables, step, at)
    if former is not None and former.extent == extent:
        return None
    unmerged = read_of(tables, step, former).unmerged
    due = Due(at, extent, version, former, (), noted.weighed(unmerged, unmerged))
    if due.weighed.choice == APPEND:  # the least that it would take is too much
        return due
    runs, rows = _runs(tables, step, at, former)
    return replace(due, runs=runs, weighed=noted.weighed(unmerged, rows))


def write(tables: Tables, step: StepSpec, due: Due) -> bool:
    """Write the answers in force of some windows anew; whether it was done.

    They are sorted by window, so that a question about some windows opens few files.

    Raises:
        ValueError: it does not pay, and nobody has looked which windows those are.
    """
    if due.weighed.choice != REWRITE:
        raise ValueError(str(due.weighed))
    settle(tables.corrections(), tables.control(step), tables.answers(step))
    table = Table(tables.merged(step))
    parts = {"rows": answers(tables, step, due.at, since(due.former))}
    where, schema = _within(due.runs), table.spec.schema
    if due.former is not None:
        parts["merged"] = due.former.rows.filter(Spans(BY, due.runs or ()).where(schema))
    names = ", ".join(map(quoted, schema.names))
    union = " UNION ALL ".join(f"SELECT {names} FROM {part}" for part in parts)  # noqa: S608
    sql = f"SELECT * {in_force(step)} ORDER BY {BY}".replace("{rows}", f"({union})")
    done = due.extent.transactions(due.at.epoch.number)
    with asking(parts) as connection:
        reader = connection.sql(sql).to_arrow_reader(BATCH).cast(schema)
        return replacing.replace(table, reader, where, "merge", done, FILE, due.version)


def _within(runs: tuple[Run, ...] | None) -> str | None:
    """SQL, true for windows that start in some runs; none: for all."""
    if runs is None:
        return None
    spans = (f"({BY} >= {literal(first)} AND {BY} <= {literal(last)})" for first, last in runs)
    return " OR ".join(spans) or "false"


def _runs(
    tables: Tables, step: StepSpec, at: Position, former: Merged | None
) -> tuple[tuple[Run, ...] | None, int]:
    """Which windows a merge writes anew, and about how many answers those have."""
    if former is None:
        delta = Table(tables.answers(step)).newest()
        files = [] if delta is None else data_files(delta, BY)
        return None, sum(file.rows for file in files)
    new = answers(tables, step, at, since(former)).to_table(columns=[BY])[BY]
    starts = np.unique(np.asarray(pc.cast(new, pa.int64()), np.int64))
    spans = [(f.least, f.greatest, f.rows) for f in former.files]
    touched = [
        (least, greatest) for least, greatest, rows in spans
        if least is not None and greatest is not None
        and (rows < SMALL or _between(starts, least, greatest))
    ]  # fmt: skip
    for first, last in touched:
        starts = starts[(starts < first) | (starts > last)]
    runs = joined([*touched, *((start, start) for start in starts.tolist())])
    again = sum(file.rows for file in former.files if Spans(BY, runs).hold(file))
    return runs, again + len(new)


def _between(starts: Longs, least: int, greatest: int) -> bool:
    """Whether some start lies in a closed range; starts ascend."""
    return bool(np.searchsorted(starts, least) < np.searchsorted(starts, greatest, "right"))


def joined(spans: list[Run]) -> tuple[Run, ...]:
    """At most ``MOST_RUNS`` runs that hold all spans: the nearest are joined."""
    apart: list[Run] = []
    for first, last in sorted(spans):
        if apart and first <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(last, apart[-1][1]))
        else:
            apart.append((first, last))
    gaps = ((later - end, later) for (_, end), (later, _) in pairwise(apart))
    cuts = {start for _, start in nlargest(MOST_RUNS - 1, gaps)}
    found: list[Run] = []
    for first, last in apart:
        if found and first not in cuts:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return tuple(found)


def _speed(known: pa.Table, otherwise: float) -> float:
    """Seconds a row, as it was so far."""
    rows = pc.sum(known["rows"]).as_py() or 0
    return pc.sum(known["seconds"]).as_py() / rows if rows else otherwise
