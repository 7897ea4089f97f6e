"""Law 2: every (record, window) pair is on time, late, open or preloaded: none is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import reference as ref
from tests.speed import answer
from tests.steps import CASES, case
from tests.streams import small_streams

pytestmark = pytest.mark.law


@pytest.mark.parametrize("name", CASES)
@given(stream=small_streams(), cut=st.integers(1, 60))
def test_pairs_are_conserved_at_every_sealed_position(name: str, stream: list, cut: int) -> None:
    step = case(name)
    blocks = [ref.Block(records, kind, live) for kind, live, records in stream][:cut]
    if not blocks:
        return
    pairs = sum(
        len(step.oracle.window.starts(r["event_time"]))
        for block in blocks
        for r in block.records
        if r is not None and step.oracle.where(r) is True
    )
    found = answer(step.spec, blocks, range(1, len(blocks)), shards=2, pieces=1)
    on_time = sum(row["n_records"] for row in found.timely.values())
    late = sum(part["n_records"][0].as_py() for parts in found.late.values() for part in parts)
    assert pairs == on_time + late + found.open_pairs


@given(stream=small_streams(), start=st.integers(0, 8))
def test_the_oracle_conserves_pairs_with_history_too(stream: list, start: int) -> None:
    step = case("both")
    blocks = [ref.Block(records, kind, live) for kind, live, records in stream]
    found = ref.run(step.oracle, blocks, min(start, len(blocks)))
    counts = [
        sum(a.n_records for a in part.values())
        for part in (found.timely, found.late, found.preloaded)
    ]
    assert found.pairs == sum(counts) + found.open_pairs
