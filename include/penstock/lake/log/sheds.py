"""What each step sheds, from which position on: decided like a slack (``lake.log.proposed``)."""

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.shedding import Shed
from penstock.core.step import StepSpec
from penstock.core.window import FOREVER
from penstock.lake.log.blocks import SHED, decisions_of
from penstock.lake.log.proposed import held, values
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import Spans, read_table
from penstock.lake.storage.tables import Tables

REVISIONS = f"{SHED} revisions of answers"
"""Whose decisions say which records of an answer log are revisions; no step has such a name."""


def owner(step: str) -> str:
    """Whose decisions those about a step's shedding are."""
    return f"{SHED} {step}"


def sheds_of(decisions: Table, step: StepSpec, after: int) -> tuple[Shed, ...]:
    """All that was decided for a step, in order; records up to ``after`` are its history.

    A revision of an answer is shed as a whole: what is timely speaks for what was timely before it.

    Args:
        decisions: the table.
        step: the step.
        after: position before the step's epoch: of what came before it none is shed.
    """
    if not step.withholds:
        return ()
    whose = owner(step.id) if step.above is None else REVISIONS
    rows = [row for row in decisions_of(decisions, whose) if row["what"] == SHED]
    found = [(max(seq, after + 1), int(ratio)) for ratio, seq in (held(r["value"]) for r in rows)]
    return tuple(dict(found).items())


def ever_shed(decisions: Table, step: StepSpec, after: int = -1) -> tuple[Shed, ...]:
    """As ``sheds_of``; nothing, too, where every ratio is 0: no record ever was shed."""
    sheds = sheds_of(decisions, step, after)
    return sheds if any(ratio for _, ratio in sheds) else ()


def shed_windows(tables: Tables, step: StepSpec, since: int) -> pa.ChunkedArray:
    """Starts of the windows with shed records that start at an instant, us, or later."""
    late, name = tables.late(step, []), "window_start"
    if not ever_shed(Table(tables.decisions()), step):
        return late.schema.empty_table()[name]
    near = Spans(name, ((since, FOREVER),))
    return read_table(Table(late), [name], pc.field("reason") == SHED, near)[name]


def in_force_after(decisions: Table, step: StepSpec, seq: int) -> int:
    """The ratio in force for the record after a position, per cent."""
    found = [ratio for first, ratio in sheds_of(decisions, step, -1) if first <= seq + 1]
    return found[-1] if found else 0


def in_force(decisions: Table, step: str) -> int:
    """The ratio that was last decided, or asked for since, per cent."""
    found = values(decisions_of(decisions, owner(step)))
    return int(found[-1]) if found else 0
