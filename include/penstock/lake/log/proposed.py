"""How what comes from outside the log takes effect in it: proposed, adopted, then in force.

A correction proposes. The door adopts: it names the proposal in its next plan and writes the
decision before it seals the plan's first block, from which the decision holds. Nobody can have
folded a block that is not sealed, and whoever finishes a plan writes the same decision first: so
the fold stays a function of the log and of decisions that stood before they took effect.
"""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.clock import Clock
from penstock.core.shedding import WHOLE
from penstock.core.slack import SlackSpec
from penstock.core.step import StepSpec
from penstock.lake.log.blocks import SHED, SIDE, SLACK, decisions_of
from penstock.lake.storage.commit import Table, settle
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables

PROPOSAL = "proposal"
ADOPTED = "plan"
DECLARED = "pipeline file"
REVISED = "revised by a correction"
FIRST, CHANGED = "first", "changed"
"""Why the content of a side table is another one."""
LOAD = "load"
OWNED = {LOAD: SIDE, SHED: SHED}
"""What is decided of an owner, by its first word."""


def _decided(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found = [row for row in rows if row["what"] in {SLACK, SIDE, SHED}]
    return sorted(found, key=lambda row: bool(row["reason"] != FIRST))


def _open(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Proposals after which nothing was decided."""
    count = len(_decided(rows))
    return [row for row in rows if row["what"] == PROPOSAL and row["decided_before"] == count]


def declared(rows: Sequence[dict[str, Any]]) -> SlackSpec | None:
    """The slack that the pipeline file last asked for; none: it never did."""
    found = [r["value"] for r in _decided(rows) if r["reason"] == DECLARED]
    return SlackSpec.from_text(found[-1]) if found else None


def values(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What was decided, and what was proposed since."""
    found = _decided(rows)
    decided = [r["value"] if r["what"] == SLACK else held(r["value"])[0] for r in found]
    return [*decided, *(row["value"] for row in _open(rows))]


def in_force(rows: Sequence[dict[str, Any]]) -> SlackSpec | None:
    """The last slack that was decided or proposed since."""
    found = values(rows)
    return SlackSpec.from_text(found[-1]) if found else None


def propose(tables: Tables, step: StepSpec, spec: SlackSpec, reason: str, clock: Clock) -> None:
    """Ask for another slack of the same policy."""
    table = Table(tables.decisions())
    settle(tables.coverage(step))
    _propose(table, step.id, spec.to_text(), reason, clock.now())


def shed(tables: Tables, owner: str, ratio: int, reason: str, clock: Clock) -> None:
    """Ask for another ratio of shedding, per cent."""
    table = Table(tables.decisions())
    _propose(table, owner, str(ratio), reason, clock.now())


def offer(tables: Tables, owner: str, version: str, clock: Clock) -> None:
    """Ask for a content of a side table, unless it was the last that was decided or asked for.

    The first one holds at once, for all of the log.
    """
    table = Table(tables.decisions())
    while values(rows := decisions_of(table, owner))[-1:] != [version]:
        if _decided(rows):
            _propose(table, owner, version, CHANGED, clock.now())
        else:  # whoever is first
            row = _row(owner, 0, SIDE, held_from(version, 0), FIRST, clock.now())
            table.append(_rows(table, row), f"{FIRST}:{owner}", 0)


def note(tables: Tables, owner: str, what: str, value: str, clock: Clock) -> bool:
    """Write down something that decides nothing, unless it was the last such thing.

    Args:
        tables: of the pipeline.
        owner: of what it speaks.
        what: kind of note.
        value: the note; empty: what was noted last is so no more.
        clock: tells when.

    Returns:
        Whether this call did.
    """
    table = Table(tables.decisions())
    rows = decisions_of(table, owner)
    former = [r["value"] for r in rows if r["what"] == what]
    if (former[-1:] or [""]) == [value]:
        return False
    row = _row(owner, None, what, value, "", _after(rows, clock.now()))
    return table.append(_rows(table, row), f"note:{owner}", len(former))


def revise(
    table: Table, owner: str, plan: int, span: tuple[int, int], block: int, at: datetime
) -> None:
    """Write down that a plan brings revisions: all of them are shed. Twice is once.

    Args:
        table: of decisions.
        owner: of such decisions.
        plan: its number.
        span: its first position, and the first one after it.
        block: its first one; others may follow.
        at: when it was planned; plans follow each other at one instant where a clock stepped back.
    """
    said = decisions_of(table, owner)
    for n, (ratio, seq) in enumerate(zip((WHOLE, 0), span, strict=True)):
        row = _row(owner, block + n, SHED, held_from(str(ratio), seq), REVISED, _after(said, at))
        said.append(row)
        table.append(_rows(table, row), f"{ADOPTED}:{owner}", 2 * plan + n)


def _propose(table: Table, owner: str, value: str, reason: str, at: datetime) -> None:
    rows = decisions_of(table, owner)
    row = _row(owner, None, PROPOSAL, value, reason, _after(rows, at))
    row["decided_before"] = len(_decided(rows))
    number = sum(r["what"] == PROPOSAL for r in rows)
    table.append(_rows(table, row), f"{PROPOSAL}:{owner}", number)


def _after(rows: Sequence[dict[str, Any]], at: datetime) -> datetime:
    """An instant after all that was said: a clock may step back, and the last word counts."""
    newest = max((row["decided_at"] for row in rows), default=at)
    return at if at > newest or not rows else newest + timedelta(microseconds=1)


def held_from(version: str, seq: int) -> str:
    """What a decision says of a content: which, and the position from which on it holds."""
    return f"{version}@{seq}"


def held(value: str) -> tuple[str, int]:
    """What ``held_from`` was given."""
    version, _, seq = value.rpartition("@")
    return version, int(seq)


def owners(table: Table) -> list[str]:
    """For whom there ever was a proposal: steps, and what else decisions are about."""
    rows = read_table(table, ["step"], pc.field("what") == PROPOSAL)
    return sorted(set(rows["step"].to_pylist()))


def waiting(table: Table) -> str | None:
    """What a plan is to adopt, as text: by owner the last proposal, if nothing was decided since.

    Args:
        table: of decisions.
    """
    found = {}
    for owner in owners(table):
        rows = _open(decisions_of(table, owner))
        if rows:
            found[owner] = [rows[-1]["value"], rows[-1]["reason"]]
    return json.dumps(found) if found else None


def adopt(table: Table, text: str, plan: int, begins: tuple[int, int], at: datetime) -> None:
    """Write down what a plan adopts; it holds from the plan's first block. Twice is once.

    Args:
        table: of decisions.
        text: what ``waiting`` gave the plan.
        plan: its number.
        begins: its first block, and its first position.
        at: when it was planned: what the pipeline file has asked for since stays in force.
    """
    block, seq = begins
    for owner, (value, reason) in json.loads(text).items():
        what = _about(owner)
        said = value if what == SLACK else held_from(value, seq)
        row = _row(owner, block, what, said, reason, at)
        table.append(_rows(table, row), f"{ADOPTED}:{owner}", plan)


def _about(owner: str) -> str:
    """What is decided of an owner: of a step, whose name is one word, its slack."""
    word, _, name = owner.partition(" ")
    return OWNED[word] if name else SLACK


def _row(
    step: str, block: int | None, what: str, value: str, reason: str, at: datetime
) -> dict[str, Any]:
    return {"step": step, "block": block, "what": what, "value": value, "reason": reason,
            "decided_at": at}  # fmt: skip


def _rows(table: Table, row: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([row], schema=table.spec.schema)
