"""Look-ups through door, source, state, sink and correction: alarms are a function of the log."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.kinds.lookup.spec import Pairs
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force, standing, timely_answers
from penstock.lake.ingest import door as door_module
from penstock.lake.serve.revisions import answers
from penstock.lake.storage import read
from penstock.spark import scan
from tests import lookup_model as model
from tests.lakes import Lake
from tests.lookups import (
    LookupWorld,
    alarms,
    case_of,
    check_stream,
    logged,
    lookup_lake,
    observed,
    seen,
)
from tests.rarely import rare
from tests.streams import write_jsonl
from tests.worlds import living

pytestmark = pytest.mark.law


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
    fed: Callable[[Pairs, random.Random], Lake],
    monkeypatch: pytest.MonkeyPatch,
    pairs: Pairs,
    seed: int,
) -> None:
    monkeypatch.setattr(scan, "KEPT", 7)
    monkeypatch.setattr(read, "PIECE", 3)
    draw = random.Random(seed)  # noqa: S311
    lake = fed(pairs, draw)
    query = lake.query(blocks=draw.randint(1, 3))
    while query.work():
        check_stream(lake)
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
            at = position(lake.tables, lake.step)
            assert at is not None
            in_force = answers_in_force(lake.tables, lake.step)
            events = logged(lake)[: at.sealed.seq + 1]
            assert alarms(in_force) == model.true_pairs(events, lake.step.pairs.value)
            assert not lake.correct(), "twice is once"
    assert lake.correct() >= 0
    final = model.true_pairs(logged(lake), lake.step.pairs.value)
    assert alarms(answers_in_force(lake.tables, lake.step)) == final
    shown = answers(lake.tables, standing(lake.tables, lake.step), lake.pipeline, {}, 3)
    told = alarms(timely_answers(lake.tables, lake.step))
    assert shown.count == len(final), "what was taken back is in force no more"
    assert shown.taken_back >= len(told - final)
    assert shown.count + shown.taken_back == shown.timely + shown.history + shown.only_late
    assert not lake.correct(recheck=True), "what was not touched is right"


def test_the_newest_record_of_all_may_be_late_itself(tmp_path: Path) -> None:
    """No watermark has passed it, and what it misses is corrected all the same."""
    lake = lookup_lake(tmp_path, "all", 1)
    lake.query()
    early = [("a", 0, 0), ("a", 1, 1), ("b", 0, 0), ("b", 1, 1), ("b", 2, 0)]
    for number, some in enumerate((early, [("a", 2, 2)])):
        rows = [observed(*one) for one in some]
        write_jsonl(tmp_path / "live" / f"{number}.jsonl", rows)
        lake.ingest()
        lake.query().run()
    assert lake.correct() > 0
    found = alarms(answers_in_force(lake.tables, lake.step))
    assert (0, 5) in found, "more than is kept lies between"
    assert found == model.true_pairs(logged(lake), "all")


@pytest.mark.parametrize("keep", [1, 3])
@pytest.mark.parametrize("seed", [0, rare(1)])
def test_whoever_dies_whenever_the_alarms_are_the_log_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int, seed: int
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 5)
    world = LookupWorld(tmp_path, case_of("consecutive", keep), 10 * seed + keep)
    for _ in living(world, 50):
        check_stream(world.lake, unit=1)
    assert world.counts["kills"]
    world.finish()
    lake = world.lake
    check_stream(lake, unit=1)
    found = alarms(answers_in_force(lake.tables, lake.step))
    assert found == model.true_pairs(logged(lake, unit=1), "consecutive")
    assert found
    assert not lake.correct(recheck=True)
