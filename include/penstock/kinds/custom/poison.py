"""Records on which user code fails: each is found, and left out alone.

Which are left out hangs on each record alone, and on what stands beside it as of its position: it
is a function of the log, wherever that is cut. Source: the isolation of poison messages.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.groups import group
from penstock.kinds.custom.calls import Calls, RecordError, UserCodeError
from penstock.kinds.custom.scan import reduced
from penstock.kinds.custom.spec import WHICH
from penstock.kinds.frame import EXCLUDED

MOST = 1_000
"""On more records at once it is the code that is wrong."""
EVERY = 20
"""So many, and no other record is there: it is the code, too."""
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
        _search(lambda some: lifted(calls, some), records, reasons)
        if not reasons:
            said = "Rows must be dealt with alone; records fail together that do not one by one"
            raise UserCodeError(f"{failed}. {said}") from failed
        if EVERY <= records.num_rows == len(reasons):
            raise UserCodeError(f"{failed}. It fails on each of {len(reasons)} records") from failed
    alone = pc.is_in(records[WHICH.name], pa.array([*reasons], pa.int64()))
    rest = records.filter(pc.invert(alone))
    excluded = pa.Table.from_pylist(
        [{WHICH.name: seq, "reason": said} for seq, said in reasons.items()], schema=EXCLUDED
    )
    return rest, lifted(calls, rest) if rest.num_rows else None, excluded


def _search(run: Callable[[pa.Table], object], records: pa.Table, found: dict[int, str]) -> None:
    """Halve records until each that fails stands alone; it is tried once more."""
    try:
        run(records)
    except RecordError as failed:
        if records.num_rows > 1:
            half = records.num_rows // 2
            for some in (records.slice(0, half), records.slice(half)):
                _search(run, some, found)
            return
        try:
            run(records)
        except RecordError as again:
            found[records[WHICH.name][0].as_py()] = str(again)[:SAID]
        if len(found) > MOST:
            raise UserCodeError(
                f"{failed}. It fails on more than {MOST:,} records at once"
            ) from failed
