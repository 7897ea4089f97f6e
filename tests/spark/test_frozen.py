"""What is older than a pipeline keeps goes, and nothing that is asked of the rest changes."""

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.core.errors import ConfigError
from penstock.core.window import instant, micros
from penstock.lake.history.balance import balance, balance_at
from penstock.lake.history.position import position
from penstock.lake.history.standing import timely_answers
from penstock.lake.log.freezes import frozen
from tests import reference as ref
from tests.answers import Memory, assert_same, blocks_of, rows_by_pair
from tests.forgery import audited
from tests.lakes import Lake
from tests.spark.freezing import EACH, arrived, copied, maintained_by_a_mortal, rows_of, small
from tests.steps import case_of
from tests.streams import BEGIN
from tests.worlds import World, lived

pytestmark = pytest.mark.spark
STEPS = 50


@pytest.fixture(autouse=True)
def few() -> Iterator[None]:
    with small():
        yield


@pytest.fixture(scope="module")
def kept(quick: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    with small():
        return arrived(quick, tmp_path_factory.mktemp("kept"), "PT8M")


def test_what_is_kept_is_answered_and_audited_as_if_all_were_there(
    quick: SparkSession, kept: Lake, tmp_path: Path
) -> None:
    lake, whole = kept, arrived(None, tmp_path)
    freeze = frozen(lake.tables)
    assert freeze.seq >= EACH, "a good part of the log is frozen"
    assert min(r["arrival_seq"] for r in rows_of(lake, "events")) > freeze.seq
    for table in ("control", "late", "blocks"):
        assert len(rows_of(lake, table)) < len(rows_of(whole, table)), table
    assert lake.in_force() == whole.in_force()
    assert balance(lake.tables, lake.step) == balance(whole.tables, whole.step)
    now = lake.clock.now()
    some, every = audited(quick, lake, now), audited(quick, lake, now, everything=True)
    truth = audited(quick, whole, now, everything=True)
    for found in (some, every):
        assert (found.red, found.said) == (set(), ())
        totals = ("received", "accepted", "quarantined", "pairs_events", "pairs_on_time",
                  "pairs_late", "pairs_open", "pairs_unaccounted")  # fmt: skip
        assert {n: found.row[n] for n in totals} == {n: truth.row[n] for n in totals}
    assert every.row["everything"]
    assert 0 < every.row["answers_compared"] < truth.row["answers_compared"]


def test_what_is_frozen_is_not_corrected(kept: Lake, tmp_path: Path) -> None:
    lake = copied(kept, tmp_path)
    before = lake.in_force()
    assert frozen(lake.tables).window_from > micros(BEGIN)
    with pytest.raises(ConfigError, match="are frozen"):
        lake.correct(BEGIN, BEGIN + timedelta(minutes=5), recheck=True)
    lake.correct(recheck=True)
    assert lake.in_force() == before


def remembered(lake: Lake, memory: Memory) -> None:
    """Every law that freezing must leave alone, against an oracle that forgets nothing."""
    at = position(lake.tables, lake.step)
    assert at is not None
    blocks = blocks_of(lake.tables, lake.pipeline, memory)
    spec = at.epoch.slack
    begun = ref.Slack(spec.policy.value, spec.span)
    expected = ref.run(lake.epoch_oracle(), blocks[: at.sealed.block], at.epoch.block, begun)
    assert at.sealed.state.watermark == expected.watermarks[-1]
    assert at.sealed.open_pairs == expected.open_pairs
    found = balance_at(lake.tables, lake.step, at)
    assert found.on_time == sum(a.n_records for a in expected.timely.values())
    assert found.late == sum(a.n_records for a in expected.late.values())
    in_force = lake.in_force()
    settled = expected.corrected.keys() - lake.pending(at)
    assert settled <= in_force.keys()
    answers = rows_by_pair(lake.step, timely_answers(lake.tables, lake.step), "through_seq")
    assert_same(expected.timely, answers)


class Freezing(World):
    """A life in which somebody may ask for a correction of what is frozen."""

    def correct(self) -> None:
        gone = frozen(self.lake.tables).window_from
        try:
            super().correct()
        except ConfigError as refused:
            assert f"{instant(gone):%F %T} UTC are frozen" in str(refused)  # noqa: PT017


def frozen_throughout(spark: SparkSession, home: Path, seed: int, looks: int) -> int:
    """A life in which much is frozen and anybody may die of it; returns how often it was."""
    world, memory = Freezing(home, case_of(seed), seed, 4, keep="PT1M"), Memory()
    lake, draw = world.lake, random.Random(seed + 7)  # noqa: S311
    for look, _ in enumerate(lived(world, STEPS, looks)):
        for _ in range(32 // looks):
            world.arrive()
            lake.ingest()
        lake.query().run()
        lake.correct()
        at = position(lake.tables, lake.step)
        if at is None or at.seq < 0:
            continue
        memory.see(lake.tables, lake.pipeline)
        now = lake.clock.now()
        found = [audited(spark, lake, now, kept=True)]
        if look % 2:
            found.append(audited(spark, lake, now, everything=True))
        assert all((one.red, one.said) == (set(), ()) for one in found)
        for _ in range(3):
            world._door = world._query = None  # begun anew
            maintained_by_a_mortal(lake, draw, world.death)
            remembered(lake, memory)
    return frozen(lake.tables).number + 1


@pytest.mark.parametrize("seed", [1])
def test_lives_in_which_the_log_is_frozen(quick: SparkSession, tmp_path: Path, seed: int) -> None:
    assert frozen_throughout(quick, tmp_path, seed, looks=2) > 0


@pytest.mark.all
@pytest.mark.parametrize("seed", [*range(2, 30), 1_001, 1_002, 2_001, 2_002])
def test_many_lives_in_which_the_log_is_frozen(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    frozen_throughout(quick, tmp_path, seed, looks=8)
