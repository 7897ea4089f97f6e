"""Records on which user code fails: each is found, and left out alone.

Which are left out hangs on each record alone, and on what stands beside it as of its position: it
is a function of the log, wherever that is cut. Source: the isolation of poison messages.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.groups import group
from penstock.kinds.custom.calls import Calls, RecordError, UserCodeError
from penstock.kinds.custom.scan import reduced
from penstock.kinds.custom.spec import WHICH
from penstock.kinds.frame import EXCLUDED

MANY, TRIED = 1_000, 100
"""Of more records at once so many are tried first, each alone: where it fails on all of them it is
the code that is wrong, and no record."""
SAID = 1_000
"""Characters of a reason."""


class Lifted(NamedTuple):
    """Rows of ``map``, one a record and key, and their states."""

    rows: pa.Table
    states: pa.Table


def lifted(calls: Calls, records: pa.Table) -> Lifted:
    """What the code makes of records, each alone.

    Raises:
        UserCodeError: it fails.
    """
    mapped = calls.map(records)
    states = calls.lift(mapped)
    seqs = np.asarray(mapped[WHICH.name])
    keys = [*(mapped[key] for key in calls.step.key_names), seqs]
    ids, first = group(keys, mapped.num_rows)
    if len(first) < mapped.num_rows:  # a record is one record, however many rows it has
        order = np.argsort(ids, kind="stable")
        states = reduced(calls.merge, states.take(pa.array(order)), ids[order])
        mapped = mapped.take(pa.array(first))
    return Lifted(mapped, states)


def without_poison(calls: Calls, records: pa.Table) -> tuple[pa.Table, Lifted | None, pa.Table]:
    """Records without those on which the code fails.

    Returns:
        They, what the code makes of them (none: none is left), and the others as ``EXCLUDED``.

    Raises:
        UserCodeError: the code is wrong, whatever the record.
    """
    try:
        return records, lifted(calls, records), EXCLUDED.empty_table()
    except RecordError as failed:
        reasons: dict[int, str] = {}
        _require_some(calls, records)
        _search(calls, records, reasons)
        if not reasons:
            said = "Rows must be dealt with alone; records fail together that do not one by one"
            raise UserCodeError(f"{failed}. {said}") from failed
    alone = pc.is_in(records[WHICH.name], pa.array([*reasons], pa.int64()))
    rest = records.filter(pc.invert(alone))
    excluded = pa.Table.from_pylist(
        [{WHICH.name: seq, "reason": said} for seq, said in reasons.items()], schema=EXCLUDED
    )
    return rest, lifted(calls, rest) if rest.num_rows else None, excluded


def _fails(calls: Calls, records: pa.Table) -> RecordError | None:
    try:
        lifted(calls, records)
    except RecordError as failed:
        return failed
    return None


def _require_some(calls: Calls, records: pa.Table) -> None:
    """Of many records the code must take some."""
    if records.num_rows <= MANY:
        return
    for at in np.linspace(0, records.num_rows - 1, TRIED).astype(int).tolist():
        if (failed := _fails(calls, records.slice(at, 1))) is None:
            return
    raise UserCodeError(f"{failed}. It fails on each of {TRIED} records of {records.num_rows:,}")


def _search(calls: Calls, records: pa.Table, found: dict[int, str]) -> None:
    """Halve records until each that fails stands alone; it is tried once more."""
    if _fails(calls, records) is None:
        return
    if records.num_rows > 1:
        half = records.num_rows // 2
        for some in (records.slice(0, half), records.slice(half)):
            _search(calls, some, found)
    elif (again := _fails(calls, records)) is not None:
        found[records[WHICH.name][0].as_py()] = str(again)[:SAID]
