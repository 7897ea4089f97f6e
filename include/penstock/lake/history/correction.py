"""Planning corrections: which windows, as of which position; frozen before anything runs.

A plan names no records and no windows: those are a function of the log up to its position and
of the plan before it, so planning costs the same for one late record and for a million.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.types import INSTANT
from penstock.core.clock import Clock
from penstock.core.errors import ConfigError, TransientError
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, FOREVER, instant, micros
from penstock.lake.history.generation import current
from penstock.lake.history.plans import (
    CorrectionPlan,
    history_before,
    plans,
    unfinished_plans,
)
from penstock.lake.history.position import (
    BACKFILL,
    DONE,
    LATE,
    PLANNED,
    SHED,
    Position,
    position,
)
from penstock.lake.history.view import late_at
from penstock.lake.log.freezes import asked, frozen
from penstock.lake.log.sheds import ever_shed
from penstock.lake.storage.commit import Table, settle
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

MOST_SPANS = 8


class Planner:
    """Writes plans for one step."""

    def __init__(self, tables: Tables, step: StepSpec, clock: Clock, run_id: str) -> None:
        self.tables, self.step, self.clock, self.run_id = tables, step, clock, run_id
        self.corrections = Table(tables.corrections())

    def due(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        recheck: bool = False,
    ) -> list[CorrectionPlan]:
        """Freeze what is to be done and return every plan that is not done yet.

        Args:
            since: restrict to windows that start at or after it; none: all pending.
            until: restrict to windows that start before it.
            recheck: also compare answers that no late record touched.

        Raises:
            ConfigError: all windows of the range are frozen.
        """
        low = None if since is None else micros(since)
        high = None if until is None else micros(until)
        self._refuse_frozen(high)
        self._plan_history()
        at = position(self.tables, self.step)
        if at is not None:
            self._plan_late(at, low, high, recheck)
        found = unfinished_plans(self.tables, self.step)
        settle(self.tables.corrections())  # another run's plans are carried out, too
        return found

    def _refuse_frozen(self, high: int | None) -> None:
        gone = frozen(self.tables).begin_of(self.step)
        if high is not None and high <= gone:
            raise ConfigError(
                f"{self.step.id}: windows that start before {instant(gone):%F %T} UTC are frozen"
                " (keep), and their records have gone: their answers stay as they are. Correct a"
                " later range"
            )

    def _plan_history(self) -> None:
        """The answers of what was there before the epoch, as far as no former one gave them."""
        found = current(self.tables, self.step)
        planned, _ = plans(self.tables, self.step)
        if found is None or any(p.reason == BACKFILL for p in planned):
            return
        epoch = found[0]
        if epoch.seq < 0 or epoch.state.watermark == BEGINNING:
            return
        base = history_before(self.tables, self.step, epoch)
        after, number = (-1, None) if base is None else (base["through_seq"], base["plan"])
        low = left(self.tables, self.step, None)
        self._freeze(
            epoch.number, BACKFILL, after, epoch.seq, epoch.state.watermark, low, None, base=number
        )

    def _plan_late(self, at: Position, low: int | None, high: int | None, recheck: bool) -> None:
        planned, _ = plans(self.tables, self.step)
        full = [p for p in planned if p.reason == LATE and not p.restricted]
        after, settled = _reached(full)
        if recheck:
            low = left(self.tables, self.step, low)
        plan = CorrectionPlan(
            at.epoch.number, 0, LATE, after, at.sealed.seq, at.sealed.state.watermark,
            low, high, recheck, settled=settled,
        )  # fmt: skip
        if recheck or touched(self.tables, self.step, plan, at).num_rows:
            self._freeze(
                plan.epoch, LATE, after, plan.through_seq, plan.watermark, low, high,
                recheck=recheck,
            )  # fmt: skip

    def _freeze(
        self,
        epoch: int,
        reason: str,
        after: int,
        through: int,
        watermark: int,
        low: int | None,
        high: int | None,
        *,
        recheck: bool = False,
        base: int | None = None,
    ) -> None:
        rows = read_table(self.corrections).filter(pc.field("step") == self.step.id)
        number = (pc.max(rows["plan"]).as_py() or 0) + 1
        row = {
            "step": self.step.id,
            "fingerprint": self.step.fingerprint,
            "epoch": epoch,
            "plan": number,
            "state": PLANNED,
            "reason": reason,
            "after_seq": after,
            "through_seq": through,
            "watermark_us": watermark,
            "window_from_us": low,
            "window_to_us": high,
            "recheck": recheck,
            "base": base,
            "answers": None,
            "changed": None,
            "run_id": self.run_id,
            "recorded_at": self.clock.now(),
        }
        table = pa.Table.from_pylist([row], schema=self.corrections.spec.schema)
        settle(self.tables.registry(), self.tables.control(self.step))
        if not self.corrections.append(table, f"plan:{self.step.id}", number):
            raise TransientError(f"{self.step.id}: another run planned at the same moment")

    def finish(self, plan: CorrectionPlan, answers: int, changed: int) -> None:
        """Note that a plan is done."""
        row = {
            "step": self.step.id,
            "fingerprint": self.step.fingerprint,
            "epoch": plan.epoch,
            "plan": plan.number,
            "state": DONE,
            "reason": plan.reason,
            "through_seq": plan.through_seq,
            "answers": answers,
            "changed": changed,
            "run_id": self.run_id,
            "recorded_at": self.clock.now(),
        }
        table = pa.Table.from_pylist([row], schema=self.corrections.spec.schema)
        settle(self.tables.answers(self.step))
        self.corrections.append(table, f"done:{self.step.id}:{plan.number}", 0)


def touched(
    tables: Tables, step: StepSpec, plan: CorrectionPlan, at: Position | None = None
) -> pa.Table:
    """The windows and keys a plan of late records is about: ``window_start`` and the keys.

    Of a step whose late records only add answers these one by one: ``last_seq``, too.
    """
    at = at or position(tables, step)
    names = ["window_start", *step.key_names, *(["last_seq"] if step.only_adds else [])]
    if at is None:
        return tables.late(step, []).schema.empty_table().select(names)
    told = Spans("last_seq", ((plan.after_seq + 1, plan.through_seq),))
    since = max(frozen(tables).begin_of(step), BEGINNING if plan.since is None else plan.since)
    rows = late_at(tables, step, at, [], told)
    comes = plan.through_seq > plan.after_seq or not step.by_key  # what could be compared
    if plan.after_seq >= 0 and comes and ever_shed(Table(tables.decisions()), step):
        rows = pa.concat_tables([rows, _still_open(tables, step, plan, at)])
    if not step.by_key:  # nothing can be answered yet; alarms and pairs are told at once
        rows = rows.filter(pc.less_equal(rows["window_end"], instant(plan.watermark)))
    late = within(rows, since, plan.until)
    return late.group_by(names).aggregate([]).select(names)


def _still_open(tables: Tables, step: StepSpec, plan: CorrectionPlan, at: Position) -> pa.Table:
    """Shed rows that the plans before have met, while their windows could yet get answers."""
    least = step.open_after(plan.settled)
    where = (pc.field("reason") == SHED) & (pc.field("last_seq") <= plan.after_seq)
    near = Spans("window_start", ((max(least - step.window.size + 1, BEGINNING), FOREVER),))
    return late_at(tables, step, at, [], near, where)


def _reached(full: Sequence[CorrectionPlan]) -> tuple[int, int]:
    """Position and watermark up to which some plans of all windows have come."""
    after = max((p.through_seq for p in full), default=-1)
    return after, max((p.watermark for p in full), default=BEGINNING)


def left(tables: Tables, step: StepSpec, since: int | None) -> int | None:
    """From which window start on all records are there, and will be while a plan is carried out."""
    goes = asked(tables).begin_of(step)
    return since if goes <= (BEGINNING if since is None else since) else goes


def within(rows: pa.Table, since: int | None, until: int | None) -> pa.Table:
    """Rows whose window starts in [since, until)."""
    if since is not None:
        rows = rows.filter(pc.greater_equal(rows["window_start"], _instant(since)))
    if until is not None:
        rows = rows.filter(pc.less(rows["window_start"], _instant(until)))
    return rows


def spans_of(starts: npt.NDArray[np.int64], size: int) -> list[tuple[int, int]]:
    """The event times of some windows as few spans [since, until), us; ascending."""
    starts = np.unique(starts)
    return few(starts, starts + size)


def few(since: npt.NDArray[np.int64], until: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """What some spans [since, until) hold, us, in any order, as few spans; ascending.

    Where there are more than ``MOST_SPANS``, those with the smallest gaps become one, and where
    they hold most of what lies between them, all do: reading a gap is cheaper than asking every
    row about many spans (32 of them: 19.6 s where the whole log takes 7.0).
    """
    if not len(since):
        return []
    order = np.argsort(since, kind="stable")
    since, until = since[order], np.maximum.accumulate(until[order])
    gaps = since[1:] - until[:-1]
    wide = np.flatnonzero(gaps > 0)
    if len(wide) >= MOST_SPANS:
        wide = np.sort(wide[np.argsort(gaps[wide], kind="stable")[1 - MOST_SPANS :]])
    last = len(since) - 1
    since, until = since[[0, *(wide + 1)]], until[[*wide, last]]
    if 2 * int((until - since).sum()) > int(until[-1] - since[0]):
        since, until = since[:1], until[-1:]
    return [(int(a), int(b)) for a, b in zip(since, until, strict=True)]


def _instant(us: int) -> pa.Scalar:
    return pa.scalar(us, pa.int64()).cast(INSTANT)


def repaired_through(tables: Tables, step: StepSpec) -> int:
    """The position up to which scheduled corrections have taken every late record; -1: none."""
    return _repaired(tables, step)[0]


def _repaired(
    tables: Tables, step: StepSpec, among: Collection[int] | None = None
) -> tuple[int, int]:
    planned, done = plans(tables, step)
    done = done if among is None else done.intersection(among)
    full = [p for p in planned if p.reason == LATE and not p.restricted and p.number in done]
    return _reached(full)


def pending_count(tables: Tables, step: StepSpec, at: Position | None = None) -> int:
    """How many there are of ``pending``; by default at the newest position."""
    at = at or position(tables, step)
    return 0 if at is None else pending(tables, step, at).num_rows


def pending(tables: Tables, step: StepSpec, at: Position) -> pa.Table:
    """Windows and keys that late records touched and no scheduled correction has repaired.

    Args:
        tables: of the pipeline.
        step: of the pipeline.
        at: up to which position; of its corrections are known.
    """
    after, settled = _repaired(tables, step, at.done)
    plan = CorrectionPlan(
        at.epoch.number, 0, LATE, after, at.sealed.seq, at.sealed.state.watermark, None, None,
        recheck=False, settled=settled,
    )  # fmt: skip
    return touched(tables, step, plan, at)
