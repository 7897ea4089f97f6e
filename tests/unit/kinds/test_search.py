"""Alarms and late records of a micro-batch, against the model, wherever the log is cut."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.expression import Column, Operation, Operator
from penstock.core.measure import ColumnType
from penstock.core.slack import SlackPolicy, SlackSpec
from penstock.core.window import WindowSpec
from penstock.kinds.keyed.kept import NEVER
from penstock.kinds.keyed.runs import SEQ, TIME
from penstock.kinds.lookup.search import Search
from penstock.kinds.lookup.spec import LookupSpec, Pairs
from penstock.kinds.lookup.trimmed import DROPPED
from tests import lookup_model as model
from tests.lookup_model import Kept, Lake, LookUp, Record
from tests.speed import none

LOG = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 15), st.integers(0, 2)), max_size=40
)
SITES = [Column(f"{side}.site", ColumnType.LONG) for side in ("new", "old")]


def step(pairs: Pairs, keep: int) -> LookupSpec:
    return LookupSpec(
        name="plates",
        keys=(Column("plate", ColumnType.STRING),),
        where=None,
        window=WindowSpec(1_000, 1_000),
        slack=SlackSpec(SlackPolicy.FIXED, 0),
        keep=keep,
        pairs=pairs,
        reach=model.REACH if pairs is Pairs.ALL else None,
        kept=(Column("site", ColumnType.LONG),),
        alarm=Operation(Operator.NOT_EQUAL, (SITES[0], SITES[1])),
    )


def rows_of(records: list[Record], kept: dict[str, Kept]) -> pa.Table:
    """What a state holds, and new records after it."""
    there = [(r, NEVER) for mine in kept.values() for r in mine.records]
    marks = {mine.records[-1].seq: mine.dropped for mine in kept.values() if mine.dropped}
    there = [(r, NEVER if r.seq not in marks else marks[r.seq].time) for r, _ in there]
    there += [(r, NEVER) for r in records]
    return pa.table({
        "plate": pa.array([r.key for r, _ in there], pa.string()),
        "site": pa.array([r.site for r, _ in there], pa.int64()),
        TIME: pa.array([r.time for r, _ in there], pa.int64()),
        SEQ: pa.array([r.seq for r, _ in there], pa.int64()),
        DROPPED: pa.array([d for _, d in there], pa.int64()),
    })  # fmt: skip


@pytest.mark.parametrize("pairs", [*Pairs])
@given(log=LOG, keep=st.integers(1, 4), cut=st.integers(0, 40))
def test_alarms_and_late_records_are_the_models(
    pairs: Pairs, log: list[tuple[str, int, int]], keep: int, cut: int
) -> None:
    records = [Record(time, seq, key, site) for seq, (key, time, site) in enumerate(log)]
    by = LookUp(Lake(None, 0.0), pairs.value, keep, None)  # type: ignore[arg-type]
    kept = by.loaded(records[:cut])
    pool = rows_of(records[cut:], kept)
    seqs = np.asarray(pool[SEQ])
    told = Search(step(pairs, keep), pool, none).found(np.flatnonzero(seqs >= cut))
    alarms, late = [], []
    for record in records[cut:]:
        alarms += by.timely(record, kept[record.key])
        late += [record.seq] if by.is_late(record, kept[record.key]) else []
        kept[record.key].add(record, keep)
    assert sorted(zip(seqs[told.old], seqs[told.new], strict=True)) == sorted(alarms)
    assert [*seqs[told.late]] == late
