"""What is older than a pipeline keeps goes, and nothing that is asked of the rest changes."""

import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.core.errors import ConfigError
from penstock.core.window import instant
from penstock.lake.history import thinning
from penstock.lake.history.balance import balance, balance_at
from penstock.lake.history.maintain import maintain_pipeline
from penstock.lake.history.position import position
from penstock.lake.history.standing import timely_answers
from penstock.lake.ingest import door as door_module
from penstock.lake.ingest.verdict import IS_FROZEN
from penstock.lake.log.freezes import frozen
from penstock.lake.proof import scope
from penstock.lake.proof.freezing import Freezer
from penstock.lake.storage.commit import Table
from penstock.lake.storage.read import read_table
from penstock.spark import chunks
from tests import reference as ref
from tests.answers import Memory, assert_same, blocks_of, rows_by_pair
from tests.doubles import Killed, RisingClock
from tests.forgery import audited
from tests.lakes import Lake, World, make_lake
from tests.spark.conftest import lived, python_path
from tests.steps import CASES, case_of
from tests.streams import BEGIN, disordered, write_jsonl

pytestmark = pytest.mark.spark
FILES, EACH = 7, 80
STEPS, LOOKS = 50, 8


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 16)
    monkeypatch.setattr(chunks, "PAIRS_A_CHUNK", 64)
    monkeypatch.setattr(scope, "LEAST", 90)


def maintained(lake: Lake) -> str:
    """One run of maintenance."""
    said = Freezer(lake.tables, lake.pipeline, lake.clock).work()
    maintain_pipeline(lake.tables, lake.pipeline)
    return said


def arrived(spark: SparkSession | None, home: Path, keep: str | None = None) -> Lake:
    """A lake to which files came, corrected after each; with Spark also audited and maintained."""
    lake = make_lake(home, CASES["sites"], keep=keep)
    lake.query()
    rows = disordered(FILES * EACH, seed=4, apart=4.0, late_share=0.2, late_by=300.0)
    for row in rows[7::40]:
        row["site"] = None
    for number in range(FILES):
        write_jsonl(home / "live" / f"{number}.jsonl", rows[EACH * number : EACH * (number + 1)])
        lake.ingest()
        lake.query(blocks=3).run()
        lake.correct()
        if spark is not None:
            found = audited(spark, lake, lake.clock.now(), kept=True)
            assert (found.red, found.said) == (set(), ())
            maintained(lake)
    return lake


@pytest.fixture(scope="module")
def kept(quick: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    with pytest.MonkeyPatch.context() as patch:
        small.__wrapped__(patch)
        return arrived(quick, tmp_path_factory.mktemp("kept"), "PT8M")


def rows_of(lake: Lake, name: str) -> list[dict[str, Any]]:
    specs = {
        "events": lake.tables.events(lake.pipeline.types),
        "control": lake.tables.control(lake.step),
        "late": lake.tables.late(lake.step, []),
        "blocks": lake.tables.blocks(),
        "answers": lake.tables.answers(lake.step),
        "quarantine": lake.tables.quarantine(),
    }
    return list(read_table(Table(specs[name])).to_pylist())


def test_what_is_kept_is_answered_and_audited_as_if_all_were_there(
    quick: SparkSession, kept: Lake, tmp_path: Path
) -> None:
    lake, whole = kept, arrived(None, tmp_path)
    freeze = frozen(lake.tables)
    assert freeze.seq >= EACH, "a good part of the log is frozen"
    assert min(r["arrival_seq"] for r in rows_of(lake, "events")) > freeze.seq
    for table in ("control", "late", "blocks", "answers"):
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


def come(lake: Lake, name: str, minutes: float, *old: dict[str, Any]) -> None:
    """Records from so long after the beginning on, and old ones, are there and taken in."""
    begin = BEGIN + timedelta(minutes=minutes)
    rows = disordered(EACH, seed=len(name), apart=1.0, late_share=0.0, begin=begin)
    write_jsonl(lake.home / "live" / f"{name}.jsonl", [*rows, *old])
    lake.ingest()


@pytest.fixture(scope="module")
def due(quick: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake of which the next run of maintenance freezes the greater part."""
    with pytest.MonkeyPatch.context() as patch:
        small.__wrapped__(patch)
        lake = arrived(None, tmp_path_factory.mktemp("due"), "PT8M")
        assert maintained(lake) == "", "nothing was audited"
        audited(quick, lake, lake.clock.now(), kept=True)
        assert maintained(lake) == "", "all of it is young"
        come(lake, "later", 120)
        lake.query(blocks=3).run()
        asked = maintained(lake)
        assert asked.endswith(" will be frozen")
        assert maintained(lake) == f"{asked}: once the stream takes in more"
        old = disordered(2, seed=1)
        come(lake, "later still", 125, *old)
        refused = [r for r in rows_of(lake, "quarantine") if r["reason"] == IS_FROZEN]
        assert len(refused) == len(old)
        lake.query(blocks=3).run()
        said = maintained(lake)
        assert said.startswith(f"{asked}: once s has passed an audit of the first ")
        found = audited(quick, lake, lake.clock.now(), kept=True)
        assert (found.red, found.said) == (set(), ())
        return lake


def copied(lake: Lake, home: Path) -> Lake:
    shutil.copytree(lake.home / "lake", home / "lake")
    return replace(lake, home=home, clock=RisingClock())


def told(lake: Lake) -> Any:
    """All rows of the tables of which something goes, and the answers."""
    tables = ("events", "blocks", "late", "control", "answers")
    rows = {name: sorted(map(repr, rows_of(lake, name))) for name in tables}
    return rows, lake.in_force(), balance(lake.tables, lake.step)


KILLS = ["before freeze freezes", "within freeze freezes", "after freeze freezes"] + [
    f"{when} thin {table}"
    for table in ("events", "blocks", "late", "control", "answers")
    for when in ("before", "within", "after")
]
FEW = ("within freeze freezes", "within thin events", "before thin control")
MAINTAIN = """
import sys
from pathlib import Path
from tests.spark.test_frozen import maintained
from tests.lakes import make_lake
from tests.steps import CASES
maintained(make_lake(Path(sys.argv[1]), CASES["sites"], keep="PT8M"))
"""


@pytest.mark.parametrize(
    "point", [p if p in FEW else pytest.param(p, marks=pytest.mark.all) for p in KILLS]
)
def test_maintenance_that_is_killed_goes_on(due: Lake, tmp_path: Path, point: str) -> None:
    whole, killed = copied(due, tmp_path / "whole"), copied(due, tmp_path / "killed")
    assert maintained(whole).endswith(" are frozen")
    trace = tmp_path / "trace"
    environment = os.environ | {"PENSTOCK_CRASH_TRACE": str(trace), "PENSTOCK_CRASH_AT":
                                f"{point}:1", "PYTHONPATH": python_path()}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", MAINTAIN, str(killed.home)], env=environment, check=False,
        start_new_session=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    maintained(killed)
    maintained(killed)
    assert told(killed) == told(whole)
    assert frozen(killed.tables) == frozen(whole.tables)
    assert len(rows_of(killed, "events")) < len(rows_of(due, "events"))


def test_what_is_frozen_is_not_corrected(due: Lake, tmp_path: Path) -> None:
    lake = copied(due, tmp_path)
    before = lake.in_force()
    assert maintained(lake).endswith(" are frozen")
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


def frozen_throughout(spark: SparkSession, home: Path, seed: int) -> tuple[int, int]:
    """A life in which much is frozen and anybody may die of it; how much, and how many died."""
    world, memory = Freezing(home, case_of(seed), seed, 4, keep="PT1M"), Memory()
    lake, draw, deaths = world.lake, random.Random(seed + 7), 0  # noqa: S311

    def dies(*_: str) -> None:
        if draw.random() < 0.15:
            raise Killed

    for _ in lived(world, STEPS, LOOKS):
        for _ in range(4):
            world.arrive()
            lake.ingest()
        lake.query().run()
        lake.correct()
        at = position(lake.tables, lake.step)
        if at is None or at.seq < 0:
            continue
        memory.see(lake.tables, lake.pipeline)
        now = lake.clock.now()
        every = audited(spark, lake, now, everything=True)
        some = audited(spark, lake, now, kept=True)
        assert (some.red, some.said) == (every.red, every.said) == (set(), ())
        world._door = world._query = None
        for _ in range(3):
            world.death.share = 0.1
            try:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(thinning, "reached", dies)
                    maintained(lake)
            except Killed:
                deaths += 1
            world.death.share = 0.0
            remembered(lake, memory)
    return frozen(lake.tables).number + 1, deaths


@pytest.mark.parametrize("seed", [1])
def test_lives_in_which_the_log_is_frozen(quick: SparkSession, tmp_path: Path, seed: int) -> None:
    freezes, _ = frozen_throughout(quick, tmp_path, seed)
    assert freezes > 1


@pytest.mark.all
@pytest.mark.parametrize("seed", [*range(2, 30), 1_001, 1_002, 2_001, 2_002])
def test_many_lives_in_which_the_log_is_frozen(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    frozen_throughout(quick, tmp_path, seed)
