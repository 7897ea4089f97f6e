"""Look-ups through door, source, state, sink and correction: alarms are a function of the log."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.kinds.lookup.spec import LookupSpec, Pairs
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force, timely_answers
from penstock.lake.history.view import late_at
from tests import lookup_model as model
from tests.lakes import Lake
from tests.lookups import alarms, logged, lookup_lake, seen
from tests.streams import SECOND, us, write_jsonl

pytestmark = pytest.mark.law


def check(lake: Lake) -> None:
    step, at = lake.step, position(lake.tables, lake.step)
    assert isinstance(step, LookupSpec)
    assert at is not None
    events = logged(lake)[: at.sealed.seq + 1]
    answers = timely_answers(lake.tables, step).to_pylist()
    told = alarms(timely_answers(lake.tables, step))
    assert told == model.true_timely(events, step.pairs.value, step.keep)
    for row in answers:
        for side in ("new", "old"):
            record = events[row[f"{side}_seq"]]
            assert (us(row[f"{side}_time"]) // SECOND, row["site"], row[f"{side}_code"]) == (
                record.time, record.key, record.site,
            )  # fmt: skip
    draw = random.Random(0)  # noqa: S311
    by = model.LookUp(model.Lake(draw, 0.0), step.pairs.value, step.keep, draw)
    kept, late = by.loaded([]), []
    for record in events:
        late += [record.seq] if by.is_late(record, kept[record.key]) else []
        kept[record.key].add(record, step.keep)
    found = late_at(lake.tables, step, at, [])
    assert sorted(found["last_seq"].to_pylist()) == late
    assert at.sealed.late == len(late)
    assert at.sealed.answered == len(events) - len(late)


@pytest.fixture
def fed(tmp_path: Path) -> Callable[[Pairs, random.Random], Lake]:
    """A lake whose log is full, and not read yet."""

    def make(pairs: Pairs, draw: random.Random) -> Lake:
        lake = lookup_lake(tmp_path, pairs.value, draw.randint(1, 4))
        for number in range(8):
            write_jsonl(tmp_path / "live" / f"{number}.jsonl", seen(draw, draw.randint(1, 12)))
        lake.query()
        lake.ingest()
        return lake

    return make


@pytest.mark.parametrize("pairs", [*Pairs])
@pytest.mark.parametrize("seed", range(3))
def test_any_micro_batches_tell_the_same_alarms(
    fed: Callable[[Pairs, random.Random], Lake], pairs: Pairs, seed: int
) -> None:
    draw = random.Random(seed)  # noqa: S311
    lake = fed(pairs, draw)
    query = lake.query(blocks=draw.randint(1, 3))
    while query.work():
        check(lake)
        if draw.random() < 0.3:
            query = lake.query(blocks=draw.randint(1, 3))


@pytest.mark.parametrize("pairs", [*Pairs])
@pytest.mark.parametrize("seed", range(4))
def test_corrections_add_what_was_missed_and_take_back_what_was_refuted(
    fed: Callable[[Pairs, random.Random], Lake], pairs: Pairs, seed: int
) -> None:
    draw = random.Random(seed)  # noqa: S311
    lake = fed(pairs, draw)
    query = lake.query(blocks=draw.randint(1, 3))
    while query.work():
        if draw.random() < 0.6:
            lake.correct(recheck=draw.random() < 0.2)
            in_force, at = (
                answers_in_force(lake.tables, lake.step),
                position(lake.tables, lake.step),
            )
            assert at is not None
            events = logged(lake)[: at.sealed.seq + 1]
            assert alarms(in_force) == model.true_pairs(events, lake.step.pairs.value)
            assert not lake.correct(), "twice is once"
    assert lake.correct() >= 0
    final = model.true_pairs(logged(lake), lake.step.pairs.value)
    assert alarms(answers_in_force(lake.tables, lake.step)) == final
    assert not lake.correct(recheck=True), "what was not touched is right"
