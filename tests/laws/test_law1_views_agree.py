"""Law 1: after corrections the answers in force are the reference's, for any order and any K."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.marks import Marks
from penstock.columns.windows import windows_a_pane
from penstock.core.window import BEGINNING
from penstock.kinds.windowed.layout import layout_of
from penstock.kinds.windowed.mapper import map_records, to_windows
from tests import reference as ref
from tests.answers import assert_same
from tests.speed import answer, events_of
from tests.steps import CASES, Case, case
from tests.streams import small_streams

pytestmark = pytest.mark.law


def recomputed(step: Case, blocks: list[ref.Block]) -> dict[ref.Pair, dict]:
    """Every window over all records, by the functions of the correction runner."""
    partials = map_records(step.spec, events_of(step.spec, blocks), Marks((0,), (BEGINNING,)))
    panes = np.asarray(partials["pane"])
    counts = windows_a_pane(step.spec.window, panes)
    windows = to_windows(step.spec, partials, np.zeros_like(counts), counts)
    measures = layout_of(step.spec).finish(windows)
    found = {}
    for i, row in enumerate(windows.to_pylist()):
        pair = (row["window_start"], tuple(row[k] for k in step.spec.key_names))
        values = {name: pa.array(column)[i].as_py() for name, column in measures.items()}
        found[pair] = values | {"n_records": row["n_records"], "seq": row["last_seq"]}
    return found


@pytest.mark.parametrize("name", CASES)
@given(stream=small_streams(), cuts=st.sets(st.integers(1, 40)))
def test_timely_answers_with_corrections_of_late_windows_are_exact(
    name: str, stream: list, cuts: set[int]
) -> None:
    step = case(name)
    blocks = [ref.Block(records, kind, live) for kind, live, records in stream]
    if not blocks:
        return
    expected = ref.run(step.oracle, blocks)
    inside = sorted(c for c in cuts if c < len(blocks))
    found = answer(step.spec, blocks, inside, shards=2, pieces=1)
    again = recomputed(step, blocks)
    in_force = found.timely | {pair: again[pair] for pair in found.late}
    assert_same(expected.corrected, in_force, position=False)


@given(stream=small_streams(), seed=st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_change_what_is_exact(stream: list, seed) -> None:
    step = case("sites")
    records = [r for _, _, rows in stream for r in rows if r is not None]
    shuffled = records[:]
    seed.shuffle(shuffled)
    one = ref.run(step.oracle, [ref.Block(tuple(records)), ref.Block(kind=ref.END)])
    found = recomputed(step, [ref.Block(tuple(shuffled))])
    assert_same(one.corrected, found, position=False)
