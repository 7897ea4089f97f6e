"""What ``penstock show`` tells of a step: where it stands, and its answers with their revisions."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.slack import WatermarkState
from penstock.core.step import StepSpec
from penstock.lake.history.balance import Balance, balance_at, by_stream
from penstock.lake.history.correction import pending_count
from penstock.lake.history.generation import generations
from penstock.lake.history.position import DONE, position
from penstock.lake.history.view import excluded_at
from penstock.lake.log.blocks import newest_seq
from penstock.lake.log.sheds import in_force_after
from penstock.lake.serve.effort import efficiency, recent
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.lake.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class StepState:
    """Where a step stands.

    Attributes:
        sealed_seq: the step speaks for the log up to here.
        received: records the door has numbered by now.
        fold: watermark, newest event time, K.
        pending: windows and keys that wait for a correction.
        owes: whether the windows from before its start still wait for their first answers.
        corrected: the last finished correction of late records, else that of the history, as its
            row of ``corrections``; none: none yet.
        balance: where every record and pair has gone.
        streams: records accepted and refused up to there, by stream; empty: there is only one.
        excluded: records that are left out, and why, in the order of ``arrival_seq``.
        compared: of the last million records the candidates that were looked at, and the pairs that
            were told; none: it looks for no partners.
        shed: what is shed after the last record, per cent.
    """

    sealed_seq: int
    received: int
    fold: WatermarkState
    pending: int
    owes: bool
    corrected: dict[str, Any] | None
    balance: Balance
    streams: dict[str, tuple[int, int]]
    excluded: pa.Table
    compared: tuple[int, int] | None = None
    shed: int = 0

    @property
    def ended(self) -> bool:
        """Whether the source has ended: every window is closed."""
        return self.fold.ended


def received(tables: Tables) -> int:
    """Records the door has sealed by now."""
    return newest_seq(tables) + 1


def state(tables: Tables, step: StepSpec) -> StepState | None:
    """Where a step stands; none: it has sealed nothing yet."""
    at = position(tables, step)
    if at is None:
        return None
    rows = read_table(Table(tables.corrections()))
    rows = rows.filter(
        (pc.field("step") == step.id)
        & (pc.field("epoch") == at.epoch.number)
        & (pc.field("state") == DONE)
    ).sort_by([("reason", "ascending"), ("recorded_at", "ascending")])  # backfill before late
    last = rows.slice(rows.num_rows - 1).to_pylist() if rows.num_rows else []
    return StepState(
        sealed_seq=at.sealed.seq,
        received=received(tables),
        fold=at.sealed.state,
        pending=pending_count(tables, step, at),
        owes=at.owes,
        corrected=last[0] if last else None,
        balance=balance_at(tables, step, at),
        streams=by_stream(tables, at.sealed.seq) if step.streams else {},
        excluded=excluded_at(tables, step, at),
        compared=efficiency(recent(tables, step, at)) if step.by_reach else None,
        shed=in_force_after(Table(tables.decisions()), step, at.sealed.seq),
    )


def why_nothing(tables: Tables, step: StepSpec) -> str:
    """Why a step has no answers to show: ``empty``, ``not started``, ``changed`` or ``soon``."""
    found = generations(tables, step)
    if not found:
        return "not started" if received(tables) else "empty"
    return "soon" if found[-1].fingerprint == step.fingerprint else "changed"


def last_audit(tables: Tables, step: StepSpec) -> dict[str, Any] | None:
    """The newest audit of a step, as its row of ``audits``."""
    rows = read_table(Table(tables.audits())).filter(pc.field("step") == step.id)
    found = rows.sort_by("audited_at").to_pylist()
    return found[-1] if found else None
