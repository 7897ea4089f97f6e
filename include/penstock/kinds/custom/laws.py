"""Whether user code keeps what the stream relies on: tried on a sample, the smallest failure told.

Rows must be dealt with alone, and states must merge in any order and any split to the same: what
says a micro-batch, a shard or the audit would differ otherwise.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.groups import group
from penstock.kinds.custom.calls import Calls, UserCodeError
from penstock.kinds.custom.mapper import taken
from penstock.kinds.custom.poison import without_poison
from penstock.kinds.custom.spec import WHICH, CustomSpec
from penstock.kinds.side import Sides

TRIALS, MOST, ORDERS = 200, 9, 12
"""Sets of records of a key, records of a set, and orders in which each is merged."""
Said = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Broken:
    """A law that does not hold.

    Attributes:
        law: what does not.
        records: fewest rows for which it does not.
        one, other: what is said of them, where it should be the same.
        how: how the two came about.
    """

    law: str
    records: Said
    one: Said
    other: Said
    how: tuple[str, str]

    def __str__(self) -> str:
        """For people, a line each."""
        rows = "".join(f"\n    {row}" for row in self.records)
        both = zip(self.how, (self.one, self.other), strict=True)
        said = "".join(f"\n  {how}: {', '.join(map(str, what))}" for how, what in both)
        return f"{self.law}:{rows}{said}"


def broken(step: CustomSpec, records: pa.Table, sides: Sides, seed: int = 0) -> Broken | None:
    """The first law that does not hold on some records; none: all do.

    Args:
        step: the custom step.
        records: with ``arrival_seq``, ``event_time`` and the columns that the step reads.
        sides: side data.
        seed: of what is tried.

    Raises:
        UserCodeError: the code fails.
    """
    calls, draw = Calls(step), random.Random(seed)  # noqa: S311
    records = taken(step, records, sides)
    if not records.num_rows:
        return None
    _require_taken(calls, records)
    return _map_mixes_rows(calls, records, draw) or _states_do_not_merge(calls, records, draw)


def _require_taken(calls: Calls, records: pa.Table) -> None:
    """Name a record on which the code fails."""
    *_, excluded = without_poison(calls, records)
    for seq, reason in zip(*(column.to_pylist() for column in excluded.columns), strict=True):
        mine = records.filter(pc.equal(records[WHICH.name], seq)).to_pylist()
        count = f", and {excluded.num_rows - 1:,} more" if excluded.num_rows > 1 else ""
        raise UserCodeError(f"{reason}. The stream would leave out this record{count}: {mine[0]}")


def _map_mixes_rows(calls: Calls, records: pa.Table, draw: random.Random) -> Broken | None:
    def mixed(rows: pa.Table) -> tuple[Said, Said] | None:
        together = _sorted(calls.map(rows))
        alone = [row for at in range(len(rows)) for row in _sorted(calls.map(rows.slice(at, 1)))]
        alone.sort(key=repr)
        return None if alone == together else (together, alone)

    count = records.num_rows
    for _ in range(TRIALS // 10):
        some = records.take(pa.array(sorted(draw.sample(range(count), min(count, 4 * MOST)))))
        if mixed(some) is not None:
            return _smallest("map mixes rows: a record must be dealt with alone", some, mixed,
                             ("all at once", "one by one"))  # fmt: skip
    return None


def _states_do_not_merge(calls: Calls, records: pa.Table, draw: random.Random) -> Broken | None:
    mapped = calls.map(records)
    keys = [mapped[key] for key in calls.step.key_names]
    ids, _ = group(keys, mapped.num_rows)
    by_key = [rows for rows in np.split(*_runs(ids)) if len(rows)]

    def differs(rows: pa.Table) -> tuple[Said, Said] | None:
        own, mine = random.Random(0), calls.lift(rows)  # noqa: S311
        after = calls.init(1)
        for at in range(len(rows)):
            after = calls.update(after, rows.slice(at, 1))
        one = calls.finish(after).to_pylist()
        for _ in range(ORDERS):
            order = own.sample(range(len(rows)), len(rows))
            other = calls.finish(_tree(calls, mine.take(pa.array(order)), own)).to_pylist()
            if other != one:
                return one, other
        return None

    for _ in range(TRIALS):
        mine = by_key[draw.randrange(len(by_key))]
        some = np.sort(draw.sample(mine.tolist(), min(len(mine), draw.randint(1, MOST))))
        rows = mapped.take(pa.array(some)).combine_chunks()
        if differs(rows) is not None:
            return _smallest("reduce does not merge", rows, differs,
                             ("one after the other", "merged in another order"))  # fmt: skip
    return None


def _runs(ids: Any) -> tuple[Any, Any]:
    order = np.argsort(ids, kind="stable")
    return order, np.flatnonzero(np.diff(ids[order])) + 1


def _tree(calls: Calls, states: pa.Table, draw: random.Random) -> pa.Table:
    """Some states merged to one, in a random tree."""
    if states.num_rows == 1:
        empty = draw.random() < 0.3  # noqa: PLR2004  now and then with a state of nothing
        return calls.merge(calls.init(1), states) if empty else states
    at = draw.randint(1, states.num_rows - 1)
    parts = [_tree(calls, part, draw) for part in (states.slice(0, at), states.slice(at))]
    return calls.merge(*parts)


def _smallest(
    law: str,
    rows: pa.Table,
    fails: Callable[[pa.Table], tuple[Said, Said] | None],
    how: tuple[str, str],
) -> Broken:
    """Leave out row after row while it still fails."""
    at = 0
    while at < rows.num_rows and rows.num_rows > 1:
        fewer = rows.take(pa.array([n for n in range(rows.num_rows) if n != at]))
        if fails(fewer) is None:
            at += 1
        else:
            rows, at = fewer, 0
    found = fails(rows)
    assert found is not None  # noqa: S101  it does for these
    return Broken(law, rows.to_pylist(), *found, how)


def _sorted(rows: pa.Table) -> Said:
    return sorted(rows.to_pylist(), key=repr)


def tried(step: CustomSpec, at: Sequence[int], columns: pa.Table, sides: Sides) -> Broken | None:
    """The same for a sample of a source.

    Args:
        step: the custom step.
        at: place of each record in the order of arrival.
        columns: of the records.
        sides: side data.
    """
    return broken(step, columns.append_column(WHICH.name, pa.array(at, pa.int64())), sides)
