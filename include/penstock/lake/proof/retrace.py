"""A step's way through the log, gone again for the audit: watermarks, micro-batches, plans.

Watermarks are folded here once more, from event times and decisions, apart from the fold of the
speed layer; what ``registry``, ``control`` and ``corrections`` say is held against them.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from penstock.columns.arrays import Longs
from penstock.columns.watermark import Mark, Steering
from penstock.core.controller import Controller
from penstock.core.slack import BlockKind, SlackChange, SlackPolicy, SlackSpec, WatermarkState
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER
from penstock.lake.history.generation import Generation, Sealed
from penstock.lake.history.view import BACKFILL, DONE, PLANNED, SPEED, Position, rows_of
from penstock.lake.log.blocks import SLACK, event_times
from penstock.lake.log.proposed import DECLARED
from penstock.lake.proof.recount import Blocks, Fault
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables, TableSpec

RECORDS_AT_ONCE = 1 << 21


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
    """The way of one step.

    Attributes:
        marks: positions from which on a watermark is in force that closes a window, and it, us.
        watermark: after the position's last block, us.
        spans: of every sealed micro-batch.
        batches, generations, plans: what does not agree with the log.
    """

    marks: list[Mark]
    watermark: int
    spans: list[Span]
    batches: list[Fault]
    generations: list[Fault]
    plans: list[Fault]


@dataclass(frozen=True, slots=True)
class Plans:
    """The rows of ``corrections`` of one epoch."""

    rows: list[dict[str, Any]]

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
        planned = self.planned
        full = [
            p["through_seq"] for n, p in planned.items()
            if n in self.done and p["reason"] != BACKFILL
            and p["window_from_us"] is None and p["window_to_us"] is None
        ]  # fmt: skip
        return max(full, default=-1)


def read_plans(tables: Tables, step: StepSpec) -> list[dict[str, Any]]:
    """All rows of ``corrections`` of a step."""
    rows = read_table(Table(tables.corrections()))
    return rows.filter(pc.equal(rows["step"], step.name)).to_pylist()


def retrace(
    tables: Tables,
    events: TableSpec,
    step: StepSpec,
    blocks: Blocks,
    at: Position,
    registered: list[Generation],
    plans: Plans,
) -> Trace:
    """Go a step's way again, up to a position.

    Args:
        tables: of the pipeline.
        events: its events.
        step: the step.
        blocks: of the log up to the position, counted again.
        at: the position.
        registered: the step's generations, read before the position.
        plans: of the position's epoch, read before it, too.
    """
    way = _Way(tables, Table(events), step, blocks, at.epoch)
    sealed = rows_of(tables, step, at)
    return Trace(
        way.marks,
        way.after(at.sealed.block).watermark,
        list(_spans(way, sealed)),
        [*_batches(tables, step, way, sealed)],
        [*_generations(way, at, registered)],
        [*_plans(tables, step, way, at, sealed, plans)],
    )


class _Way:
    """The fold of a step, from its epoch's history on, over every record."""

    def __init__(
        self, tables: Tables, events: Table, step: StepSpec, blocks: Blocks, epoch: Generation
    ) -> None:
        self.events, self.step, self.blocks, self.epoch = events, step, blocks, epoch
        rows = read_table(Table(tables.decisions()))
        rows = rows.filter((pc.field("step") == step.name) & (pc.field("what") == SLACK))
        decided = rows.sort_by([("block", "ascending"), ("decided_at", "ascending")]).to_pylist()
        self.decided = [SlackChange(r["block"], SlackSpec.from_text(r["value"])) for r in decided]
        asked = [r for r in decided if r["reason"] == DECLARED and r["decided_at"] <= epoch.started]
        said = SlackSpec.from_text(asked[-1]["value"]) if asked else step.slack
        self._controller: Controller | None = None
        self._newest = BEGINNING
        self._held: tuple[int, int, Longs, Longs] = (0, 0, *2 * [np.zeros(0, np.int64)])
        self.marks: list[Mark] = []
        self.start = self._start(epoch.slack or said)  # former versions folded what the file said
        self.marks = [(BEGINNING, self.start.watermark)]
        self._controller = None  # an epoch's has seen nothing
        self._after = {epoch.block: self.start}
        self._live(self.start)

    def after(self, block: int) -> WatermarkState:
        """The state before a block; where there is none, a state no row can have."""
        return self._after.get(block, WatermarkState(BEGINNING - 1))

    def seq(self, block: int) -> int:
        """The last number before a block."""
        at = int(np.searchsorted(self.blocks.number, block))
        return self._last(at - 1)

    def _last(self, i: int) -> int:
        """The last number of the block at a place; -1: before the first."""
        return int(self.blocks.last_seq[i]) if i >= 0 else -1

    def _start(self, slack: SlackSpec) -> WatermarkState:
        """History moves no watermark, but lets it stand at the window of its newest record."""
        state, blocks = WatermarkState(), self.blocks
        past = np.flatnonzero(blocks.number < self.epoch.block)
        for i in past:
            state = self._block(state, int(i), slack)
        old = blocks.t_max[past][~blocks.live[past]]
        newest = int(old.max(initial=BEGINNING))
        if newest > BEGINNING and state.watermark < FOREVER:
            newest -= slack.span if slack.policy is SlackPolicy.FIXED else 0
            window = self.step.window
            floor = newest - (newest - window.origin) % window.slide
            mark = max(state.watermark, floor)
            state = replace(state, watermark=mark, t_max=max(state.t_max, mark))
        return state

    def _live(self, state: WatermarkState) -> None:
        for i in np.flatnonzero(self.blocks.number >= self.epoch.block):
            number = int(self.blocks.number[i])
            slack = [c.spec for c in self.decided if c.block <= number]
            if slack:
                state = self._block(state, int(i), slack[-1])
                self._mark(self._last(int(i)) + 1, state.watermark)
            self._after[number + 1] = state

    def _mark(self, seq: int, watermark: int) -> None:
        """Note the watermark where a block ends, if a window has ended there besides."""
        window = self.step.window
        known, now = (
            (us - window.origin - window.size) // window.slide
            for us in (self.marks[-1][1], watermark)
        )
        if now > known:
            self.marks.append((seq, watermark))

    def _block(self, state: WatermarkState, i: int, slack: SlackSpec) -> WatermarkState:
        blocks, kind = self.blocks, self.blocks.kind[i]
        if kind == "end" and self.epoch.live and blocks.number[i] < self.epoch.block:
            kind = "idle"
        seqs, times = self._records(i)
        newest, self._newest = self._newest, int(times.max(initial=self._newest))
        if slack.tuning is not None:
            return self._steered(state, i, slack, kind, seqs, times, newest)
        self._controller = None
        if kind == "end":
            return replace(state, watermark=FOREVER)
        if kind == "idle":
            return replace(state, watermark=max(state.watermark, state.t_max))
        return self._judged(state, slack, seqs, times, newest) if len(times) else state

    def _judged(
        self, state: WatermarkState, slack: SlackSpec, seqs: Longs, times: Longs, newest: int
    ) -> WatermarkState:
        """One record after the other, under ``fixed`` or ``max_delay``."""
        before = np.maximum.accumulate(np.append(newest, times))[:-1]
        lags = np.where(before == BEGINNING, 0, np.maximum(before - times, 0))
        tops = np.maximum.accumulate(np.append(state.t_max, times))[1:]
        fixed = slack.policy is SlackPolicy.FIXED
        counted = lags if fixed else np.where(lags <= slack.span, lags, 0)
        greatest = np.maximum.accumulate(np.append(state.k, counted))[1:]
        waits = np.full(len(times), slack.span) if fixed else greatest
        marks = np.maximum.accumulate(np.append(state.watermark, tops - waits))
        window = self.step.window
        ended = (marks - window.origin - window.size) // window.slide
        for at in np.flatnonzero(ended[1:] > ended[:-1]).tolist():
            self.marks.append((int(seqs[at]) + 1, int(marks[at + 1])))
        return WatermarkState(int(marks[-1]), int(tops[-1]), int(greatest[-1]), int(waits[-1]))

    def _steered(
        self,
        state: WatermarkState,
        i: int,
        slack: SlackSpec,
        kind: str,
        seqs: Longs,
        times: Longs,
        newest: int,
    ) -> WatermarkState:
        """Under a controller: it alone is shared with the speed layer, its laws are tested."""
        known = Controller.under(self._controller, self.step.window, slack, state)
        self._controller, last = known, self._last(i)
        steering = Steering(known, self._last(i - 1))
        if not len(times):
            return steering.silent(state, BlockKind(kind), last)
        self.marks += steering.take(seqs, times, newest, last)
        return known.state(state)

    def _records(self, i: int) -> tuple[Longs, Longs]:
        """Live records of a block: their numbers and event times, us."""
        first, last = self._last(i - 1) + 1, self._last(i)
        if not self.blocks.live[i] or last < first:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        low, high, seqs, times = self._held
        if not low <= first <= last < high:
            low, high = first, max(first + RECORDS_AT_ONCE, last + 1)
            ((seqs, times),) = event_times(self.events, [(low, high - 1)])
            self._held = low, high, seqs, times
        cut = slice(*np.searchsorted(seqs, [first, last + 1]))
        return seqs[cut], times[cut]


def _figures(seq: int, state: WatermarkState) -> dict[str, Any]:
    figures = asdict(state)
    return {"seq": seq} | {f"{name}_us": figures[name] for name in figures}


def _unlike(
    what: str, place: dict[str, Any], expected: dict[str, Any], found: dict[str, Any]
) -> Iterator[Fault]:
    wrong = [n for n in expected if expected[n] != found[n]]
    if wrong:
        yield Fault(what, place, {n: expected[n] for n in wrong}, {n: found[n] for n in wrong})


def _spans(way: _Way, sealed: list[Sealed]) -> Iterator[Span]:
    before = way.epoch.block
    for row in sealed:
        low, high = way.after(before), way.after(row.block)
        yield Span(
            row.generation, row.micro_batch, way.seq(before), way.seq(row.block),
            low.watermark, high.watermark,
        )  # fmt: skip
        before = row.block


def _batches(tables: Tables, step: StepSpec, way: _Way, sealed: list[Sealed]) -> Iterator[Fault]:
    """Rows of ``control`` against the log, and against what their micro-batches wrote."""
    written = _written(tables, step)
    content = {(r["generation"], r["micro_batch"]): r
               for r in read_table(Table(tables.control(step))).to_pylist()}  # fmt: skip
    before = way.epoch.seq
    for row in sealed:
        place = {"generation": row.generation, "micro_batch": row.micro_batch}
        said = content[row.generation, row.micro_batch]
        answers, answered, late = written.get((row.generation, row.micro_batch), (0, 0, 0))
        expected = _figures(way.seq(row.block), way.after(row.block)) | {
            "records": row.seq - before,
            "answers": answers,
            "pairs_answered": answered,
            "pairs_late": late,
        }
        found = _figures(row.seq, row.state) | {
            n: said[n] for n in ("records", "answers", "pairs_answered", "pairs_late")
        }
        yield from _unlike("micro-batch unlike the log", place, expected, found)
        before = row.seq


def _written(tables: Tables, step: StepSpec) -> dict[tuple[int, int], tuple[int, int, int]]:
    """Answers, their pairs and late pairs that stand there, by generation and micro-batch."""
    by = ["generation", "micro_batch"]
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    answers = read_table(
        Table(tables.answers(step)), [*by, "reason", "n_records"], pc.field("reason") == SPEED
    )
    late = read_table(Table(tables.late(step, [])), [*by, "n_records"])
    for rows, late_rows in ((answers, False), (late, True)):
        sums = rows.group_by(by).aggregate([("n_records", "count"), ("n_records", "sum")])
        for r in sums.to_pylist():
            key = r["generation"], r["micro_batch"]
            a, n, m = found.get(key, (0, 0, 0))
            count, total = r["n_records_count"], r["n_records_sum"] or 0
            found[key] = (a, n, m + total) if late_rows else (a + count, n + total, m)
    return found


def _generations(way: _Way, at: Position, registered: list[Generation]) -> Iterator[Fault]:
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
        if one.slack is None:  # a former version wrote it down without K
            expected.pop("slack_us")
        yield from _unlike(
            "generation starts unlike the log", place, expected, _figures(one.seq, one.state)
        )


def _plans(
    tables: Tables, step: StepSpec, way: _Way, at: Position, sealed: list[Sealed], plans: Plans
) -> Iterator[Fault]:
    """Plans against what was sealed, and their completions against the answers that stand there."""
    names = ["epoch", "plan", "reason"]
    rows = read_table(Table(tables.answers(step)), names, pc.field("reason") != SPEED)
    rows = rows.filter(pc.equal(rows["epoch"], at.epoch.number))
    counts = dict(zip(*_counted(rows), strict=True))
    known = {(s.seq, s.state.watermark) for s in sealed}
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
