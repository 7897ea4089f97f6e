"""Whether readers can switch to a version: what it owes of the past, and what audits found."""

import pyarrow.compute as pc

from penstock.config.pipeline import Pipeline
from penstock.core.step import StepSpec
from penstock.lake.history.generation import current
from penstock.lake.history.position import position, start_of
from penstock.lake.history.standing import answers_in_force
from penstock.lake.log.blocks import newest_seq
from penstock.lake.proof.audits import FAILED, NOTHING
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables


def unready(tables: Tables, version: Pipeline, in_force: Pipeline) -> list[str]:
    """Why readers cannot switch to a version yet, by step; empty: they can.

    Args:
        tables: of the log.
        version: it knows its runs.
        in_force: so does this; what they share needs no proof.
    """
    shared = {step.id for step in in_force.specs}
    owed = {step.name: _owes(tables, step) for step in version.specs if step.id not in shared}
    return [f"{name} {why}" for name, why in owed.items() if why]


def _owes(tables: Tables, step: StepSpec) -> str:
    found = current(tables, step)
    if found is None:
        return "has not begun"
    if newest_seq(tables) < 0:  # nor has anything else
        return ""
    at = position(tables, step) or start_of(tables, step)
    if at is None or at.owes:
        return "has not answered its past yet"
    since = (pc.field("step") == step.id) & (pc.field("audited_at") >= found[0].started)
    rows = read_table(Table(tables.audits()), ["audited_at", "state"], since).sort_by("audited_at")
    state = rows["state"][-1].as_py() if rows.num_rows else None
    if state == FAILED:
        return "was found wrong by its newest audit"
    if state is None or (state == NOTHING and answers_in_force(tables, step).num_rows):
        return "has not been audited yet"
    return ""
