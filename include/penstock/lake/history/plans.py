"""Plans of corrections as they were frozen: which positions, which windows, and which are done."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.lake.history.generation import Generation, current, generations
from penstock.lake.history.position import BACKFILL, DONE, LATE, PLANNED
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class CorrectionPlan:
    """One frozen plan.

    Attributes:
        epoch: the definition's first generation.
        number: of the plan, rising for a step.
        reason: late, or backfill for the history before the epoch.
        after_seq: late rows up to here are in earlier plans; of a history, its records up to
            here were answered by its base.
        through_seq: the plan speaks for the log up to here.
        watermark: windows that end after it are left alone, us.
        since, until: only windows that start in [since, until), us; none: all.
        recheck: also windows no late record touched, where the answer differs.
        base: of a history: the finished plan whose answers hold on; none: it answers all.
        answered: windows that end up to here are answered by the base, us.
        settled: watermark of the plans up to ``after_seq``: of windows that were still open then,
            shed records wait, us.
    """

    epoch: int
    number: int
    reason: str
    after_seq: int
    through_seq: int
    watermark: int
    since: int | None
    until: int | None
    recheck: bool
    base: int | None = None
    answered: int = BEGINNING
    settled: int = BEGINNING

    def application(self, chunks: Sequence[tuple[int, int]]) -> str:
        """Who commits the plan's answers, chunk by chunk.

        Another release may cut a plan otherwise that is half done: its chunks are others, and the
        numbers of those that were committed say nothing about them.
        """
        cut = hashlib.sha256(" ".join(f"{a}:{b}" for a, b in chunks).encode()).hexdigest()
        return f"correct:{self.epoch}:{self.number}:{cut[:16]}"

    @property
    def by_touch(self) -> bool:
        """Whether it means what late records touched."""
        return self.reason == LATE and not self.recheck

    @property
    def restricted(self) -> bool:
        """Whether it takes only a range of windows."""
        return self.since is not None or self.until is not None


def plans(tables: Tables, step: StepSpec) -> tuple[list[CorrectionPlan], set[int]]:
    """All plans of a definition's epoch, in order, and the numbers of those that are done."""
    found = current(tables, step)
    if found is None:
        return [], set()
    rows = rows_in(tables, step, PLANNED)
    ends = {r["plan"]: r["watermark_us"] for r in rows}
    epoch = found[0].number
    settled = _settled(rows, epoch)
    done = {r["plan"] for r in rows_in(tables, step, DONE) if r["epoch"] == epoch}
    return [
        CorrectionPlan(
            r["epoch"],
            r["plan"],
            r["reason"],
            r["after_seq"],
            r["through_seq"],
            r["watermark_us"],
            r["window_from_us"],
            r["window_to_us"],
            r["recheck"],
            r["base"],
            ends.get(r["base"], BEGINNING),
            settled[r["plan"]],
        )
        for r in rows
        if r["epoch"] == epoch
    ], done


def _settled(rows: Sequence[dict[str, Any]], epoch: int) -> dict[int, int]:
    """By plan of an epoch, the watermark of the plans of all windows that it goes on from, us."""
    found, newest = dict[int, int](), BEGINNING
    for row in rows:
        found[row["plan"]] = newest
        whole = row["window_from_us"] is None and row["window_to_us"] is None
        if whole and row["reason"] == LATE and row["epoch"] == epoch:
            newest = max(newest, row["watermark_us"])
    return found


def unfinished_plans(tables: Tables, step: StepSpec) -> list[CorrectionPlan]:
    """Plans that are not done, in order."""
    planned, done = plans(tables, step)
    return [plan for plan in planned if plan.number not in done]


def rows_in(tables: Tables, step: StepSpec, state: str) -> list[dict[str, Any]]:
    """The rows of a step in ``corrections`` of one state."""
    mine = (pc.field("step") == step.id) & (pc.field("state") == state)
    rows = read_table(Table(tables.corrections()), where=mine)
    return [*rows.sort_by("plan").to_pylist()]


def history_before(tables: Tables, step: StepSpec, epoch: Generation) -> dict[str, Any] | None:
    """The plan whose answers hold on in an epoch; none: there is none.

    A finished history of the same definition is right for every window that had closed then and
    that no later record touched, whatever came between, unless the epoch's watermark stands lower,
    or the step was removed since: its answers went then, what was planned and done stays here.
    """
    removed = max((g.number for g in generations(tables, step) if not g.fingerprint), default=-1)
    done = {r["plan"] for r in rows_in(tables, step, DONE)}
    fits = [
        r for r in rows_in(tables, step, PLANNED)
        if r["reason"] == BACKFILL and r["plan"] in done and r["fingerprint"] == step.fingerprint
        and r["through_seq"] <= epoch.seq and r["watermark_us"] <= epoch.state.watermark
        and r["epoch"] > removed
    ]  # fmt: skip
    return max(fits, key=lambda r: (r["through_seq"], r["watermark_us"], r["plan"]), default=None)
