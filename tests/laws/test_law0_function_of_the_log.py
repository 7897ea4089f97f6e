"""Law 0: the timely answers are a pure function of the log.

Any cut into micro-batches at block boundaries, any number of shards, rows in any pieces: the same
answers, and the same late rows as sums per window and key; both as the oracle says.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import reference as ref
from tests.answers import assert_same, late_sums
from tests.speed import answer
from tests.steps import CASES, case
from tests.streams import small_streams

pytestmark = pytest.mark.law


@pytest.mark.parametrize("name", CASES)
@given(
    stream=small_streams(),
    cuts=st.sets(st.integers(1, 40)),
    shards=st.integers(1, 3),
    pieces=st.integers(1, 3),
)
def test_any_cut_gives_the_answers_of_the_log(
    name: str, stream: list, cuts: set[int], shards: int, pieces: int
) -> None:
    step = case(name)
    blocks = [ref.Block(records, kind, live) for kind, live, records in stream]
    if not blocks:
        return
    expected = ref.run(step.oracle, blocks)
    inside = {c for c in cuts if c < len(blocks)}
    found = answer(step.spec, blocks, sorted(inside), shards=shards, pieces=pieces)
    assert_same(expected.timely, found.timely)
    assert_same(expected.late, late_sums(step.spec, found.late))
    assert found.open_pairs == expected.open_pairs
    counted = found.classes
    assert [counted.class_1, counted.class_2, counted.class_3] == expected.classes
    late = expected.late_times
    assert counted.late_from_us == min(late, default=None)
    assert counted.late_to_us == max(late, default=None)


@pytest.mark.parametrize("name", CASES)
@given(
    stream=small_streams(),
    cuts=st.sets(st.integers(1, 40)),
    sheds=st.dictionaries(st.integers(0, 60), st.integers(0, 100), max_size=4),
)
def test_what_is_shed_came_too_late_for_all(
    name: str, stream: list, cuts: set[int], sheds: dict[int, int]
) -> None:
    step, changes = case(name), sorted(sheds.items())
    blocks = [ref.Block(records, kind, live) for kind, live, records in stream]
    if not blocks or not step.spec.sheds:
        return
    expected = ref.run(step.oracle, blocks, sheds=changes)
    inside = sorted(c for c in cuts if c < len(blocks))
    found = answer(step.spec, blocks, inside, shards=2, pieces=1, sheds=changes)
    assert_same(expected.timely, found.timely)
    assert_same(expected.late, late_sums(step.spec, found.late))
    assert found.shed == expected.shed
    assert found.open_pairs == expected.open_pairs
    counted = found.classes
    assert [counted.class_1, counted.class_2, counted.class_3] == expected.classes


@given(stream=small_streams(most=30, block=3))
def test_every_block_alone_and_all_at_once_agree_to_the_last_bit(stream: list) -> None:
    step = case("codes")
    blocks = [ref.Block(records, kind, live) for kind, live, records in stream]
    if not blocks:
        return
    alone = answer(step.spec, blocks, range(1, len(blocks)), shards=2, pieces=1)
    at_once = answer(step.spec, blocks, [], shards=1, pieces=2)
    for pair, row in at_once.timely.items():
        counted = {k: v for k, v in row.items() if k not in {"ratio"}}
        assert {k: alone.timely[pair][k] for k in counted} == counted
    assert alone.timely.keys() == at_once.timely.keys()
