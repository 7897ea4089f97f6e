"""How what was measured outside reaches a controller of slack: proposed, adopted, then in force.

A correction proposes. The door adopts: it names the proposal in its next plan and writes the
decision before it seals the plan's first block, from which the decision holds. Nobody can have
folded a block that is not sealed, and whoever finishes a plan writes the same decision first: so
the fold stays a function of the log and of decisions that stood before they took effect.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from penstock.core.clock import Clock
from penstock.core.slack import SlackSpec
from penstock.core.step import StepSpec
from penstock.lake.log.blocks import SLACK, decisions_of
from penstock.lake.storage.commit import Table, settle
from penstock.lake.storage.tables import Tables

PROPOSAL = "proposal"
ADOPTED = "plan"
DECLARED = "pipeline file"


def _decided(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["what"] == SLACK]


def _open(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Proposals after which nothing was decided."""
    count = len(_decided(rows))
    return [row for row in rows if row["what"] == PROPOSAL and row["decided_before"] == count]


def declared(rows: Sequence[dict[str, Any]]) -> SlackSpec | None:
    """The slack that the pipeline file last asked for; none: it never did."""
    found = [r["value"] for r in _decided(rows) if r["reason"] == DECLARED]
    return SlackSpec.from_text(found[-1]) if found else None


def in_force(rows: Sequence[dict[str, Any]]) -> SlackSpec | None:
    """The last slack that was decided or proposed since."""
    found = [row["value"] for row in (*_decided(rows), *_open(rows))]
    return SlackSpec.from_text(found[-1]) if found else None


def propose(tables: Tables, step: StepSpec, spec: SlackSpec, reason: str, clock: Clock) -> None:
    """Ask for another slack of the same policy."""
    table = Table(tables.decisions())
    rows = decisions_of(table, step.name)
    row = _row(step.name, None, PROPOSAL, spec.to_text(), reason, clock.now())
    row["decided_before"] = len(_decided(rows))
    number = sum(r["what"] == PROPOSAL for r in rows)
    settle(tables.coverage(step))
    table.append(_rows(table, row), f"{PROPOSAL}:{step.name}", number)


def waiting(table: Table, steps: Sequence[StepSpec]) -> str | None:
    """What a plan is to adopt, as text: by step the last proposal, if nothing was decided since."""
    found = {}
    for step in steps:
        rows = _open(decisions_of(table, step.name))
        if rows:
            found[step.name] = [rows[-1]["value"], rows[-1]["reason"]]
    return json.dumps(found) if found else None


def adopt(table: Table, text: str, plan: int, block: int, at: datetime) -> None:
    """Write down what a plan adopts; it holds from the plan's first block. Twice is once.

    Args:
        table: of decisions.
        text: what ``waiting`` gave the plan.
        plan: its number.
        block: its first one.
        at: when it was planned: what the pipeline file has asked for since stays in force.
    """
    for step, (value, reason) in json.loads(text).items():
        row = _row(step, block, SLACK, value, reason, at)
        table.append(_rows(table, row), f"{ADOPTED}:{step}", plan)


def _row(
    step: str, block: int | None, what: str, value: str, reason: str, at: datetime
) -> dict[str, Any]:
    return {"step": step, "block": block, "what": what, "value": value, "reason": reason,
            "decided_at": at}  # fmt: skip


def _rows(table: Table, row: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([row], schema=table.spec.schema)
