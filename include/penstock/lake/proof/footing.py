"""What an audit goes on from: counts, watermark and controller that the last green one found.

Nothing in it is the speed layer's word. It stands in the audit's own row of ``audits``; whatever
contradicts it (another epoch, other decisions, a position that is not sealed any more) makes it
worthless, and everything is audited. See docs/decisions/0026-audits-go-on.md.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING, instant, micros
from penstock.lake.history.generation import Generation
from penstock.lake.history.position import BACKFILL, DONE, PLANNED, Position, rows_of
from penstock.lake.log.blocks import SHED, decisions_of, slack_changes
from penstock.lake.log.sheds import owner
from penstock.lake.proof.audits import FAILED, PASSED
from penstock.lake.proof.waypoint import Waypoint
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

FORM = 1
"""Of a footing: one of another form is none. Raise it when an audit's counts mean other things."""
TOTALS = ("received", "accepted", "quarantined", "readings_unclear", "pairs_events",
          "pairs_on_time", "pairs_late", "pairs_shed", "pairs_preloaded")  # fmt: skip
"""Columns of the comparisons that an audit adds to those of its footing."""


@dataclass(frozen=True, slots=True)
class Footing:
    """What a green audit of one step found.

    Attributes:
        epoch: the epoch as it was registered.
        decisions: digest of the slacks that were in force.
        head: where it ended.
        start: the watermark at which the epoch began, us.
        totals: by name, over everything up to the head.
        settled: late rows up to here were taken by a finished correction of all windows.
        plan: greatest number of a correction plan.
        unfinished: numbers of those that were not done.
        old: where the next stretch of older ground begins; none: with the log.
        began: when the round through the older ground began, us; none: the next audit begins it.
        since: since when everything has been covered, us.
        run_id, audited_at: of the audit, us; known once it is read.
        settled_us: the watermark of the last of those corrections, us.
    """

    epoch: list[Any]
    decisions: str
    head: Waypoint
    start: int
    totals: dict[str, int]
    settled: int
    plan: int
    unfinished: list[int]
    old: Waypoint | None
    began: int | None
    since: int
    run_id: str = ""
    audited_at: int = 0
    settled_us: int = BEGINNING

    def to_text(self) -> str:
        """For the table ``audits``."""
        return json.dumps({"form": FORM} | asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Read back; none: another version wrote it."""
        content = json.loads(text)
        if content.pop("form", None) != FORM:
            return None
        for name in ("head", "old"):
            if (at := content[name]) is not None:
                content[name] = Waypoint.of(at)
        return cls(**content)

    @property
    def unseen(self) -> pc.Expression:
        """True for rows of ``corrections`` that the audit had not seen, or not done."""
        plan = pc.field("plan")
        return (plan > self.plan) | plan.isin(pa.array(self.unfinished, pa.int64()))

    def is_new(self, plan: dict[str, Any]) -> bool:
        """Whether the audit had not seen a row of ``corrections``."""
        return bool(plan["plan"] > self.plan or plan["plan"] in self.unfinished)


def read_footing(tables: Tables, step: StepSpec) -> Footing | None:
    """Of the newest audit of a step that passed; none: there is none, or it is not to be used.

    An audit of everything that failed since found what a smaller one may not look at again.
    """
    table = Table(tables.audits())
    names = ["audited_at", "state", "everything", "step"]
    mine = pc.field("step") == step.id
    rows = read_table(table, names, mine).sort_by("audited_at").to_pylist()
    for row in reversed(rows):
        if row["state"] == FAILED and row["everything"]:
            return None
        if row["state"] == PASSED:
            return _at(table, mine, micros(row["audited_at"]))
    return None


def _at(table: Table, mine: pc.Expression, us: int) -> Footing | None:
    within = Spans("audited_at", ((us, us),))
    mine = mine & (pc.field("state") == PASSED)
    rows = read_table(table, ["run_id", "footing"], mine, within).to_pylist()
    found = None if rows[-1]["footing"] is None else Footing.from_text(rows[-1]["footing"])
    return found and replace(found, run_id=rows[-1]["run_id"], audited_at=us)


def contradicted(
    footing: Footing, tables: Tables, step: StepSpec, at: Position, plans: list[dict[str, Any]]
) -> str:
    """Why a footing does not carry an audit at a position; empty: it does.

    Args:
        footing: of the step.
        tables: of the pipeline.
        step: the step.
        at: the position.
        plans: rows of ``corrections`` since.
    """
    head = footing.head
    if footing.epoch != epoch_of(at.epoch):
        return "the step began anew"
    if footing.decisions != decisions_digest(tables, step, head.block):
        return "its slack or shedding was decided otherwise"
    if any(r["reason"] == BACKFILL and footing.is_new(r) for r in plans):
        return "its history was answered since"
    known = [(at.epoch.block, at.epoch.seq)]
    within = Spans("through_seq", ((head.seq, head.seq),))
    known += [(s.block, s.seq) for s in rows_of(tables, step, at, within)]
    if (head.block, head.seq) not in known:
        return "its position is not sealed any more"
    return ""


def epoch_of(epoch: Generation) -> list[Any]:
    """An epoch as it is registered, for a footing."""
    return [epoch.number, epoch.fingerprint, epoch.block, epoch.seq, *asdict(epoch.state).values(),
            epoch.slack.to_text(), epoch.controller, epoch.live]  # fmt: skip


def decisions_digest(tables: Tables, step: StepSpec, before: int) -> str:
    """Of what was decided of a step's slack and shedding, in force before a block."""
    changes = [c for c in slack_changes(tables, step.id) if c.block < before]
    shed = decisions_of(Table(tables.decisions()), owner(step.id)) if step.sheds else []
    said = [(row["block"], row["value"]) for row in shed if row["what"] == SHED]
    text = json.dumps([
        *((c.block, c.spec.to_text()) for c in changes),
        *(each for each in said if each[0] < before),
    ])  # fmt: skip
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def unfinished(plans: list[dict[str, Any]], former: Footing | None) -> tuple[int, list[int]]:
    """The greatest number of a plan, and those that are not done."""
    before = former.unfinished if former else []
    planned = {r["plan"] for r in plans if r["state"] == PLANNED} | {*before}
    done = {r["plan"] for r in plans if r["state"] == DONE}
    greatest = max([former.plan if former else 0, *(r["plan"] for r in plans)])
    return greatest, sorted(planned - done)


def said(row: dict[str, Any], footing: Footing | None, since: int, frozen: int = 0) -> str:
    """What an audit of a step covered, for people.

    Args:
        row: its comparisons.
        footing: what it went on from; none: it covered everything.
        since: since when everything has been covered, us.
        frozen: records of the log that were frozen before.
    """
    name, received = row["step"], row["through_seq"] + 1
    if footing is None and frozen:
        return (
            f"{name}: everything that is kept was covered, {received - frozen:,} records. Before"
            f" them {frozen:,} are frozen."
        )
    if footing is None:
        return f"{name}: everything was covered, {received:,} records."
    share = row["records_again"] / max(footing.head.seq + 1, 1)
    return (
        f"{name}: {row['records_new']:,} records since number {footing.head.seq:,} were covered,"
        f" where the audit {footing.run_id} ({instant(footing.audited_at):%F %T} UTC) had ended,"
        f" the windows that closed or changed since, and of older ones {row['records_again']:,}"
        f" records again ({share:.1%}). Everything has been covered since"
        f" {instant(since):%F %T} UTC."
    )
