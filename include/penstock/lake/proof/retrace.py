"""A step's way through the log, gone again for the audit: watermarks, micro-batches, plans.

Watermarks are folded here once more, from event times and decisions, apart from the fold of the
speed layer; what ``registry``, ``control`` and ``corrections`` say is held against them.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.watermark import Mark
from penstock.core.slack import WatermarkState
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.history.generation import Generation, Sealed
from penstock.lake.history.position import (
    BACKFILL,
    DONE,
    PLANNED,
    SHED,
    SPEED,
    Position,
    rows_of,
)
from penstock.lake.history.taken import taken
from penstock.lake.history.view import excluded_at
from penstock.lake.proof.recount import Blocks, Fault
from penstock.lake.proof.refold import Way
from penstock.lake.proof.refold_joint import Ways, way_of
from penstock.lake.proof.waypoint import BEGIN, Waypoint
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.spec import TableSpec
from penstock.lake.storage.tables import Tables

FIGURES = ("records", "answers", "pairs_answered", "pairs_late", "pairs_shed", "late_total",
           "answered_total", "shed_total")  # fmt: skip
"""What a row of ``control`` says of what its micro-batch wrote, and its generation up to it."""
Gone: TypeAlias = Way | Ways
NOTHING = {"late_total": 0, "answered_total": 0, "shed_total": 0}


@dataclass(frozen=True, slots=True)
class Span:
    """What a sealed micro-batch could write: it took (low_seq, high_seq], closed (low, high]."""

    generation: int
    micro_batch: int
    low_seq: int
    high_seq: int
    low: int
    high: int


@dataclass
class Trace:
    """The way of one step through a stretch of the log.

    Attributes:
        marks: positions from which on a watermark is in force that closes a window, and it, us;
            the first: before the stretch, and before the epoch.
        watermark: after the stretch's last block, us.
        end: where it ends.
        spans: of every sealed micro-batch.
        batches, generations, plans: what does not agree with the log.
    """

    marks: list[Mark]
    watermark: int
    end: Waypoint
    spans: list[Span]
    batches: list[Fault]
    generations: list[Fault]
    plans: list[Fault]


@dataclass(frozen=True, slots=True)
class Plans:
    """Rows of ``corrections`` of one epoch.

    Attributes:
        rows: all of them, or what is new.
        before: what was settled without them.
        mark: the watermark then, us.
    """

    rows: list[dict[str, Any]]
    before: int = -1
    mark: int = BEGINNING

    @property
    def planned(self) -> dict[int, dict[str, Any]]:
        """Frozen plans by number."""
        return {r["plan"]: r for r in self.rows if r["state"] == PLANNED}

    @property
    def done(self) -> dict[int, dict[str, Any]]:
        """Completions by number of the plan."""
        return {r["plan"]: r for r in self.rows if r["state"] == DONE}

    @property
    def settled(self) -> int:
        """Every late row up to here was taken by a finished correction of all windows."""
        return max([self.before, *(p["through_seq"] for p in self._full)])

    @property
    def settled_us(self) -> int:
        """The watermark of the last of these, us: of windows open then, shed rows still wait."""
        return max([self.mark, *(p["watermark_us"] for p in self._full)])

    @property
    def _full(self) -> list[dict[str, Any]]:
        return [
            p for n, p in self.planned.items()
            if n in self.done and p["reason"] != BACKFILL
            and p["window_from_us"] is None and p["window_to_us"] is None
        ]  # fmt: skip


def read_plans(
    tables: Tables, step: StepSpec, where: pc.Expression | None = None
) -> list[dict[str, Any]]:
    """Rows of ``corrections`` of a step; all by default."""
    mine = pc.field("step") == step.id
    rows = read_table(Table(tables.corrections()), where=mine if where is None else mine & where)
    return [*rows.to_pylist()]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Blocks from a waypoint on, and before another block: what is gone through at once.

    Attributes:
        since: where it begins.
        until: the block it ends before; none: where the position does.
        last: its last number.
    """

    since: Waypoint = BEGIN
    until: int | None = None
    last: int = FOREVER

    def first(self, epoch: Generation) -> tuple[int, int]:
        """The block that its first micro-batch begins with, and the number before it."""
        after = self.since.block, self.since.seq
        return max(after, (epoch.block, epoch.seq))

    def within(self, column: str, first: int) -> Spans | None:
        """Rows with numbers from one on; none: all, for a whole log."""
        whole = self.since.begins and self.until is None
        return None if whole else Spans(column, ((first, self.last),))

    def rows(self, tables: Tables, step: StepSpec, at: Position) -> list[Sealed]:
        """Its rows of ``control``, in order."""
        within = self.within("through_seq", self.since.seq)
        last = FOREVER if self.until is None else self.until
        found = rows_of(tables, step, at, within)
        return [s for s in found if self.since.block < s.block <= last or within is None]

    def is_all(self, head: Waypoint) -> bool:
        """Whether it is all that came before a waypoint."""
        return self.since.begins and self.until == head.block

    def plans(self, epoch: Generation) -> pc.Expression:
        """True for rows of ``corrections`` of an epoch that speak for one of its numbers."""
        through = pc.field("through_seq")
        inside = (through > self.since.seq) & (through <= self.last)
        return inside & (pc.field("epoch") == epoch.number)

    def holds(self, block: int) -> bool:
        """Whether a generation that starts before a block starts within it."""
        return block >= self.since.block and (self.until is None or block <= self.until)


def retrace(
    tables: Tables,
    events: TableSpec,
    step: StepSpec,
    blocks: Blocks,
    at: Position,
    registered: list[Generation],
    plans: Plans,
    stretch: Stretch = Stretch(),
) -> Trace:
    """Go a step's way again, up to a position.

    Args:
        tables: of the pipeline.
        events: its events.
        step: the step.
        blocks: of the stretch, counted again.
        at: the position.
        registered: the step's generations, read before the position.
        plans: of the position's epoch, read before it, too: those to look at.
        stretch: by default the whole log.
    """
    way = way_of(tables, Table(events), step, blocks, at.epoch, stretch.since)
    sealed = stretch.rows(tables, step, at)
    until = at.sealed.block if stretch.until is None else stretch.until
    return Trace(
        way.marks,
        way.after(until).watermark,
        way.end(),
        list(_spans(way, sealed, stretch)),
        [*_batches(tables, step, way, at, sealed, stretch)],
        [*_generations(way, at, [g for g in registered if stretch.holds(g.block)])],
        [*_plans(tables, step, way, at, sealed, plans)],
    )


def _figures(seq: int, state: WatermarkState) -> dict[str, Any]:
    figures = asdict(state)
    return {"seq": seq} | {f"{name}_us": figures[name] for name in figures}


def _unlike(
    what: str, place: dict[str, Any], expected: dict[str, Any], found: dict[str, Any]
) -> Iterator[Fault]:
    wrong = [n for n in expected if expected[n] != found[n]]
    if wrong:
        yield Fault(what, place, {n: expected[n] for n in wrong}, {n: found[n] for n in wrong})


def _spans(way: Gone, sealed: list[Sealed], stretch: Stretch) -> Iterator[Span]:
    before, _ = stretch.first(way.epoch)
    for row in sealed:
        low, high = way.after(before), way.after(row.block)
        yield Span(
            row.generation, row.micro_batch, way.seq(before), way.seq(row.block),
            low.watermark, high.watermark,
        )  # fmt: skip
        before = row.block


def _batches(
    tables: Tables,
    step: StepSpec,
    way: Gone,
    at: Position,
    sealed: list[Sealed],
    stretch: Stretch,
) -> Iterator[Fault]:
    """Rows of ``control`` against the log, and against what their micro-batches wrote."""
    written = _written(tables, step, stretch)
    records = _taken(tables, step, at, sealed, stretch)
    within = stretch.within("through_seq", stretch.since.seq)
    rows = read_table(Table(tables.control(step)), within=within).to_pylist()
    content = {(r["generation"], r["micro_batch"]): r for r in rows}
    _, before = stretch.first(way.epoch)
    for row in sealed:
        place = {"generation": row.generation, "micro_batch": row.micro_batch}
        said = content[row.generation, row.micro_batch]
        former = content.get((row.generation, row.micro_batch - 1), NOTHING)
        answers, answered, late, shed = written.get((row.generation, row.micro_batch), (0, 0, 0, 0))
        if records is not None:
            low, high = np.searchsorted(records, [before, row.seq], "right")
            answered = int(high - low) - late
        expected = _figures(way.seq(row.block), way.after(row.block)) | {
            "records": row.seq - before,
            "answers": answers,
            "pairs_answered": answered,
            "pairs_late": late,
            "pairs_shed": shed,
            "late_total": former["late_total"] + late,
            "answered_total": former["answered_total"] + answered,
            "shed_total": (former["shed_total"] or 0) + shed,
        }
        found = _figures(row.seq, row.state) | {n: said[n] or 0 for n in FIGURES}
        yield from _unlike("micro-batch unlike the log", place, expected, found)
        before = row.seq


def _taken(
    tables: Tables, step: StepSpec, at: Position, sealed: list[Sealed], stretch: Stretch
) -> Longs | None:
    """Positions of the records that the step takes; none: it counts pairs, as its answers do."""
    if not step.by_key or not sealed:
        return None
    _, before = stretch.first(at.epoch)
    excluded = np.asarray(excluded_at(tables, step, at)["arrival_seq"])
    return np.setdiff1d(taken(tables, step, before + 1, sealed[-1].seq), excluded)


def _written(
    tables: Tables, step: StepSpec, stretch: Stretch
) -> dict[tuple[int, int], tuple[int, int, int, int]]:
    """Answers, their pairs, late and shed pairs that stand there, by generation, micro-batch."""
    by = ["generation", "micro_batch"]
    found: dict[tuple[int, int], tuple[int, int, int, int]] = {}
    closed = stretch.within("through_seq", stretch.since.seq)  # silence closes at the last number
    missed = stretch.within("last_seq", stretch.since.seq + 1)
    answers = read_table(
        Table(tables.answers(step)), [*by, "reason", "n_records"], pc.field("reason") == SPEED,
        closed,
    )  # fmt: skip
    names = [*by, "reason", "n_records"]
    late = read_table(Table(tables.late(step, [])), names, within=missed)
    shed = late.filter(pc.equal(late["reason"], SHED))
    for place, rows in ((1, answers), (2, late), (3, shed)):
        sums = rows.group_by(by).aggregate([("n_records", "count"), ("n_records", "sum")])
        for r in sums.to_pylist():
            key = r["generation"], r["micro_batch"]
            mine = [*found.get(key, (0, 0, 0, 0))]
            mine[0] += r["n_records_count"] if place == 1 else 0
            mine[place] += r["n_records_sum"] or 0
            answered, pairs, missed_pairs, shed_pairs = mine
            found[key] = answered, pairs, missed_pairs, shed_pairs
    return found


def _generations(way: Gone, at: Position, registered: list[Generation]) -> Iterator[Fault]:
    """Where generations started, against the log."""
    for one in registered:
        if one.epoch != at.epoch.number:
            continue
        place = {"generation": one.number}
        if one.block > at.sealed.block:
            yield Fault("generation starts beyond what is sealed", place,
                        {"block": at.sealed.block}, {"block": one.block})  # fmt: skip
            continue
        expected = _figures(way.seq(one.block), way.after(one.block))
        yield from _unlike(
            "generation starts unlike the log", place, expected, _figures(one.seq, one.state)
        )


def _plans(
    tables: Tables,
    step: StepSpec,
    way: Gone,
    at: Position,
    sealed: list[Sealed],
    plans: Plans,
) -> Iterator[Fault]:
    """Plans against what was sealed, and their completions against the answers that stand there."""
    names = ["epoch", "plan", "reason"]
    places = {(p["through_seq"], p["watermark_us"]) for p in plans.planned.values()}
    prefixes = [seq for seq, _ in places]
    within = Spans("through_seq", ((min(prefixes), max(prefixes)),)) if prefixes else None
    rows = read_table(Table(tables.answers(step)), names, pc.field("reason") != SPEED, within)
    rows = rows.filter(pc.equal(rows["epoch"], at.epoch.number))
    counts = dict(zip(*_counted(rows), strict=True))
    known = {(s.seq, s.state.watermark) for s in sealed}
    # Of rows at one record, which an idle source makes, some may lie before the stretch.
    if (elsewhere := {seq for seq, _ in places - known}) and not way.since.begins:
        once = Spans("through_seq", tuple((seq, seq) for seq in sorted(elsewhere)))
        known |= {(s.seq, s.state.watermark) for s in rows_of(tables, step, at, once)}
    start = way.epoch.seq, way.start.watermark
    for number, plan in plans.planned.items():
        stands = plan["through_seq"], plan["watermark_us"]
        if stands != start if plan["reason"] == BACKFILL else stands not in known:
            expected = _prefix(at.sealed)
            found = dict(zip(expected, stands, strict=True))
            what = "correction speaks for what is not sealed"
            yield Fault(what, {"plan": number}, expected, found)
    for number, done in plans.done.items():
        plan = plans.planned.get(number, {})
        if not plan:
            yield Fault("correction done without a plan", {"plan": number}, {}, {})
        elif not plan["recheck"] and counts.get(number, 0) != done["answers"]:
            stand = {"answers": counts.get(number, 0)}
            what = "correction done without its answers"
            yield Fault(what, {"plan": number}, {"answers": done["answers"]}, stand)


def _prefix(sealed: Sealed) -> dict[str, int]:
    return {"through_seq": sealed.seq, "watermark_us": sealed.state.watermark}


def _counted(rows: Any) -> tuple[list[int], list[int]]:
    counts = rows.group_by("plan").aggregate([("plan", "count")])
    return counts["plan"].to_pylist(), counts["plan_count"].to_pylist()
