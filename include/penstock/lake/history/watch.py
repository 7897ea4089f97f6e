"""Watching for late records that want their correction soon; asks, and names no records."""

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.clock import Clock
from penstock.core.step import StepSpec
from penstock.core.urgency import Bell, Urgency, Waiting
from penstock.core.window import micros
from penstock.lake.history.correction import pending_count, repaired_through
from penstock.lake.history.position import position, sealed_only
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

NAMES = ["generation", "micro_batch", "through_seq", "records", "late_from_us", "late_to_us",
         "pairs_late", "pairs_shed"]  # fmt: skip


def waiting(tables: Tables, step: StepSpec) -> tuple[int, Waiting | None]:
    """The position up to which all late records are repaired, and what waits beyond it."""
    at, after = position(tables, step), repaired_through(tables, step)
    if at is None or at.sealed.seq <= after:
        return after, None
    new = Spans("through_seq", ((after + 1, at.sealed.seq),))
    found = sealed_only(read_table(Table(tables.control(step)), NAMES, within=new), at)
    late = found.filter(pc.field("late_from_us").is_valid()).sort_by("through_seq")
    if not late.num_rows or _only_open(tables, step, late):
        return after, None
    first, records = late["through_seq"][0].as_py(), late["records"][0].as_py()
    taken = Spans("last_seq", ((first - records + 1, first),))
    blocks = read_table(Table(tables.blocks()), ["arrived_at"], within=taken)
    since = micros(pc.min(blocks["arrived_at"]).as_py())
    low, high = pc.min(late["late_from_us"]).as_py(), pc.max(late["late_to_us"]).as_py()
    return after, Waiting(since, low, high)


def _only_open(tables: Tables, step: StepSpec, late: pa.Table) -> bool:
    """Whether all that missed a window was shed of one that is still open."""
    missed, shed = (pc.sum(late[name]).as_py() or 0 for name in ("pairs_late", "pairs_shed"))
    return bool(missed == shed) and not pending_count(tables, step)


class Watch:
    """Looks at the steps of one pipeline; reads only what changed since the last look."""

    def __init__(
        self, tables: Tables, steps: tuple[StepSpec, ...], urgency: Urgency, clock: Clock
    ) -> None:
        self.tables, self.steps, self.urgency, self.clock = tables, steps, urgency, clock
        self.bell = Bell(max(urgency.within // 3, 60_000_000))
        self._versions: dict[str, tuple[int, int]] = {}
        self._known: dict[str, tuple[int, Waiting | None]] = {}
        self._opened = {
            step.id: (Table(tables.control(step)), Table(tables.corrections())) for step in steps
        }

    def look(self) -> dict[str, str] | None:
        """By step, why a correction is asked for; none: nothing is, or it was asked before."""
        now, due, why = micros(self.clock.now()), dict[str, int](), dict[str, str]()
        for step in self.steps:
            after, found = self._waiting(step)
            reason = None if found is None else self.urgency.reason(found, now)
            if reason is not None:
                due[step.id], why[step.id] = after, reason
        return why if self.bell.rings(due, now) else None

    def _waiting(self, step: StepSpec) -> tuple[int, Waiting | None]:
        tables = self._opened[step.id]
        if not tables[0].exists():
            return -1, None
        control, corrections = (t.refresh().version() if t.exists() else -1 for t in tables)
        if self._versions.get(step.id) != (control, corrections):
            self._known[step.id] = waiting(self.tables, step)
            self._versions[step.id] = control, corrections
        return self._known[step.id]
